"""The precision of training and prediction."""

from typing import Any

import torch

from lupi.estimators.facts import Network

DTYPES = {"float32": torch.float32, "float64": torch.float64}
"""Precisions by name."""


def check_dtype(dtype: Any) -> None:
    """Raise a `ValueError` unless `dtype` is the name of a precision."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"Expected `dtype` to be 'float32' or 'float64', but got {dtype!r}.")


def convert(network: Network, dtype: str) -> Network:
    """Convert a network to double precision if `dtype` is "float64"; otherwise return it unchanged."""
    return network.double() if dtype == "float64" else network
