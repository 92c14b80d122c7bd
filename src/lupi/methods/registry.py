"""The registry of methods: the names that estimators and commands accept as `method`."""

import inspect
from collections.abc import Callable
from typing import Any

from lupi.methods import (
    aggregation,
    auto,
    crowd_layers,
    distillation,
    dropout,
    imputation,
    label_posterior,
    marginalization,
    no_pi,
    pi_dual,
    slack,
    tram,
    transition,
)
from lupi.methods.base import Method, kind_of
from lupi.nn import Parts

METHODS: dict[str, Callable[..., Method]] = {
    kind_of(make).name: make
    for make in (
        no_pi.no_pi,
        aggregation.majority_vote,
        aggregation.dawid_skene_labels,
        imputation.zero_imputation,
        imputation.mean_imputation,
        marginalization.full_marginalization,
        dropout.heteroscedastic_dropout,
        tram.tram,
        tram.two_step_tram,
        tram.het_tram,
        distillation.distillation,
        distillation.generalized_distillation,
        distillation.distilled_tram,
        slack.miml_fcn_plus,
        tram.tram_plus_plus,
        pi_dual.pi_dual,
        transition.pi_transition,
        crowd_layers.crowd_layer,
        crowd_layers.geo_crowd_net,
        crowd_layers.annot_mix,
        label_posterior.label_posterior,
        auto.auto,
        auto.stack,
    )
}
"""Functions that make a method from `Parts` and options, by the name of its class."""


def names() -> list[str]:
    """List the names of the methods.

    Examples
    --------
    >>> names()[:2]
    ['no-pi', 'majority-vote']
    """
    return list(METHODS)


def kind(name: str) -> type[Method]:
    """Return the class of a method. Its attributes describe the method.

    Parameters
    ----------
    name : str
        One of `names()`.

    Examples
    --------
    >>> kind("full-marginalization").ships_privileged
    True
    """
    if name not in METHODS:
        raise ValueError(f"Expected `method` to be one of {', '.join(names())}, but got {name!r}.")
    return kind_of(METHODS[name])


def build(name: str, parts: Parts, **options: Any) -> Method:
    """Make a method by name.

    Parameters
    ----------
    name : str
        One of `names()`.
    parts : Parts
        Factory for the parts of the network.
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
    known = list(inspect.signature(METHODS[name]).parameters)[1:]
    for option in options:
        if option not in known:
            takes = f"{name!r} to take the options {', '.join(known)}" if known else f"no options for {name!r}"
            raise ValueError(f"Expected {takes}, but got {option!r}.")
    return METHODS[name](parts, **options)
