import pandas as pd
import pytest

from lupi.diagnose import Diagnosis, Information
from lupi.diagnose.findings import SHUFFLED, TOGETHER, describe_worth, write_notes


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
        (-0.1, 0.5, 0.1, "There is no evidence that"),
        (-0.5, -0.1, -0.1, "This privileged information is not worth having"),
    ],
)
def test_the_verdict_claims_no_more_than_its_intervals(low, high, control_low, words):
    row = {"estimate": (low + high) / 2, "low": low, "high": high, "share": 0.1, "leak": False}
    table = pd.DataFrame([{"column": name, **row} for name in ("who", TOGETHER, SHUFFLED)])
    found = Diagnosis(information=table, loss=1.0, control=Information(0.1, control_low, 0.3))
    assert describe_worth(found).startswith(words)


@pytest.mark.parametrize(
    ("how", "part"), [("copy", "a copy"), ("answer", "all inputs"), ("settles", "together with the inputs")]
)
def test_a_leak_is_described_with_advice_in_one_sentence(how, part):
    row = {"column": "c", "leak": True, "how": how}
    text = write_notes(pd.DataFrame([row]), 2000)[0]
    assert part in text
    assert "move it from `privileged` to `ignore`" in text
    assert text.count(". ") == 0


def test_columns_that_settle_the_label_together_are_noted():
    row = {"column": TOGETHER, "leak": False, "known": float("nan"), "share": 0.95}
    assert "together determine the label" in write_notes(pd.DataFrame([row]), 2000)[0]
