"""Say in words what a comparison shows, and no more than its intervals allow."""

from collections.abc import Sequence

import pandas as pd

from lupi.compare.statistics import BASELINE, RUNS_ONLY, Difference, Uncertainty, difference
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

    The best of m methods is chosen by its result, so each interval has the level 1 − 0.05/m (Bonferroni): with 95 %
    confidence all intervals hold at once, including that of the best. A method can be better than No PI for other
    reasons, so only controls show whether the privileged information itself helped.

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
    level = 1 - (1 - LEVEL) / m
    found = {name: difference(runs, name, BASELINE, metric, uncertainty) for name in methods}
    effects = {name: _effect(known, gain, level) for name, gain in found.items()}
    best = (max if known.higher_is_better else min)(found, key=lambda name: found[name].mean)
    own = [name for name in controls if name.startswith((f"{best} [", f"{BASELINE} ["))]
    gaps = {name: difference(runs, name, best, metric, uncertainty) for name in own}
    equal = [name for name, gap in gaps.items() if _effect(known, gap, LEVEL) >= 0]

    head = {-1: "Worse than No PI", 0: "No significant difference from No PI", 1: "Better than No PI"}[effects[best]]
    if effects[best] > 0 and own:
        head = "Better than No PI, but not better than all controls" if equal else "Privileged information helped"
    who = best if m == 1 else f"{best}, the best of {m} methods,"
    adjusted = "" if m == 1 else f", adjusted for the choice among {m}"
    points = " points" if known.unit == "%" else ""
    gain, (low, high) = found[best].mean, found[best].interval(level)
    if effects[best] == 0:
        change = f"changes {known.label} by {known.format(gain, '+')}{points}"
        ends = f"{known.format(low, '+')} to {known.format(high, '+')}"
    else:
        means = runs.groupby("method")[metric].mean()
        before, after = (f"{known.format(means[name])} {known.unit}".strip() for name in (BASELINE, best))
        verb = "lowers" if gain < 0 else "raises"
        change = f"{verb} {known.label} from {before} to {after}, by {known.format(abs(gain))}{points}"
        ends = " to ".join(known.format(end) for end in sorted((abs(low), abs(high))))
    lines = [f"{head}: {who} {change} (95 % interval {ends}{adjusted})."]
    if m > 1:
        better, worse = (list(effects.values()).count(effect) for effect in (1, -1))
        lines.append(f"Significantly better than No PI: {better} of {m}; significantly worse: {worse}.")
    if metric != "accuracy" and "accuracy" in runs:
        mean, ends = _format(METRICS["accuracy"], difference(runs, best, BASELINE, "accuracy", uncertainty))
        lines.append(f"Accuracy of {best}: {mean} points (95 % interval {ends}).")
    if own:
        parts = [f"{name} {mean} ({ends})" for name, gap in gaps.items() for mean, ends in [_format(known, gap)]]
        unit = " in points" if points else ""
        lines.append(f"Controls, difference in {known.label} from {best}{unit}: {'; '.join(parts)}.")
    if effects[best] > 0:
        lines += _explain_gain(best, own, equal)
    return "\n".join(lines)


def _effect(metric: Metric, gap: Difference, level: float) -> int:
    """Return 1 for a significant improvement, -1 for a significant deterioration, else 0."""
    low, high = gap.interval(level)
    sign = int(low > 0) - int(high < 0)
    return sign if metric.higher_is_better else -sign


def _format(metric: Metric, gap: Difference) -> tuple[str, str]:
    """Format a difference and its interval, with signs."""
    mean, low, high = (metric.format(value, "+") for value in (gap.mean, *gap.interval(LEVEL)))
    return mean, f"{low} to {high}"


def _explain_gain(best: str, controls: Sequence[str], equal: Sequence[str]) -> list[str]:
    """Say what a gain comes from, given the controls that are not significantly worse."""
    content = "the content of the privileged information"
    if not controls:
        return [f"A comparison with controls (`controls=True`) shows whether {content} matters."]
    if not equal:
        return [f"{best} is significantly better than every control: the gain comes from {content}."]
    lines = []
    own = [name for name in equal if name.startswith(f"{best} [")]
    if own:
        lines.append(f"Not significantly worse than {best}: {', '.join(own)}. The gain need not come from {content}.")
    if len(own) < len(equal):
        lines.append(
            f"No PI with early stopping is not significantly worse than {best}. The gain may be due to less "
            "overfitting, for which no privileged information is needed."
        )
    return lines
