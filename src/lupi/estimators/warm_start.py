"""Continue from the weights of the last fit."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from lupi.methods import Method


def find_weights(model: Any) -> dict[str, Tensor] | None:
    """Return the weights of an estimator, or None if it has not been fitted."""
    if not hasattr(model, "likelihood_"):
        return None
    if not hasattr(model, "method_"):
        raise ValueError(
            "Expected a model with its whole network for `warm_start`, but this one was saved without privileged "
            "information."
        )
    weights: dict[str, Tensor] = model.method_.state_dict()
    return weights


def restore_weights(method: Method, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of the last fit into a network of the same shape."""
    try:
        method.load_state_dict(weights)
    except RuntimeError:
        raise ValueError(
            "Expected the network of the last fit for `warm_start`, but parameters such as `method` or `hidden` make "
            "another one."
        ) from None
