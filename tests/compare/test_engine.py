from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.metrics import log_loss

from lupi import PrivilegedClassifier
from lupi.compare.engine import compare, run, summarize


def task(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2))
    truth = np.where(X[:, 0] > 0, "yes", "no")
    liar = rng.random(60) < 0.4
    noisy = np.where(liar, np.where(truth == "yes", "no", "yes"), truth)
    return SimpleNamespace(X_train=X, y_train=noisy, privileged=liar[:, None], example=None, X_test=X, y_test=truth)


def test_one_row_per_method_and_seed_that_repeats():
    methods, parameters = ["tram", "no-pi"], {"epochs": 3}
    runs = compare(task, methods, [3, 5], parameters=parameters)
    assert list(zip(runs["method"], runs["seed"], strict=True)) == [
        ("tram", 3),
        ("no-pi", 3),
        ("tram", 5),
        ("no-pi", 5),
    ]
    again = run([task(3), task(5)], "tram", [3, 5], parameters)[1]
    row = runs.query("method == 'tram' and seed == 5").iloc[0]
    assert (again["nll"], again["accuracy"]) == (row["nll"], row["accuracy"])
    assert 0 <= row["accuracy"] <= 1
    assert row["nll"] > 0


SEEDS = (3, 5, 8, 2, 9)


@pytest.mark.parametrize("parameters", [{"epochs": 3}, {"epochs": 12, "patience": 2}])
def test_seeds_together_are_models_fitted_alone(parameters):
    tasks = [task(seed) for seed in SEEDS]
    for method in ("no-pi", "tram", "full-marginalization"):
        for row, one, seed in zip(run(tasks, method, SEEDS, parameters), tasks, SEEDS, strict=True):
            model = PrivilegedClassifier(method, random_state=seed, **parameters)
            model.fit(one.X_train, one.y_train, privileged=one.privileged)
            p = model.predict_proba(one.X_test)
            assert (row["method"], row["seed"]) == (method, seed)
            assert row["nll"] == pytest.approx(log_loss(one.y_test, p), abs=1e-4)
            assert row["accuracy"] == pytest.approx(np.mean(model.predict(one.X_test) == one.y_test), abs=0.02)


def test_jobs_do_not_matter():
    """Also where training is noisy, and for more seeds than train at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lupi.compare.engine.SEEDS_AT_ONCE", 5)
        seeds = (*SEEDS, 1, 4)
        one, two = (compare(task, ["no-pi", "het-tram"], seeds, parameters={"epochs": 2}, jobs=jobs) for jobs in (1, 2))
    expected = [(method, seed) for seed in sorted(seeds) for method in ("no-pi", "het-tram")]
    assert list(zip(one["method"], one["seed"], strict=True)) == expected
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), two.drop(columns="seconds"), check_exact=True)
    assert one["nll"].nunique() == len(one)


def test_threads_come_back():
    threads = torch.get_num_threads()
    broken = task(0)
    broken.y_train = broken.y_train[:-1]
    try:
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="y"):
            run([broken], "no-pi", [0], {"epochs": 1})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_summary_is_paired_by_seed():
    rng = np.random.default_rng(0)
    rows = [
        {"method": method, "seed": seed, "nll": rng.random(), "accuracy": rng.random(), "seconds": 1.0}
        for method in ("no-pi", "tram")
        for seed in range(6)
    ]
    runs = pd.DataFrame(rows).sample(frac=1, random_state=0)
    summary = summarize(runs)
    values = {name: runs[runs["method"] == name].sort_values("seed")["nll"].to_numpy() for name in ("no-pi", "tram")}
    difference = values["tram"] - values["no-pi"]
    assert summary.loc["tram", "nll"] == pytest.approx(values["tram"].mean())
    assert summary.loc["tram", "nll_sd"] == pytest.approx(values["tram"].std(ddof=1))
    assert summary.loc["tram", "nll_difference"] == pytest.approx(difference.mean())
    assert summary.loc["tram", "nll_error"] == pytest.approx(difference.std(ddof=1) / np.sqrt(6))
    assert summary.loc["no-pi", "nll_difference"] == 0
    test = stats.ttest_rel(values["tram"], values["no-pi"])
    interval = test.confidence_interval(0.95)
    assert summary.loc["tram", ["nll_low", "nll_high"]].tolist() == pytest.approx([interval.low, interval.high])
    assert summary.loc["tram", "nll_p"] == pytest.approx(test.pvalue)
