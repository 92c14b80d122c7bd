"""The methods by name: what estimators and commands accept as `method`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lupi.methods.base import Method
from lupi.methods.distillation import (
    Distillation,
    DistilledTRAM,
    GeneralizedDistillation,
    distillation,
    distilled_tram,
    generalized_distillation,
)
from lupi.methods.dropout import HeteroscedasticDropout, heteroscedastic_dropout
from lupi.methods.imputation import MeanImputation, ZeroImputation, mean_imputation, zero_imputation
from lupi.methods.marginalization import FullMarginalization, full_marginalization
from lupi.methods.no_pi import NoPI, no_pi
from lupi.methods.pi_dual import PiDUAL, pi_dual
from lupi.methods.slack import MIMLFCNPlus, miml_fcn_plus
from lupi.methods.tram import TRAM, TwoStepTRAM, het_tram, tram, tram_plus_plus, two_step_tram
from lupi.methods.transition import PITransition, pi_transition
from lupi.nn import Parts

METHODS: dict[str, tuple[type[Method], Callable[..., Method]]] = {
    "no-pi": (NoPI, no_pi),
    "zero-imputation": (ZeroImputation, zero_imputation),
    "mean-imputation": (MeanImputation, mean_imputation),
    "full-marginalization": (FullMarginalization, full_marginalization),
    "heteroscedastic-dropout": (HeteroscedasticDropout, heteroscedastic_dropout),
    "tram": (TRAM, tram),
    "two-step-tram": (TwoStepTRAM, two_step_tram),
    "het-tram": (TRAM, het_tram),
    "distillation": (Distillation, distillation),
    "generalized-distillation": (GeneralizedDistillation, generalized_distillation),
    "distilled-tram": (DistilledTRAM, distilled_tram),
    "miml-fcn-plus": (MIMLFCNPlus, miml_fcn_plus),
    "tram-plus-plus": (TRAM, tram_plus_plus),
    "pi-dual": (PiDUAL, pi_dual),
    "pi-transition": (PITransition, pi_transition),
}
"""The class of each method, and the function that makes it from `Parts` and options."""


def names() -> list[str]:
    """List the names of the methods.

    Examples
    --------
    >>> names()[:2]
    ['no-pi', 'zero-imputation']
    """
    return list(METHODS)


def kind(name: str) -> type[Method]:
    """Return the class of a method, whose attributes state the facts about it.

    Parameters
    ----------
    name : str
        A name of `names()`.

    Examples
    --------
    >>> kind("full-marginalization").ships_privileged
    True
    """
    if name not in METHODS:
        raise ValueError(f"Expected `method` to be one of {', '.join(names())}, but got {name!r}.")
    return METHODS[name][0]


def build(name: str, parts: Parts, **options: Any) -> Method:
    """Make a method by name.

    Parameters
    ----------
    name : str
        A name of `names()`.
    parts : Parts
        Makes the parts of the network.
    **options : Any
        Options of the method.

    Examples
    --------
    >>> from lupi.likelihoods import Categorical
    >>> from lupi.nn import MLP
    >>> parts = Parts(lambda: MLP(5, (8,)), features=8, privileged=3, outputs=2, likelihood=Categorical())
    >>> type(build("tram", parts, beta=0.5)).__name__
    'TRAM'
    """
    possible = kind(name).likelihoods
    if not isinstance(parts.likelihood, possible):
        takes = " or ".join(likelihood.y for likelihood in possible)
        raise ValueError(f"Expected y to be {takes} for {name!r}, but it is {parts.likelihood.y}.")
    builder = METHODS[name][1]
    known = list(inspect.signature(builder).parameters)[1:]
    for option in options:
        if option not in known:
            takes = f"{name!r} to take the options {', '.join(known)}" if known else f"no options for {name!r}"
            raise ValueError(f"Expected {takes}, but got {option!r}.")
    return builder(parts, **options)
