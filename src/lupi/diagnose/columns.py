"""Measure how informative each privileged column is about the label, and whether the network can use it.

Information: the held-out loss of q(y | x) minus that of q(y | x, a), for each privileged column and for all together.

Leaks: see `lupi.diagnose.leaks`. Columns that leak are left out of everything that follows.

Capacity: a network four times as wide is trained on the same folds. If its held-out conditional loss is significantly
lower, and by more than 1 %, the network is too small to use the privileged information. (In the paper's ablation,
TRAM no longer helps at a quarter of the width.) A wider network also learns faster, so this test is valid only if
training continues until early stopping.
"""

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lupi._internal.arrays import Floats
from lupi._internal.parallel import run_parallel
from lupi._internal.progress import Steps
from lupi.diagnose.findings import SHUFFLED, TOGETHER, Diagnosis
from lupi.diagnose.leaks import classify_leak, predict_alone
from lupi.diagnose.problem import WIDTH, Problem

WIDER = 4
"""Factor by which the wider network is wider."""
SMALL_GAIN = 0.01
"""A wider network that gains at most this share of the held-out loss is no reason to widen the network."""


def measure_columns(problem: Problem, *, jobs: int, progress: bool) -> Diagnosis:
    """Measure how informative the privileged columns are about the label, each alone and all together."""
    columns = [str(name) for name in problem.privileged]
    marginal, *single = train_networks(problem, [{"columns": []}, *({"columns": [c]} for c in columns)], jobs, progress)
    loss = float(marginal.mean())
    rows = []
    for name, losses in zip(columns, single, strict=True):
        row = describe_gain(problem, name, marginal, losses)
        alone = predict_alone(
            problem.privileged[name], problem.kind(name), problem.target_codes, problem.group, folds=problem.folds
        )
        # the losses of bins and of densities of real numbers are not comparable
        beats_inputs = not problem.real and problem.gain(marginal, alone.losses).low > 0
        how = classify_leak(alone.share, row["share"], beats_inputs)
        rows.append(row | {"alone": alone.share, "known": alone.known, "leak": bool(how), "how": how})
    usable = [row["column"] for row in rows if not row["leak"]]
    if not usable:
        return Diagnosis(information=pd.DataFrame(rows), loss=loss)
    networks = [{"columns": usable, "width": WIDER}, {"columns": usable, "shuffled": True}]
    if len(usable) > 1:
        networks.insert(0, {"columns": usable})
    *together, wide, shuffled = train_networks(problem, networks, jobs, progress)
    conditional = together[0] if together else single[columns.index(usable[0])]
    rows.append(describe_gain(problem, TOGETHER, marginal, conditional))
    rows.append(describe_gain(problem, SHUFFLED, marginal, shuffled))
    return Diagnosis(
        information=pd.DataFrame(rows),
        loss=loss,
        control=problem.gain(shuffled, conditional),
        capacity=compare_widths(problem, conditional, wide),
    )


def train_networks(problem: Problem, networks: list[dict[str, Any]], jobs: int, progress: bool) -> list[Floats]:
    """Train networks, each given by the arguments of `Problem.losses`, and return their held-out losses."""
    results = {}
    with Steps("information", len(networks), show=progress) as steps:
        for place, losses in run_parallel([partial(problem.losses, **network) for network in networks], jobs):
            steps.advance(1, "in " + (", ".join(networks[place]["columns"]) or "no privileged column"))
            results[place] = losses
    return [results[place] for place in range(len(networks))]


def describe_gain(problem: Problem, name: str, marginal: Floats, conditional: Floats) -> dict[str, Any]:
    """Return a row of the table of information for columns without a leak."""
    gain = problem.gain(marginal, conditional)
    share = np.nan if problem.real else gain.estimate / float(marginal.mean())
    blank = {"alone": np.nan, "known": np.nan, "leak": False, "how": ""}
    return {"column": name, **asdict(gain), "share": share, **blank}


def compare_widths(problem: Problem, conditional: Floats, wide: Floats) -> dict[str, Any]:
    """Compare the held-out losses of the network and a wider one."""
    gain = problem.gain(conditional, wide)
    loss = float(conditional.mean())
    small = 0.0 if problem.real else SMALL_GAIN * loss  # the loss of real numbers may be negative
    width = tuple(problem.parameters.get("hidden", WIDTH))
    return {
        "width": width,
        "loss": loss,
        "wider": tuple(WIDER * n for n in width),
        "wider_loss": float(wide.mean()),
        "gain": gain.estimate,
        "low": gain.low,
        "high": gain.high,
        "too_small": gain.low > 0 and gain.estimate > small,
        "large_enough": gain.high <= small,
    }
