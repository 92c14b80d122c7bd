from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss

from lupi import PrivilegedClassifier
from lupi.compare.arrays import compare_methods, train_method

ROWS = ["no-pi", "no-pi [early stopping]", "no-pi [5 averaged]", "tram", "distillation"]
SEEDS = (3, 5, 8, 2, 9)


def task(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2))
    truth = np.where(X[:, 0] > 0, "yes", "no")
    liar = rng.random(60) < 0.4
    noisy = np.where(liar, np.where(truth == "yes", "no", "yes"), truth)
    return SimpleNamespace(X_train=X, y_train=noisy, privileged=liar[:, None], example=None, X_test=X, y_test=truth)


def test_every_method_has_every_seed_beside_no_pi():
    found = compare_methods(task, ["tram", "distillation"], [3, 5], parameters={"epochs": 3})
    assert found.runs[["method", "seed"]].to_numpy().tolist() == [[name, seed] for name in ROWS for seed in (3, 5)]
    assert found.summary.index.tolist() == ROWS
    lines = found.verdict.splitlines()
    assert lines[1].startswith("NLL: tram ")  # the only method with privileged information
    assert lines[2].startswith("Accuracy: tram ")


@pytest.mark.parametrize("parameters", [{"epochs": 3}, {"epochs": 12, "patience": 2}])
def test_seeds_together_are_models_fitted_alone(parameters):
    tasks = {seed: task(seed) for seed in SEEDS}
    for method in ("no-pi", "tram", "full-marginalization"):
        for row, seed in zip(train_method(tasks, {"method": method, **parameters}, SEEDS), SEEDS, strict=True):
            one = tasks[seed]
            model = PrivilegedClassifier(method, random_state=seed, **parameters)
            model.fit(one.X_train, one.y_train, privileged=one.privileged)
            p = model.predict_proba(one.X_test)
            assert row["nll"] == pytest.approx(log_loss(one.y_test, p), abs=1e-4)
            assert row["accuracy"] == pytest.approx(np.mean(model.predict(one.X_test) == one.y_test), abs=0.02)


def test_jobs_do_not_change_results():
    """Also if training is noisy, and with more seeds than train at once."""
    options = {"parameters": {"epochs": 2}, "seeds_at_once": 5}
    one, two = (compare_methods(task, ["het-tram"], (*SEEDS, 1, 4), jobs=jobs, **options).runs for jobs in (1, 2))
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), two.drop(columns="seconds"), check_exact=True)
    assert one["nll"].nunique() == len(one)


def test_threads_come_back():
    threads = torch.get_num_threads()
    broken = task(0)
    broken.y_train = broken.y_train[:-1]
    try:
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="y"):
            train_method({0: broken}, {"method": "no-pi", "epochs": 1}, [0])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_unknown_test_labels_are_refused():
    strange = task(0)
    strange.y_test = np.where(strange.y_test == "yes", "yes", "maybe")
    with pytest.raises(ValueError, match=r"y_test.*maybe"):
        train_method({0: strange}, {"method": "no-pi", "epochs": 1}, [0])
