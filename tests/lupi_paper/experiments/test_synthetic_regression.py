from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

from lupi_paper.experiments.synthetic import VARIANTS, compute_features, draw_samples, fit_probe, make_grid
from lupi_paper.experiments.synthetic_regression import GRID, Settings, marginal_mean, report, run, train

SMALL = Settings(seeds=2, n=200, epochs=1, long=2)


@pytest.fixture(scope="module")
def found():
    return run(SMALL, progress=False)


def test_the_marginal_mean_is_the_mean_of_labels():
    (sample,) = draw_samples(400_000, 0.1, [5])
    place = (sample.x * 10).astype(int)
    for cell in range(10):
        labels, x = sample.y[place == cell], sample.x[place == cell]
        assert abs((labels - marginal_mean(x)).mean()) < 4 * labels.std() / np.sqrt(len(labels))


class Sine(nn.Module):
    """A representation that holds the answer."""

    def forward(self, x):
        return torch.cat([torch.sin(2 * torch.pi * x), torch.zeros(x.shape[0], 63)], 1)


def test_the_probe_finds_what_is_in_the_representation():
    for sample in draw_samples(2500, 0.1, [0, 1]):
        found, line = (
            ((fit_probe(Ridge(alpha=0.5), trunk, sample, sample.y, GRID) - marginal_mean(GRID)) ** 2).mean()
            for trunk in (Sine(), nn.Linear(1, 64))
        )
        assert found < 5e-4  # 0.215 / 2500 for each of two parameters, about
        assert line == pytest.approx(0.0961, abs=2e-3)  # the best straight line, as SPEC has it


def test_the_probe_is_ridge():
    """Against the normal equations with an intercept that is not penalized."""
    (sample,), x = draw_samples(50, 0.1, [0]), make_grid((0.0, 1.0), 7)
    trunk = nn.Sequential(nn.Linear(1, 64), nn.Tanh())
    inner, at = compute_features(trunk, sample.x), compute_features(trunk, x)
    centred = inner - inner.mean(0)
    weight = np.linalg.solve(centred.T @ centred + 0.5 * np.eye(64), centred.T @ (sample.y - sample.y.mean()))
    expected = (at - inner.mean(0)) @ weight + sample.y.mean()
    assert fit_probe(Ridge(alpha=0.5), trunk, sample, sample.y, x) == pytest.approx(expected, abs=1e-5)


def test_every_variant_and_seed_is_there_and_repeats(found):
    assert set(VARIANTS) < set(found.table["variant"])
    assert (found.table.groupby("variant").size() == 2).all()
    assert found.table["rmse"].to_numpy() == pytest.approx(np.sqrt(found.table["mse"]))
    again = run(SMALL, progress=False)
    pd.testing.assert_frame_equal(again.table, found.table, check_exact=True)
    assert again.text == found.text


def test_the_report_says_what_the_table_holds(found):
    """The paper's numbers stand only beside the paper's protocol."""
    table = found.table.copy()
    assert "0.0858" not in found.text
    table.loc[table["variant"] == "no PI", "mse"] = 0.08
    table.loc[table["variant"] == "PI", "mse"] = 0.002
    text = report(table, replace(Settings(), seeds=2, long=2))
    assert "| no PI | a linear head on φ(x) | 0.0800 ± 0.0000 |" in text
    assert "| 0.0858 |" in text
    assert "With PI the error (MSE) is 40 times smaller than without." in text


@pytest.mark.parametrize(
    ("no_pi", "pi", "text"),
    [(0.0021, 0.002, "The gain is one of speed"), (0.02, 0.002, "Most of the gain"), (0.08, 0.002, "does not make up")],
)
def test_the_report_says_what_longer_training_shows(found, no_pi, pi, text):
    table = found.table.copy()
    for name, mse in {"no PI": 0.08, "PI": 0.002, "no PI, 2 epochs": no_pi, "PI, 2 epochs": pi}.items():
        table.loc[table["variant"] == name, "mse"] = mse
    assert text in report(table, SMALL)


def test_privileged_information_helps_with_the_papers_protocol():
    """A small version of the claim: four seeds instead of twenty."""
    mse = {v: np.mean([run["mse"] for run in train(Settings(seeds=4), v, range(4))]) for v in ("no PI", "PI")}
    assert mse["no PI"] > 10 * mse["PI"]


@pytest.mark.parametrize(("name", "value"), [("seeds", 1), ("noise", 0.0), ("ridge", -1.0), ("initialization", "x")])
def test_other_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^Expected `{name}` to be "):
        Settings(**{name: value})
