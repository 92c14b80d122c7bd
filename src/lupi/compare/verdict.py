"""Say in words what a comparison shows, and no more than its intervals allow."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lupi.compare.statistics import BASELINE, RUNS_ONLY, Uncertainty, difference
from lupi.metrics import METRICS, Metric

LEVEL = 0.95


def write_verdict(
    runs: pd.DataFrame,
    methods: Sequence[str],
    metric: str,
    *,
    controls: Sequence[str] = (),
    uncertainty: Uncertainty = RUNS_ONLY,
) -> str:
    """Say whether privileged information helped, by how much, and what the controls show.

    The best method is the best of m, so that each interval has the level 1 − 0.05/m (Bonferroni): with 95 % confidence
    all of them hold at once, including that of the best. A method can be better than No PI for other reasons, so that
    only controls show whether the privileged information itself helped.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed, with No PI.
    methods : sequence of str
        Methods with privileged information.
    metric : str
        The metric to judge by.
    controls : sequence of str
        Controls in runs, named "METHOD [CONTROL]". Those of the best method and of No PI are used.
    uncertainty : Uncertainty
        Sources of uncertainty besides the variation over seeds.

    Returns
    -------
    str
        Sentences, one per line.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["no-pi"] * 3 + ["tram"] * 3, "seed": [0, 1, 2] * 2,
    ...                      "nll": [1.0, 1.1, 1.2, 0.5, 0.61, 0.7]})
    >>> print(write_verdict(runs, ["tram"], "nll"))
    Better than No PI: tram lowers NLL from 1.100 to 0.603, by 0.497 (95 % interval 0.482 to 0.511).
    A comparison with controls (`controls=True`) shows whether the content of the privileged information matters.
    """
    if not methods:
        return "No method with privileged information was compared."
    m, known = len(methods), METRICS[metric]
    found = {name: difference(runs, name, BASELINE, metric, uncertainty) for name in methods}
    intervals = {name: one.interval(1 - (1 - LEVEL) / m) for name, one in found.items()}
    best = (max if known.higher_is_better else min)(found, key=lambda name: found[name].mean)
    better = [name for name, interval in intervals.items() if _is_better(known, interval)]
    worse = [name for name, (low, high) in intervals.items() if _is_better(known, (-high, -low))]
    gain, (low, high) = found[best].mean, intervals[best]
    who = best if m == 1 else f"{best}, the best of {m} methods,"
    adjusted = "" if m == 1 else f", adjusted for the choice among {m}"
    own = [name for name in controls if name.startswith((f"{best} [", f"{BASELINE} ["))]
    text, equal = _compare_controls(runs, best, own, metric, uncertainty)
    if best in better or best in worse:
        head = "Worse than No PI:" if best in worse else "Better than No PI:"
        if best in better and own:
            head = "Better than No PI, but not better than all controls:" if equal else "Privileged information helped:"
        means = runs.groupby("method")[metric].mean()
        least, most = sorted((abs(low), abs(high)))
        lines = [
            f"{head} {who} {'lowers' if gain < 0 else 'raises'} {known.label} from {_value(known, means[BASELINE])} to "
            f"{_value(known, means[best])}, by {_change(known, abs(gain))} (95 % interval {known.format(least)} to "
            f"{known.format(most)}{adjusted})."
        ]
    else:
        lines = [
            f"No significant difference to No PI: {who} changes {known.label} by {_change(known, gain, '+')} "
            f"(95 % interval {known.format(low, '+')} to {known.format(high, '+')}{adjusted})."
        ]
    if m > 1:
        lines.append(f"Significantly better than No PI: {len(better)} of {m}; significantly worse: {len(worse)}.")
    if metric != "accuracy" and "accuracy" in runs:
        other = difference(runs, best, BASELINE, "accuracy", uncertainty)
        shown, low_end, high_end = (
            METRICS["accuracy"].format(value, "+") for value in (other.mean, *other.interval(LEVEL))
        )
        lines.append(f"Accuracy of {best}: {shown} points (95 % interval {low_end} to {high_end}).")
    if own:
        lines.append(text)
    if best in better:
        lines += _explain_gain(best, own, equal)
    return "\n".join(lines)


def _is_better(metric: Metric, interval: tuple[float, float]) -> bool:
    """Return whether all differences in an interval are improvements."""
    low, high = interval
    return low > 0 if metric.higher_is_better else high < 0


def _value(metric: Metric, value: float) -> str:
    """Format a score with its unit."""
    return f"{metric.format(value)} {metric.unit}".strip()


def _change(metric: Metric, value: float, sign: str = "") -> str:
    """Format a difference; one of percentages is in points."""
    return metric.format(value, sign) + (" points" if metric.unit == "%" else "")


def _compare_controls(
    runs: pd.DataFrame, best: str, controls: Sequence[str], metric: str, uncertainty: Uncertainty
) -> tuple[str, list[str]]:
    """Compare a method with its controls, and list those that are not significantly worse."""
    known, parts, equal = METRICS[metric], [], []
    for name in controls:
        gap = difference(runs, name, best, metric, uncertainty)
        low, high = gap.interval(LEVEL)
        mean, *ends = (known.format(value, "+") for value in (gap.mean, low, high))
        parts.append(f"{name} {mean} ({ends[0]} to {ends[1]})")
        if not _is_better(known, (-high, -low)):
            equal.append(name)
    unit = " in points" if known.unit == "%" else ""
    return f"Controls, difference in {known.label} to {best}{unit}: {'; '.join(parts)}.", equal


def _explain_gain(best: str, controls: Sequence[str], equal: Sequence[str]) -> list[str]:
    """Say what a gain comes from, given the controls that are not significantly worse."""
    if not controls:
        return [
            "A comparison with controls (`controls=True`) shows whether the content of the privileged information "
            "matters."
        ]
    if not equal:
        return [
            f"{best} is significantly better than every control: the gain comes from the content of the privileged "
            "information."
        ]
    without = [name for name in equal if not name.startswith(f"{BASELINE} [")]
    lines = []
    if without:
        lines.append(
            f"Not significantly worse than {best}: {', '.join(without)}. The gain need not come from the content of "
            "the privileged information."
        )
    if len(without) < len(equal):
        lines.append(
            "No PI with early stopping is not significantly worse either. The gain may be less overfitting, which "
            "needs no privileged information."
        )
    return lines
