import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.cli.digits import format_summary
from lupi.compare.statistics import summarize

NAMES = ["no-pi", "no-pi [early stopping]", "tram"]


def summary_of(nll, accuracy):
    """The summary of three arms with three seeds each, from their differences."""
    frame = {
        "method": [name for name in NAMES for _ in range(3)],
        "seed": [0, 1, 2] * 3,
        "nll": [1 + nll[name] + (0.1 + 1e-4 * name) * seed for name in range(3) for seed in range(3)],
        "accuracy": [0.5 + accuracy[name] + (0.01 + 1e-5 * name) * seed for name in range(3) for seed in range(3)],
        "seconds": 1.0,
    }
    return summarize(pd.DataFrame(frame))


def test_the_table_shows_what_the_summary_holds():
    """Differences with little variation are significant."""
    lines = format_summary(summary_of([0, -0.1, 0.1], [0, 0.25, 0])).splitlines()
    assert lines[1].split() == ["no-pi", "no", "51.0", "%", "1.10"]
    assert lines[2].split() == ["no-pi", "[early", "stopping]", "no", "76.0", "%", "▲★", "1.00", "▲★"]
    assert lines[3].split() == ["tram", "yes", "51.0", "%", "1.20", "▼"]
    assert "±" not in "".join(lines)


@given(st.lists(st.integers(-3, 3), min_size=3, max_size=3), st.lists(st.integers(-3, 3), min_size=3, max_size=3))
@settings(max_examples=10, deadline=None)
def test_marks_follow_from_the_summary(nll, accuracy):
    summary = summary_of([value / 8 for value in nll], [value / 8 for value in accuracy])
    for (_, row), line in zip(summary.iterrows(), format_summary(summary).splitlines()[1:], strict=True):
        left, right = line.split(" % ") if " % " in line else line.split(" %")
        first, _, second = right.rpartition(f"{row['nll']:.2f}")
        assert float(left.split()[-1]) == pytest.approx(100 * row["accuracy"], abs=0.051)
        for marks, sign, best in (
            (first, row["accuracy_difference"], row["accuracy"] == summary["accuracy"].max()),
            (second, -row["nll_difference"], row["nll"] == summary["nll"].min()),
        ):
            assert ("★" in marks) == best
            if abs(sign) > 0.01:
                assert ("▲" in marks) == (sign > 0)
                assert ("▼" in marks) == (sign < 0)
