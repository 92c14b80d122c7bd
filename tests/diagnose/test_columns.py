import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import Problem
from lupi.diagnose.checks.columns import (
    LEAKS,
    SHUFFLED,
    TOGETHER,
    compare_widths,
    describe_capacity,
    describe_information,
    describe_worth,
)
from lupi.diagnose.networks import Gain

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


@pytest.mark.parametrize(
    ("low", "high", "control_low", "words"),
    [
        (
            0.1,
            0.3,
            0.1,
            "This privileged information is worth having: it carries 0.200 nats",
        ),
        (0.1, 0.3, -0.1, "This privileged information may be worth having"),
        (-0.1, 0.5, 0.1, "There are too few examples to tell whether"),
        (-0.005, 0.005, 0.1, "There is no evidence that"),
        (-0.5, -0.1, -0.1, "This privileged information is not worth having"),
    ],
)
def test_the_verdict_claims_no_more_than_its_intervals(low, high, control_low, words):
    row = {"estimate": (low + high) / 2, "low": low, "high": high, "share": 0.1, "leak": False}
    table = pd.DataFrame([{"column": name, **row} for name in ("who", TOGETHER, SHUFFLED)])
    assert describe_worth(table, 1.0, Gain(0.1, control_low, 0.3)).startswith(words)


@pytest.mark.parametrize(
    ("how", "part"), [("copy", "a copy"), ("answer", "all inputs"), ("settles", "together with the inputs")]
)
def test_a_leak_is_described(how, part):
    assert part in LEAKS[how]


def test_information_is_described_in_words_and_in_a_short_table():
    row = {"column": "who", "estimate": 0.2, "low": 0.1, "high": 0.3, "share": np.nan, "alone": 0.5, "known": 1.0}
    found = describe_information(pd.DataFrame([{**row, "leak": True, "how": "copy"}]), 1.0, None, 2000)
    assert str(found.brief).splitlines()[2].split() == ["who", "0.2000", "0.1000", "0.3000", "–", "50.0", "copy"]
    assert found.numbers["who"]["how"] == "copy"
    table = pd.DataFrame(
        [{**row, "column": name, "share": 0.95, "leak": False, "how": ""} for name in (TOGETHER, SHUFFLED)]
    )
    assert "together determine the label" in describe_information(table, 1.0, None, 2000).notes[0]
    assert "With only 30 examples" in describe_information(table, 1.0, None, 30).notes[-1]
