from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lupi.compare import compare, run, summarize


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
    again = run(task(5), "tram", 5, parameters)
    row = runs.query("method == 'tram' and seed == 5").iloc[0]
    assert (again["nll"], again["accuracy"]) == (row["nll"], row["accuracy"])
    assert 0 <= row["accuracy"] <= 1
    assert row["nll"] > 0


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
