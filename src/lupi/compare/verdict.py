"""Write the verdict of a comparison. It claims no more than the intervals support."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lupi.compare.statistics import BASELINE, RUNS_ONLY, Difference, Uncertainty, difference
from lupi.metrics import METRICS, Metric

LEVEL = 0.95
EFFECTS = {1: "significantly better", 0: "not significant", -1: "significantly worse"}


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A method compared with the baselines without privileged information, in one metric."""

    method: str
    rival: str
    """The best baseline among those that the method is not significantly better than, or the best one of all."""
    metric: Metric
    mean: float
    rival_mean: float
    gap: Difference
    """The difference of the method minus the rival."""
    level: float

    @property
    def effect(self) -> int:
        """1 if significantly better than every baseline, -1 if significantly worse than the best, else 0."""
        return find_effect(self.metric, self.gap, self.level)

    @property
    def leads(self) -> bool:
        """Whether the mean of the method is better than that of the rival."""
        return self.mean > self.rival_mean if self.metric.higher_is_better else self.mean < self.rival_mean


def write_verdict(
    runs: pd.DataFrame,
    methods: Sequence[str],
    metrics: Sequence[str],
    *,
    baselines: Sequence[str] = (BASELINE,),
    controls: Sequence[str] = (),
    uncertainty: Uncertainty = RUNS_ONLY,
) -> str:
    """Describe whether privileged information helped, by how much in each metric, and what the controls show.

    A method counts as better in a metric only if it is significantly better than every baseline without
    privileged information. Since the best of m methods in any of k metrics is chosen by its result, each interval has
    the level 1 − 0.05/(m k) (Bonferroni), so that all intervals hold simultaneously with 95 % confidence. A method can
    be better than No PI for other reasons; only controls show whether the privileged information itself helped.
    """
    if not methods:
        return "No method with privileged information was compared."
    level = 1 - (1 - LEVEL) / (len(methods) * len(metrics))
    found = {name: [judge(runs, name, baselines, metric, level, uncertainty) for metric in metrics] for name in methods}
    subject = choose_subject(found)
    own = [name for name in controls if name.startswith(f"{subject} [")]
    lines, equal = [], []
    if subject is not None:
        won = [one.metric for one in found[subject] if one.effect > 0]
        first = next(name for name in metrics if METRICS[name] in won)
        gaps = {name: difference(runs, name, subject, first, uncertainty) for name in own}
        equal = [name for name, gap in gaps.items() if find_effect(METRICS[first], gap, LEVEL) >= 0]
        lines = explain_gain(subject, METRICS[first], gaps, equal)
    shown = [found[subject or find_leader(found, number)][number] for number in range(len(metrics))]
    counts = [count_effects(found)] if len(methods) > 1 else []
    return "\n".join(
        [
            write_headline(found, subject, controlled=bool(own), equal=bool(equal)),
            *(describe(one, len(methods), len(metrics)) for one in shown),
            *counts,
            *lines,
        ]
    )


def judge(
    runs: pd.DataFrame,
    method: str,
    baselines: Sequence[str],
    metric: str,
    level: float,
    uncertainty: Uncertainty,
) -> Judgement:
    """Compare a method with the baselines without privileged information."""
    known, means = METRICS[metric], runs.groupby("method")[metric].mean()
    ordered = sorted(baselines, key=lambda name: means[name], reverse=known.higher_is_better)
    gaps = {name: difference(runs, method, name, metric, uncertainty) for name in ordered}
    rival = next((name for name in ordered if find_effect(known, gaps[name], level) <= 0), ordered[0])
    return Judgement(
        method=method,
        rival=rival,
        metric=known,
        mean=means[method],
        rival_mean=means[rival],
        gap=gaps[rival],
        level=level,
    )


def find_effect(metric: Metric, gap: Difference, level: float) -> int:
    """Return 1 for a significant improvement, -1 for a significant deterioration, else 0."""
    low, high = gap.interval(level)
    sign = int(low > 0) - int(high < 0)
    return sign if metric.higher_is_better else -sign


def choose_subject(judgements: Mapping[str, Sequence[Judgement]]) -> str | None:
    """Return the method that gains most (better in some metric and, if possible, worse in none), or None."""
    gainers = [name for name, own in judgements.items() if any(one.effect > 0 for one in own)]

    def rank(name: str) -> tuple[bool, int, float]:
        own = judgements[name]
        effects = [one.effect for one in own]
        first = own[0].mean if own[0].metric.higher_is_better else -own[0].mean
        return min(effects) >= 0, effects.count(1), first

    return max(gainers, key=rank, default=None)


def find_leader(judgements: Mapping[str, Sequence[Judgement]], number: int) -> str:
    """Return the method with the best mean in the metric with the given number."""
    best = max if next(iter(judgements.values()))[number].metric.higher_is_better else min
    return best(judgements, key=lambda name: judgements[name][number].mean)


def write_headline(
    judgements: Mapping[str, Sequence[Judgement]], subject: str | None, *, controlled: bool, equal: bool
) -> str:
    """Summarize the judgements, and the controls of the method that gains most."""
    everything = [one for own in judgements.values() for one in own]
    names = " or ".join(dict.fromkeys(one.metric.label for one in everything))
    if subject is None:
        if all(any(one.effect < 0 for one in own) for own in judgements.values()):
            who = "every method with privileged information" if len(judgements) > 1 else next(iter(judgements))
            return f"Worse than the best baseline in {names}: {who}."
        if not any(one.leads for one in everything):
            return f"No method with privileged information does better than the best baseline in {names}."
        return f"No method with privileged information is significantly better than the best baseline in {names}."
    own = judgements[subject]
    won, lost = (" and ".join(one.metric.label for one in own if one.effect == effect) for effect in (1, -1))
    if lost:
        return f"Better than the best baseline in {won}, but worse in {lost}: {subject}."
    if equal:
        return f"Better than the best baseline in {won}, but not better than all controls: {subject}."
    start = "Privileged information helped: better" if controlled else "Better"
    return f"{start} than the best baseline in {won}: {subject}."


def describe(one: Judgement, methods: int, metrics: int) -> str:
    """Describe the result in a metric."""
    metric = one.metric
    mean, rival = (f"{metric.format(value)} {metric.unit}".strip() for value in (one.mean, one.rival_mean))
    points = " points" if metric.unit == "%" else ""
    low, high = (metric.format(end, "+") for end in one.gap.interval(one.level))
    counts = {"methods": methods, "metrics": metrics}
    several = " and ".join(f"{count} {name}" for name, count in counts.items() if count > 1)
    adjusted = f", adjusted for {several}" if several else ""
    label = metric.label[0].upper() + metric.label[1:]
    start = f"{label}: {one.method} {mean}, {one.rival} {rival}. Difference {metric.format(one.gap.mean, '+')}{points}"
    if math.isnan(one.gap.error) and not math.isnan(one.gap.mean):
        return f"{start} in every run: too few runs to say how much it varies."
    return f"{start} (95 % interval {low} to {high}{adjusted}): {EFFECTS[one.effect]}."


def count_effects(judgements: Mapping[str, Sequence[Judgement]]) -> str:
    """Count the methods that are better and worse in each metric."""
    columns = list(zip(*judgements.values(), strict=True))
    better, worse = (
        ", ".join(f"{own[0].metric.label} {[one.effect for one in own].count(effect)}" for own in columns)
        for effect in (1, -1)
    )
    return (
        f"Of {len(judgements)} methods, significantly better than every baseline without privileged information: "
        f"{better}; significantly worse than the best baseline: {worse}."
    )


def explain_gain(best: str, metric: Metric, gaps: Mapping[str, Difference], equal: Sequence[str]) -> list[str]:
    """Explain where a gain comes from, given the differences of controls and the controls not significantly worse."""
    content = "the content of the privileged information"
    if not gaps:
        return [f"A comparison with controls (`controls=True`) shows whether {content} matters."]
    parts = []
    for name, gap in gaps.items():
        mean, low, high = (metric.format(value, "+") for value in (gap.mean, *gap.interval(LEVEL)))
        parts.append(f"{name} {mean} ({low} to {high})")
    unit = " in points" if metric.unit == "%" else ""
    lines = [f"Controls, difference in {metric.label} from {best}{unit}: {'; '.join(parts)}."]
    if equal:
        return [
            *lines,
            f"Not significantly worse than {best}: {', '.join(equal)}. The gain need not come from {content}.",
        ]
    return [*lines, f"{best} is significantly better than every control: the gain comes from {content}."]
