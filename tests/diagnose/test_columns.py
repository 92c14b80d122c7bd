import numpy as np
import pandas as pd
import pytest

from lupi.diagnose.checks.columns import (
    LEAKS,
    SHUFFLED,
    TOGETHER,
    describe_information,
    describe_worth,
)
from lupi.diagnose.information import Gain


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
