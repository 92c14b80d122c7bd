"""What is compared: methods, and controls that tell what their gain comes from.

Every method with privileged information (PI) has three controls, the same method with zeros, with the values of other
annotations and with random values in the place of PI: what they gain does not come from what PI says. No PI has one,
early stopping on held-out noisy labels: on noisy labels much of a gain can be less overfitting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lupi import methods as known
from lupi.compare.cases import Case, Plan
from lupi.compare.engine import BASELINE
from lupi.likelihoods import Categorical, Gaussian

ZEROS, SHUFFLED, RANDOM, EARLY = "PI zeros", "PI shuffled", "PI random", "early stopping"


class Arm(NamedTuple):
    """A method, or a control of it."""

    method: str
    control: str = ""

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.method} [{self.control}]" if self.control else self.method


def arms(plan: Plan, task: str) -> list[Arm]:
    """List No PI, the methods of a plan and their controls.

    Examples
    --------
    >>> from pathlib import Path
    >>> plan = Plan(Path("table.csv"), ["label"], ["annotator"], methods=["tram"], controls=True)
    >>> [arm.name for arm in arms(plan, "classification")][:4]
    ['no-pi', 'tram', 'no-pi [early stopping]', 'tram [PI zeros]']
    """
    likelihood = Gaussian if task == "regression" else Categorical
    possible = [name for name in known.names() if likelihood in known.kind(name).likelihoods]
    for name in plan.methods:
        if name not in possible:
            raise ValueError(f"Expected methods for a target of real numbers, but {name!r} is for classes.")
    chosen = [Arm(name) for name in dict.fromkeys([BASELINE, *(plan.methods or possible)])]
    if not plan.controls:
        return chosen
    controls = [Arm(arm.method, what) for arm in chosen if uses_privileged(arm) for what in (ZEROS, SHUFFLED, RANDOM)]
    return [*chosen, Arm(BASELINE, EARLY), *controls]


def uses_privileged(arm: Arm) -> bool:
    """Tell whether a method learns from privileged information."""
    return known.kind(arm.method).uses_privileged


def privileged_of(arm: Arm, case: Case, kinds: Mapping[str, str], seed: int) -> tuple[pd.DataFrame | None, Any]:
    """Give the privileged information that an arm trains with, and how its numbers are encoded.

    Shuffled values are those of other annotations, whole rows of them. Random ones are drawn independently: of a
    category uniformly among its values, of a number uniformly between 0 and 1.
    """
    real = case.privileged
    rng = np.random.default_rng([seed, len(real)])
    numbers = {name: "category" if kind == "category" else "quantile" for name, kind in kinds.items()}
    if not uses_privileged(arm):
        return None, "quantile"
    if arm.control == ZEROS:
        return pd.DataFrame({"nothing": np.zeros(len(real))}), {"nothing": "standardize"}
    if arm.control == SHUFFLED:
        return real.iloc[rng.permutation(len(real))].reset_index(drop=True), numbers
    if arm.control == RANDOM:
        for name, kind in kinds.items():
            values = np.asarray(real[name].dropna().unique())
            if len(values):
                drawn = rng.choice(values, len(real)) if kind == "category" else rng.random(len(real))
                real = real.assign(**{name: drawn})
    return real, numbers
