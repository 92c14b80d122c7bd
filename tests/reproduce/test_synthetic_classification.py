import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from lupi.reproduce.synthetic import VARIANTS, draw_samples, make_grid
from lupi.reproduce.synthetic_classification import SPAN, Settings, decide, fit_probes, judge_gain, run

SMALL = Settings(seeds=2, n=200, epochs=1, long=2)


class Sine(nn.Module):
    """A representation that holds the answer."""

    def forward(self, x):
        return torch.cat([torch.sin(2 * torch.pi * x), torch.zeros(x.shape[0], 63)], 1)


def test_the_probe_on_the_answer_is_the_oracle():
    samples, x = draw_samples(5000, 0.4, [0, 1], SPAN), make_grid(SPAN)
    found = fit_probes([Sine()] * 2, samples, 1.0, x)
    assert (((found > 0.5) == decide(x)).mean(1) > 0.97).all()


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
    assert f"With PI the classifier agrees with the oracle for {share:.1f} % of x" in found.text


@pytest.mark.parametrize(("name", "value"), [("seeds", 1), ("noise", 0.0), ("c", 0.0), ("head", "x"), ("loss", "x")])
def test_other_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^Expected `{name}` to be "):
        Settings(**{name: value})


def test_a_gain_is_judged_by_the_standard_error():
    steady = np.linspace(-1, 1, 9)
    assert judge_gain(steady + 2).startswith("The paper's order is reproduced")
    assert "opposite" in judge_gain(steady - 2)
    assert "not reproduced" in judge_gain(steady + 0.1)
