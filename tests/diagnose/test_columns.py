import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import Problem
from lupi.diagnose.columns import compare_widths
from lupi.diagnose.findings import describe_capacity

ROWS = 400


@pytest.mark.parametrize(
    ("gain", "spread", "words"),
    [
        (0.1, 0.1, "The network is too small"),
        (0.0, 0.01, "The network is large enough: a wider one gains little or nothing"),
        (-0.1, 0.1, "The network is large enough"),
        (0.005, 0.01, "The network is large enough"),  # significant, but less than 1 % of the loss
        (0.0, 1.0, "It is not known whether the network is large enough: a wider one may gain up to "),
        (0.1, 2.0, "It is not known whether the network is large enough"),
        (0.009, 0.03, "It is not known whether the network is large enough"),  # it may be more than 1 % of the loss
    ],
)
def test_the_network_is_judged_by_the_interval_of_the_gain(gain, spread, words):
    rng = np.random.default_rng(0)
    noise = rng.permutation(np.repeat([-spread, spread], ROWS // 2))
    problem = Problem(rng.normal(size=(ROWS, 1)), rng.integers(2, size=ROWS), pd.DataFrame({"a": rng.random(ROWS)}))
    found = compare_widths(problem, np.ones(ROWS), 1 - gain + noise)
    assert found["gain"] == pytest.approx(gain)
    assert not (found["too_small"] and found["large_enough"])
    text = describe_capacity(found)
    assert text.startswith(words)
    assert f"gain {found['gain']:.4f} [{found['low']:.4f}, {found['high']:.4f}]" in text


def test_any_gain_counts_for_real_numbers_whose_loss_may_be_negative():
    rng = np.random.default_rng(0)
    a = pd.DataFrame({"a": rng.random(ROWS)})
    problem = Problem(rng.normal(size=(ROWS, 1)), rng.random(ROWS), a, real=True)
    noise = rng.permutation(np.repeat([-0.001, 0.001], ROWS // 2))
    assert compare_widths(problem, np.full(ROWS, -2.0), -2.005 + noise)["too_small"]
    assert compare_widths(problem, np.full(ROWS, -2.0), -1.995 + noise)["large_enough"]
