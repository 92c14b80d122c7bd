"""What a comparison shows, in words that claim no more than its intervals do."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lupi.compare.engine import BASELINE
from lupi.compare.statistics import ONLY_RUNS, Uncertainty, difference
from lupi.metrics import METRICS

LEVEL = 0.95


def verdict(
    runs: pd.DataFrame,
    methods: Sequence[str],
    metric: str,
    *,
    controls: Sequence[str] = (),
    uncertainty: Uncertainty = ONLY_RUNS,
) -> str:
    """Say whether privileged information helped, by how much, how sure that is, and what the controls say.

    The best method is the best of many, so that each interval has the level 1 − 0.05/m where there are m methods
    (Bonferroni): with 95 % confidence all of them hold at once, also that of the best. A method that is better than No
    PI may be so by other means, so that only controls can say that privileged information helped.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed, with No PI.
    methods : sequence of str
        Methods with privileged information.
    metric : str
        The metric to judge by.
    controls : sequence of str
        Names in runs of controls: "METHOD [CONTROL]". Those of the best method and of No PI are looked at.
    uncertainty : Uncertainty
        What adds to the error of differences.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["no-pi"] * 3 + ["tram"] * 3, "seed": [0, 1, 2] * 2,
    ...                      "nll": [1.0, 1.1, 1.2, 0.5, 0.61, 0.7]})
    >>> print(verdict(runs, ["tram"], "nll"))
    Better than No PI: tram lowers NLL from 1.100 to 0.603, by 0.497 (95 % interval 0.482 to 0.511).
    Whether that comes from what the privileged information says, `--controls` tells.
    """
    if not methods:
        return "No method with privileged information was compared."
    m, sign = len(methods), -1 if METRICS[metric].higher_is_better else 1
    found = {name: difference(runs, name, BASELINE, metric, uncertainty) for name in methods}
    intervals = {name: one.interval(1 - (1 - LEVEL) / m) for name, one in found.items()}
    best = min(found, key=lambda name: sign * found[name].mean)
    better = [name for name, (low, high) in intervals.items() if (high < 0 if sign > 0 else low > 0)]
    worse = [name for name, (low, high) in intervals.items() if (low > 0 if sign > 0 else high < 0)]
    scale, digits, what = METRICS[metric].scale, METRICS[metric].digits, METRICS[metric].heading.replace(",", " in")
    means = scale * runs.groupby("method")[metric].mean()
    gain, (low, high) = scale * found[best].mean, (scale * end for end in intervals[best])
    who = best if m == 1 else f"{best}, the best of {m} methods,"
    widened = "" if m == 1 else f", widened for the choice among {m}"
    own = [name for name in controls if name.startswith((f"{best} [", f"{BASELINE} ["))]
    about_controls, level = against_controls(runs, best, own, metric, uncertainty)
    if best in better or best in worse:
        least, most = sorted((abs(low), abs(high)))
        verb = "lowers" if gain < 0 else "raises"
        head = "Worse than No PI:" if best in worse else "Better than No PI:"
        if best in better and own:
            helped = "Privileged information helped:"
            head = "Better than No PI, but not surely by what the privileged information says:" if level else helped
        lines = [
            f"{head} {who} {verb} {what} from {means[BASELINE]:.{digits}f} to {means[best]:.{digits}f}, by "
            f"{abs(gain):.{digits}f} (95 % interval {least:.{digits}f} to {most:.{digits}f}{widened})."
        ]
    else:
        lines = [
            f"No sure effect of privileged information: {who} changes {what} by {gain:+.{digits}f} "
            f"(95 % interval {low:+.{digits}f} to {high:+.{digits}f}{widened}), which may be chance."
        ]
    if m > 1:
        lines.append(f"Surely better than No PI: {len(better)} of {m}; surely worse: {len(worse)}.")
    if metric != "accuracy" and "accuracy" in runs:
        other = difference(runs, best, BASELINE, "accuracy", uncertainty)
        low, high = other.interval()
        lines.append(
            f"Accuracy of {best}: {100 * other.mean:+.1f} points (95 % interval {100 * low:+.1f} to {100 * high:+.1f})."
        )
    if own:
        lines.append(about_controls)
    if best in better:
        lines += conclusions(best, own, level)
    return "\n".join(lines)


def against_controls(
    runs: pd.DataFrame, best: str, controls: Sequence[str], metric: str, uncertainty: Uncertainty
) -> tuple[str, list[str]]:
    """Compare a method with its controls, and list those that are not surely worse."""
    parts, level = [], []
    scale, digits, what = METRICS[metric].scale, METRICS[metric].digits, METRICS[metric].heading.replace(",", " in")
    for name in controls:
        gap = difference(runs, name, best, metric, uncertainty)
        low, high = gap.interval(LEVEL)
        numbers = [f"{scale * value:+.{digits}f}" for value in (gap.mean, low, high)]
        parts.append(f"{name} {numbers[0]} ({numbers[1]} to {numbers[2]})")
        if not (high < 0 if METRICS[metric].higher_is_better else low > 0):
            level.append(name)
    return f"Controls, their {what} against that of {best}: {'; '.join(parts)}.", level


def conclusions(best: str, controls: Sequence[str], level: Sequence[str]) -> list[str]:
    """Say what the gain of a method comes from, given the controls that are not surely worse."""
    if not controls:
        return ["Whether that comes from what the privileged information says, `--controls` tells."]
    if not level:
        return [
            f"{best} is surely better than every control: the gain comes from what the privileged information says."
        ]
    without = [name for name in level if not name.startswith(f"{BASELINE} [")]
    lines = []
    if without:
        lines.append(
            f"Not surely worse than {best} itself: {', '.join(without)}. So the gain need not come from what the "
            "privileged information says."
        )
    if len(without) < len(level):
        lines.append(
            "No PI that stops early is not surely worse either. So the gain may be less overfitting, which costs "
            "no privileged information."
        )
    return lines
