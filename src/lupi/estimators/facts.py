"""The contents of `model.json`, and how to rebuild a network from it without trusting it."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NotRequired, TypedDict, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lupi import methods
from lupi._internal.checks import check_integer
from lupi._internal.json_types import from_json
from lupi.tabular import InputEncoder, PrivilegedEncoder

FITTED: dict[str, tuple[type, ...]] = {
    "input_encoder_": (InputEncoder, type(None)),
    "privileged_encoder_": (PrivilegedEncoder, type(None)),
    "n_features_in_": (int,),
    "feature_names_in_": (np.ndarray,),
    "classes_": (np.ndarray,),
    "multi_label_": (bool,),
    "y_mean_": (float,),
    "y_scale_": (float,),
}
"""Fitted attributes in a model folder, and their types."""
TARGETS: Mapping[str, tuple[str, ...]] = {
    "Categorical": ("classes_", "multi_label_"),
    "Bernoulli": ("classes_", "multi_label_"),
    "Gaussian": ("y_mean_", "y_scale_"),
}
"""Fitted attributes that the target of a likelihood needs."""


class Facts(TypedDict):
    """The contents of `model.json`. For a model trained on a table, these include its schema and training record."""

    format: int
    lupi: str
    estimator: str
    method: str | None
    own_trunk: bool
    parameters: dict[str, Any]
    likelihood: Literal["Categorical", "Bernoulli", "Gaussian"]
    widths: dict[str, int]
    ships_privileged: bool
    privileged: NotRequired[bool]
    mixture: NotRequired[dict[str, float] | None]
    table: NotRequired[Any]
    record: NotRequired[Any]
    notes: list[str]
    sha256: dict[str, str]


def check_facts(facts: Any, fitted: Mapping[str, Any], known: Collection[str]) -> Facts:
    """Raise a `ValueError` unless facts and fitted attributes describe a model."""
    checked: Facts = from_json(facts, Facts)
    whole = checked.get("privileged", True)
    for name in ("inputs", "features", "outputs", *(["privileged"] if whole else [])):
        check_integer(f"widths.{name}", checked["widths"].get(name), 1)
    if checked["method"] is not None:
        methods.kind(checked["method"])
    for name in checked["parameters"]:
        if name not in known:
            raise ValueError(f"Expected `parameters` to be those of the estimator, but got {name!r}.")
    likelihood, outputs = checked["likelihood"], checked["widths"]["outputs"]
    needed = ("input_encoder_", "n_features_in_", *TARGETS[likelihood], *(["privileged_encoder_"] if whole else []))
    for name in needed:
        if name not in fitted:
            raise ValueError(f"Expected the encoders to hold `{name}`, but they do not.")
    for name, types in FITTED.items():
        if name in fitted and not isinstance(fitted[name], types):
            raise ValueError(f"Expected `{name}` to be a {types[0].__name__}, but got a {type(fitted[name]).__name__}.")
    if (likelihood == "Gaussian") != (checked["estimator"] == "PrivilegedRegressor"):
        raise ValueError(f"Expected the likelihood of a {checked['estimator']}, but got {likelihood}.")
    classes = 1 if likelihood == "Gaussian" else len(fitted["classes_"])
    if classes != outputs or fitted.get("multi_label_", False) != (likelihood == "Bernoulli"):
        raise ValueError(f"Expected the classes of {outputs} outputs of a {likelihood}, but got {classes}.")
    return checked


Network = TypeVar("Network", bound=nn.Module)


def restore(build: Callable[[], Network], weights: Mapping[str, Tensor], *, own: bool) -> Network:
    """Build a network and load its weights, using no more memory than the weights do."""
    elements = sum(tensor.numel() for tensor in weights.values())
    with (
        Budget(operations=math.inf if own else 2_000 + 100 * len(weights), elements=2**24 + 16 * elements),
        torch.device("cpu" if own else "meta"),
    ):
        network = build()
    expected = network.state_dict()
    try:
        network.load_state_dict(weights, assign=not own)
    except RuntimeError as error:
        raise ValueError(f"Expected the network of the weights, but got another: {error}") from error
    for name, tensor in network.state_dict().items():
        if tensor.dtype != expected[name].dtype:
            raise ValueError(f"Expected weights {name!r} of {expected[name].dtype}, but got {tensor.dtype}.")
        if tensor.is_meta:
            raise ValueError(f"Expected weights {name!r}, but got none.")
    return network


class Budget(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Stop code that computes or allocates more in torch than expected. Tensors on the meta device take no memory."""

    def __init__(self, *, operations: float, elements: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations, self.elements = operations, elements

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations -= 1
        self.elements -= sum(x.numel() for x in tree_leaves(result) if isinstance(x, Tensor) and not x.is_meta)
        if self.operations < 0 or self.elements < 0:
            raise ValueError("Expected a network of the size of its weights, but got a larger one.")
        return result


@contextmanager
def explain_contents(path: Any) -> Iterator[None]:
    """Turn any error into one that names the model folder."""
    try:
        yield
    except Exception as error:  # a modified folder may raise anything
        why = " ".join(str(error).split())
        raise ValueError(f"Expected {path} to hold a model of lupi, but got: {why or type(error).__name__}") from error
