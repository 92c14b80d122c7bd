import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from lupi_paper.experiments.synthetic import VARIANTS, draw_samples, fit_probe, list_arms, make_grid
from lupi_paper.experiments.synthetic_classification import GRID, SENSITIVITY, SPAN, Settings, decide, report, run

SMALL = Settings(seeds=2, n=200, epochs=1, long=2)


class Sine(nn.Module):
    """A representation that holds the answer."""

    def forward(self, x):
        return torch.cat([torch.sin(2 * torch.pi * x), torch.zeros(x.shape[0], 63)], 1)


def test_the_probe_on_the_answer_is_the_oracle():
    for sample in draw_samples(5000, 0.4, [0, 1], SPAN):
        found = fit_probe(LogisticRegression(), Sine(), sample, sample.y > 0, GRID)
        assert ((found > 0.5) == decide(GRID)).mean() > 0.97


def test_the_oracle_marginalizes_the_noise():
    """The decision that is right most often at x."""
    (sample,), points = draw_samples(400_000, 0.4, [3], SPAN), make_grid(SPAN, 40)
    place = ((sample.x - SPAN[0]) / 4 * 40).astype(int)
    share = np.bincount(place, sample.y > 0) / np.bincount(place)
    clear = np.abs(np.sin(2 * np.pi * points)) > 0.2
    assert ((share > 0.5) == decide(points))[clear].all()


def test_every_variant_and_seed_is_there_and_repeats():
    found, again = (run(SMALL, progress=False) for _ in range(2))
    assert set(VARIANTS) < set(found.table["variant"])
    assert found.table["agreement"].between(0, 1).all()
    pd.testing.assert_frame_equal(again.table, found.table, check_exact=True)
    assert again.text == found.text
    share = 100 * found.table.query("variant == 'PI'")["agreement"].mean()
    assert f"| PI | {VARIANTS['PI']} | {share:.1f} ± " in found.text


@pytest.mark.parametrize(("name", "value"), [("seeds", 1), ("noise", 0.0), ("c", 0.0), ("head", "x"), ("loss", "x")])
def test_other_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^Expected `{name}` to be "):
        Settings(**{name: value})


@pytest.mark.parametrize(
    ("gain", "text"), [(2, "order is reproduced"), (-2, "opposite of the paper's"), (0.1, "gain is not reproduced")]
)
def test_a_gain_is_judged_by_the_standard_error(gain, text):
    share = {name: np.zeros(9) for name in list_arms(SMALL, SENSITIVITY)}
    assert text in report(share | {"PI": np.linspace(-1, 1, 9) + gain}, SMALL)
