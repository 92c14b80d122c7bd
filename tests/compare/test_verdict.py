import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lupi.compare.statistics import difference
from lupi.compare.verdict import write_verdict
from lupi.metrics import METRICS

NOISE = np.random.default_rng(0).normal(size=(40, 10))
EARLY = "no-pi [early stopping]"


def runs_of(shifts, metric="nll", spread=0.02):
    """Runs whose paired differences from No PI have exactly these means and this standard deviation."""
    base = 1 + 0.1 * NOISE[0]
    rows = {"no-pi": base}
    for row, (name, shift) in enumerate(shifts.items(), 1):
        noise = NOISE[row] - NOISE[row].mean()
        rows[name] = base + shift + spread * noise / noise.std(ddof=1)
    return pd.concat(
        [pd.DataFrame({"method": name, "seed": range(10), metric: values}) for name, values in rows.items()],
        ignore_index=True,
    )


def both(nll, accuracy):
    """Runs with two metrics."""
    return runs_of(nll).merge(runs_of(accuracy, "accuracy"), on=["method", "seed"])


def half_width(level, spread=0.02):
    return stats.t.ppf(0.5 + level / 2, 9) * spread / np.sqrt(10)


def test_a_gain():
    text = write_verdict(runs_of({"tram": -0.1}), ["tram"], ["nll"])
    low, high = -0.1 - half_width(0.95), -0.1 + half_width(0.95)
    assert text.startswith("Better than the best baseline in NLL: tram.\nNLL: tram ")
    assert f"Difference -0.100 (95 % interval {low:+.3f} to {high:+.3f}): significantly better." in text
    assert "`controls=True`" in text.splitlines()[-1]


def test_the_best_of_many_needs_a_wider_interval():
    """A difference that is significant alone is not if it is the best of nine."""
    shift = -(half_width(0.95) + half_width(1 - 0.05 / 9)) / 2
    names = ["tram", *(f"m{i}" for i in range(8))]
    runs = runs_of({name: shift if name == "tram" else 0.0 for name in names})
    assert write_verdict(runs, ["tram"], ["nll"]).startswith("Better than the best baseline in NLL: tram.")
    text = write_verdict(runs, names, ["nll"])
    assert text.startswith(
        "No method with privileged information is significantly better than the best baseline in NLL.\nNLL: tram"
    )
    low, high = shift - half_width(1 - 0.05 / 9), shift + half_width(1 - 0.05 / 9)
    assert f"(95 % interval {low:+.3f} to {high:+.3f}, adjusted for 9 methods): not significant." in text
    assert "Of 9 methods, significantly better than every baseline without privileged information: NLL 0;" in text


def test_harm():
    text = write_verdict(runs_of({"tram": 0.2, "pi-dual": 0.1}), ["tram", "pi-dual"], ["nll"])
    assert text.startswith(
        "Worse than the best baseline in NLL: every method with privileged information.\nNLL: pi-dual "
    )
    assert "significantly worse than the best baseline: NLL 2." in text


def test_a_method_that_early_stopping_beats_is_not_better():
    runs = runs_of({"tram": -0.1, EARLY: -0.2})
    assert write_verdict(runs, ["tram"], ["nll"]).startswith(
        "Better than the best baseline"
    )  # not told of the other row
    text = write_verdict(runs, ["tram"], ["nll"], baselines=["no-pi", EARLY])
    assert text.startswith("Worse than the best baseline in NLL: tram.")
    assert f", {EARLY} " in text.splitlines()[1]
    assert "Difference +0.100" in text


def test_the_best_row_is_not_the_only_hurdle():
    """A steady gain over the best row is not a gain over a second one that varies a lot."""
    runs = runs_of({"tram": -0.1})
    noise = NOISE[5] - NOISE[5].mean()
    shaky = runs[runs["method"] == "no-pi"].assign(method=EARLY)
    shaky["nll"] += 0.01 + noise
    text = write_verdict(pd.concat([runs, shaky]), ["tram"], ["nll"], baselines=["no-pi", EARLY])
    assert text.startswith("No method with privileged information is significantly better")
    assert f", {EARLY} " in text.splitlines()[1]
    assert text.splitlines()[1].endswith("not significant.")


def test_two_metrics_need_a_wider_interval():
    """A gain in one of two metrics that is significant alone need not be one when either could have shown it."""
    shift = -(half_width(0.95) + half_width(1 - 0.05 / 2)) / 2
    runs = both({"tram": shift}, {"tram": 0.0})
    assert write_verdict(runs, ["tram"], ["nll"]).startswith("Better than the best baseline in NLL: tram.")
    text = write_verdict(runs, ["tram"], ["nll", "accuracy"])
    assert text.startswith("No method with privileged information is significantly better")
    low, high = shift - half_width(1 - 0.05 / 2), shift + half_width(1 - 0.05 / 2)
    assert f"(95 % interval {low:+.3f} to {high:+.3f}, adjusted for 2 metrics): not significant." in text


def test_both_metrics_are_said():
    text = write_verdict(both({"tram": 0.001}, {"tram": 0.06}), ["tram"], ["nll", "accuracy"])
    head, nll, accuracy, *_ = text.splitlines()
    assert head == "Better than the best baseline in accuracy: tram."
    assert nll.startswith("NLL: tram ")
    assert nll.endswith("not significant.")
    assert "Difference +6.0 points" in accuracy
    assert accuracy.endswith("significantly better.")
    mixed = write_verdict(both({"tram": 0.1}, {"tram": 0.06}), ["tram"], ["nll", "accuracy"])
    assert mixed.startswith("Better than the best baseline in accuracy, but worse in NLL: tram.")
    none = write_verdict(both({"tram": 0.001}, {"tram": -0.001}), ["tram"], ["nll", "accuracy"])
    assert none.startswith(
        "No method with privileged information does better than the best baseline in NLL or accuracy."
    )


def test_a_method_that_is_worse_in_nothing_comes_first():
    """Although another one has the lower NLL."""
    runs = both({"sharp": -0.3, "steady": -0.1}, {"sharp": -0.2, "steady": 0.1})
    text = write_verdict(runs, ["sharp", "steady"], ["nll", "accuracy"])
    assert text.startswith("Better than the best baseline in NLL and accuracy: steady.")


SHIFTS = st.floats(-0.2, 0.2)


@given(st.data(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_verdicts_say_no_more_than_the_runs(data, m, b):
    """Recomputed from the runs: who is called better beats every baseline, significantly and in the mean."""
    methods, baselines = [f"m{i}" for i in range(m)], ["no-pi", *(f"row{i}" for i in range(b - 1))]
    names = [*methods, *baselines[1:]]
    metrics = ["nll", "accuracy"]
    runs = both(*(dict(zip(names, data.draw(st.tuples(*[SHIFTS] * len(names))), strict=True)) for _ in metrics))
    head, *lines = write_verdict(runs, methods, metrics, baselines=baselines).splitlines()
    level, means = 1 - 0.05 / (m * len(metrics)), runs.groupby("method")[metrics].mean()

    def effect(method, row, metric):
        low, high = difference(runs, method, row, metric).interval(level)
        return (low > 0) - (high < 0) if METRICS[metric].higher_is_better else (high < 0) - (low > 0)

    better = {(name, k): all(effect(name, row, k) > 0 for row in baselines) for name in methods for k in metrics}
    lead = {
        "nll": means.loc[methods, "nll"].min() < means.loc[baselines, "nll"].min(),
        "accuracy": means.loc[methods, "accuracy"].max() > means.loc[baselines, "accuracy"].max(),
    }
    assert head.startswith("Better than the best baseline") == any(better.values())
    if head.startswith("Better"):
        subject = head.rstrip(".").split(": ")[1]
        won = head.removeprefix("Better than the best baseline in ").split(":")[0].split(", but")[0]
        for metric in metrics:
            assert (METRICS[metric].label in won.split(" and ")) == better[subject, metric]
            if better[subject, metric]:
                gaps = means.loc[subject, metric] - means.loc[baselines, metric]
                assert (gaps > 0).all() if metric == "accuracy" else (gaps < 0).all()
    if head.startswith("No method with privileged information does better"):
        assert not any(lead.values())
    if head.startswith("Worse"):
        assert not any(better.values())
        assert all(any(effect(name, row, k) < 0 for row in baselines for k in metrics) for name in methods)
    if m > 1:
        counts = [sum(better[name, metric] for name in methods) for metric in metrics]
        assert f"without privileged information: NLL {counts[0]}, accuracy {counts[1]};" in lines[2]
    said = {"nll": lines[0], "accuracy": lines[1]}
    for metric, line in said.items():
        name, rival, gap_said = re.match(
            r"[\w]+: (.*?) [\d.]+[ %]*, (.*?) [\d.]+[ %]*\. Difference (\S+)", line
        ).groups()
        gap = means.loc[name, metric] - means.loc[rival, metric]
        assert float(gap_said) == pytest.approx(
            METRICS[metric].scale * gap, abs=0.051 if metric == "accuracy" else 6e-4
        )
        assert line.endswith("significantly better.") == better[name, metric]


CONTROLS = ["tram [PI zeros]", "tram [PI shuffled]"]


@pytest.mark.parametrize(
    ("zeros", "said", "not_said"),
    [
        (
            0.0,
            ["Privileged information helped: better than the best baseline in NLL: tram.", "better than every control"],
            ["need"],
        ),
        (
            -0.1,
            ["in NLL, but not better than all controls: tram.", "worse than tram: tram [PI zeros]. The gain need not"],
            ["every control", "helped"],
        ),
    ],
)
def test_controls(zeros, said, not_said):
    shifts = {"tram": -0.1, "tram [PI zeros]": zeros, "tram [PI shuffled]": 0.0, "x [PI zeros]": 0.0}
    text = write_verdict(runs_of(shifts), ["tram"], ["nll"], controls=[*CONTROLS, "x [PI zeros]"])
    assert "Controls, difference in NLL from tram: tram [PI zeros] " in text
    assert f"tram [PI shuffled] {0.1:+.3f} (" in text
    assert "x [PI zeros]" not in text
    for part in said:
        assert part in text
    for part in not_said:
        assert part not in text


def test_controls_without_a_gain_explain_nothing():
    text = write_verdict(
        runs_of({"tram": -0.001, **dict.fromkeys(CONTROLS, 0.0)}), ["tram"], ["nll"], controls=CONTROLS
    )
    assert "ontrol" not in text


def test_nothing_to_judge():
    text = write_verdict(runs_of({"distillation": -0.1}), [], ["nll"])
    assert text.startswith("No method with privileged information was compared")
