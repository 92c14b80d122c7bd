"""Measure what each privileged column tells about the label, and whether the network can use it.

Information: the held-out loss of q(y | x) minus that of q(y | x, a), for each privileged column and for all together.

Leaks: see `lupi.diagnose.leaks`. Columns that leak are left out of everything that follows.

Capacity: a network four times as wide is trained on the same folds. If its held-out conditional loss is significantly
lower, and by more than one per cent, the network is too small to use what the privileged information says; in the
paper's ablation TRAM no longer helps at a quarter of the width. A wider network also learns faster, so this test is
valid only if training runs until it stops by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import pandas as pd

from lupi._internal.progress import Steps
from lupi.diagnose.information import Information
from lupi.diagnose.leaks import Alone, classify_leak, predict_alone
from lupi.diagnose.problem import WIDTH, Floats, Problem

WIDER = 4
"""Factor of the widths of the wider network."""
TOGETHER, SHUFFLED = "(all together)", "(shuffled)"
"""Rows of the table of information that are not columns."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """Held-out loss given inputs and privileged information, of the network and of a wider one."""

    width: tuple[int, ...]
    loss: float
    wider: tuple[int, ...]
    wider_loss: float
    gain: float
    """How much lower the wider network's loss is, with its confidence interval."""
    low: float
    high: float
    too_small: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnFindings:
    """What the privileged columns tell about the label; see `Diagnosis` for the fields."""

    information: pd.DataFrame
    loss: float
    control: Information | None = None
    capacity: Capacity | None = None

    @property
    def honest(self) -> list[str]:
        """Privileged columns that do not leak."""
        table = self.information
        return table.loc[~table["leak"] & ~table["column"].isin([TOGETHER, SHUFFLED]), "column"].tolist()


def measure_columns(problem: Problem, *, jobs: int = 1, progress: bool = False) -> ColumnFindings:
    """Measure what each privileged column tells about the label, and all together."""
    columns = [str(name) for name in problem.privileged]
    marginal, *single = train_networks(problem, [((), {}), *(((name,), {}) for name in columns)], jobs, progress)
    lines = []
    for name, losses in zip(columns, single, strict=True):
        alone = predict_alone(
            problem.privileged[name], problem.kind(name), problem.target_codes, problem.group, folds=problem.folds
        )
        lines.append(describe_column(problem, name, marginal, losses, alone))
    honest = [row["column"] for row in lines if not row["leak"]]
    loss = float(marginal.mean())
    if not honest:
        return ColumnFindings(information=pd.DataFrame(lines), loss=loss)
    variants: list[dict[str, Any]] = [{}] if len(honest) > 1 else []
    variants += [{"width": WIDER}, {"shuffled": True}]
    *together, wide, shuffled = train_networks(problem, [(honest, options) for options in variants], jobs, progress)
    conditional = together[0] if together else single[columns.index(honest[0])]
    lines.append(describe_column(problem, TOGETHER, marginal, conditional))
    lines.append(describe_column(problem, SHUFFLED, marginal, shuffled))
    return ColumnFindings(
        information=pd.DataFrame(lines),
        loss=loss,
        control=problem.gain(shuffled, conditional),
        capacity=compare_widths(problem, conditional, wide),
    )


def train_networks(
    problem: Problem, networks: Sequence[tuple[Sequence[str], Mapping[str, Any]]], jobs: int, progress: bool
) -> list[Floats]:
    """Train networks with some privileged columns and options of `Problem.losses`, and return their held-out losses."""
    work = [joblib.delayed(problem.losses)(columns, **options) for columns, options in networks]
    results = []
    with Steps("information", len(work), show=progress) as steps:
        for (columns, _), losses in zip(
            networks, joblib.Parallel(n_jobs=jobs, return_as="generator")(work), strict=True
        ):
            steps.advance(1, "in " + (", ".join(columns) or "no privileged column"))
            results.append(losses)
    return results


def describe_column(
    problem: Problem, name: str, marginal: Floats, conditional: Floats, alone: Alone | None = None
) -> dict[str, Any]:
    """Return a row of the table of information."""
    gain = problem.gain(marginal, conditional)
    share = np.nan if problem.real else gain.estimate / float(marginal.mean())
    how = ""
    if alone is not None:
        # the losses of bins and of densities of real numbers are not comparable
        beats_inputs = not problem.real and problem.gain(marginal, alone.losses).low > 0
        how = classify_leak(alone.share, share, beats_inputs)
    return {
        "column": name,
        "estimate": gain.estimate,
        "low": gain.low,
        "high": gain.high,
        "share": share,
        "alone": np.nan if alone is None else alone.share,
        "known": np.nan if alone is None else alone.known,
        "leak": bool(how),
        "how": how,
    }


def compare_widths(problem: Problem, conditional: Floats, wide: Floats) -> Capacity:
    """Compare the held-out losses of the network and a wider one."""
    gain = problem.gain(conditional, wide)
    loss = float(conditional.mean())
    width = tuple(problem.parameters.get("hidden", WIDTH))
    matters = problem.real or gain.estimate > 0.01 * loss
    return Capacity(
        width=width,
        loss=loss,
        wider=tuple(WIDER * n for n in width),
        wider_loss=float(wide.mean()),
        gain=gain.estimate,
        low=gain.low,
        high=gain.high,
        too_small=bool(gain.low > 0 and matters),
    )
