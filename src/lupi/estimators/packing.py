"""Turn a fitted estimator into the contents of a model folder, and back, without trusting the folder."""

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from lupi import __version__, methods
from lupi._internal.checks import check_integer
from lupi._internal.devices import pick_device, seeded
from lupi._internal.json_types import from_json
from lupi._internal.sanitizing import one_line
from lupi.estimators.folder import StoredModel
from lupi.estimators.targets import ClassTarget, Numbers, Target
from lupi.tabular.encoding import TableEncoder

Estimator = TypeVar("Estimator")
NOT_STORED = ("method", "trunk", "device", "random_state", "class_weight", "trust")
"""Parameters that a model folder does not store, or stores elsewhere."""
FITTED: dict[str, tuple[type, ...]] = {
    "target_": (Target,),
    "input_encoder_": (TableEncoder, type(None)),
    "privileged_encoder_": (TableEncoder, type(None)),
    "n_features_in_": (int,),
    "feature_names_in_": (np.ndarray,),
}
"""Fitted attributes in a model folder, and their types."""
MAX_LAYERS = 1000
"""Number of layers that take little time and memory to build, whether or not there are weights for them."""


class Facts(TypedDict):
    """The contents of `model.json`. For a model trained on a table, these include its schema and training record."""

    format: int
    lupi: str
    estimator: str
    method: str | None
    own_trunk: bool
    parameters: dict[str, Any]
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
    check_integer("widths.annotators", checked["widths"].get("annotators", 1), 1)
    if checked["method"] is not None:
        methods.kind(checked["method"])
    for name in checked["parameters"]:
        if name not in known:
            raise ValueError(f"Expected `parameters` to be those of the estimator, but got {name!r}.")
    for name in ("target_", "input_encoder_", "n_features_in_", *(["privileged_encoder_"] if whole else [])):
        if name not in fitted:
            raise ValueError(f"Expected the encoders to hold `{name}`, but they do not.")
    for name, types in FITTED.items():
        if name in fitted and not isinstance(fitted[name], types):
            raise ValueError(f"Expected `{name}` to be a {types[0].__name__}, but got a {type(fitted[name]).__name__}.")
    inputs = fitted["input_encoder_"]
    if inputs is None and not checked["own_trunk"]:
        raise ValueError("Expected the encoders to hold `input_encoder_`, but it is None.")
    for name, width in (("input_encoder_", "inputs"), ("privileged_encoder_", "privileged")):
        if (encoder := fitted.get(name)) is not None:
            check_encoder(encoder, name, checked["widths"][width])
    if inputs is not None:
        names = fitted.get("feature_names_in_", np.array(inputs.columns_)).tolist()
        if names != inputs.columns_ or fitted["n_features_in_"] != len(names):
            raise ValueError("Expected the features to be the columns of the encoder, but they are not.")
    target, outputs = fitted["target_"], checked["widths"]["outputs"]
    if isinstance(target, Numbers) != (checked["estimator"] == "PrivilegedRegressor"):
        raise ValueError(f"Expected the target of a {checked['estimator']}, but got {type(target).__name__}.")
    if target.outputs != outputs or (isinstance(target, ClassTarget) and len(target.classes) != outputs):
        raise ValueError(f"Expected a target with {outputs} outputs, but got {target.outputs}.")
    return checked


def check_encoder(encoder: TableEncoder, name: str, width: int) -> None:
    """Raise a `ValueError` unless an encoder encodes its columns as so many features."""
    columns = [column for one in encoder.encodings_ for column in one.columns]
    if columns != encoder.columns_ or sum(one.width for one in encoder.encodings_) != width:
        raise ValueError(f"Expected `{name}` to encode its columns as {width} features, but it does not.")


def pack_model(model: Any, *, privileged: bool = True) -> StoredModel:
    """Return the contents of a model folder."""
    check_is_fitted(model, "predictor_")
    whole = privileged and hasattr(model, "method_")
    ships = hasattr(model, "method_") and model.method_.ships_privileged
    if ships and not whole:
        raise ValueError(
            "Expected a method whose predictor contains no privileged information for `privileged=False`, but that "
            f"of {model.method!r} contains it."
        )
    parameters = {name: value for name, value in model.get_params().items() if name not in NOT_STORED}
    if model.training is not None:
        parameters["training"] = {name: value for name, value in model.training.items() if is_plain(value)}
    facts: dict[str, Any] = {
        "lupi": __version__,
        "estimator": type(model).__name__,
        "method": model.method if isinstance(model.method, str) else None,
        "own_trunk": model.trunk is not None,
        "parameters": parameters,
        "widths": {
            name: width for name, width in model.widths_.items() if whole or name not in ("privileged", "annotators")
        },
        "ships_privileged": ships,
        "privileged": whole,
        "mixture": getattr(model, "mixture_", None),
    }
    hidden = () if whole else ("privileged_encoder_",)
    fitted = {name: value for name, value in vars(model).items() if name in FITTED and name not in hidden}
    return StoredModel(facts, (model.method_ if whole else model.predictor_).state_dict(), fitted)


def unpack_model(
    kind: type[Estimator],
    stored: StoredModel,
    path: str | Path,
    *,
    trunk: nn.Module | Callable[[], nn.Module] | None,
    method: Callable[..., methods.Method] | None,
    device: str,
) -> Estimator:
    """Restore an estimator."""
    estimator: Any = kind
    with explain_contents(path):
        known = [name for name in estimator._get_param_names() if name not in NOT_STORED]
        facts = check_facts(stored.facts, stored.encoders, known)
    for name, own, passed in (("trunk", facts["own_trunk"], trunk), ("method", facts["method"] is None, method)):
        if own and passed is None:
            raise ValueError(f"Expected `{name}` to be the {name} that {path} was trained with, but got None.")
        if not own and passed is not None:
            raise ValueError(f"Expected `{name}` to be None, since {path} was trained with a built-in {name}.")
    model = estimator(method or facts["method"] or "", trunk=trunk, device=device, **facts["parameters"])
    model.__dict__.update({name: value for name, value in stored.encoders.items() if name in FITTED})
    model.widths_ = facts["widths"]
    with explain_contents(path):
        model._check_parameters()
        folds = (model.method_options or {}).get("folds") or 1
        if model.members * folds * len(model.hidden) > max(MAX_LAYERS, len(stored.weights)):
            raise ValueError("the network has more layers than weights.")
        whole = facts.get("privileged", True)
        own = trunk is not None or method is not None
        restore_network(model, stored.weights, whole=whole, own=own, device=pick_device(device))
        if not whole:
            model._mixture = facts.get("mixture")
    return model  # type: ignore[no-any-return]


def restore_network(model: Any, weights: Mapping[str, Tensor], *, whole: bool, own: bool, device: torch.device) -> None:
    """Build the network of an estimator, the whole or only its predictor, and load its weights."""
    with seeded(0):  # building a network draws weights
        build = model._build if whole else lambda: model._build().predictor()
        network = restore(build, weights, own=own).to(device).eval()
        if whole:
            model.method_ = network
        model.predictor_ = network.predictor().eval() if whole else network


def pack_state(model: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a fitted estimator for pickle, without a GPU's memory.

    Weights are arrays, so that joblib and skops can store them too; networks with parts of the user's own stay
    modules, on the CPU.
    """
    if isinstance(model.method, str) and model.trunk is None:
        whole = "method_" in state
        network = state["method_" if whole else "predictor_"]
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}
        others = {name: value for name, value in state.items() if name not in ("method_", "predictor_")}
        return others | {"_weights": weights, "_whole": whole}
    networks = {name: state[name] for name in ("method_", "predictor_") if name in state}
    networks = copy.deepcopy(networks)  # together, since they share weights
    return state | {name: network.cpu() for name, network in networks.items()}


def unpack_state(model: Any) -> None:
    """Restore the network of an estimator with the attributes of `pack_state`, on its device if this machine has it."""
    try:
        device = pick_device(model.device)
    except ValueError:
        device = torch.device("cpu")
    if "_weights" not in vars(model):
        for name in ("method_", "predictor_"):
            if name in vars(model):
                vars(model)[name].to(device)
        return
    weights = {name: torch.tensor(array) for name, array in vars(model).pop("_weights").items()}
    restore_network(model, weights, whole=vars(model).pop("_whole"), own=False, device=device)


def is_plain(value: Any) -> bool:
    """Return whether JSON can hold an option of training."""
    if isinstance(value, list | tuple | dict):
        return all(map(is_plain, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, bool | int | float | str)


Network = TypeVar("Network", bound=nn.Module)


def restore(build: Callable[[], Network], weights: Mapping[str, Tensor], *, own: bool) -> Network:
    """Build a network, without memory unless it is the user's own, and load its weights if they fit."""
    with torch.device("cpu" if own else "meta"):
        network = build()
    expected = network.state_dict()
    for name in expected.keys() & weights.keys():
        if expected[name].dtype != weights[name].dtype:
            raise ValueError(f"Expected weights {name!r} of {expected[name].dtype}, but got {weights[name].dtype}.")
    network.load_state_dict(weights, assign=not own)  # compares names and shapes
    if any(tensor.is_meta for tensor in (*network.parameters(), *network.buffers())):
        raise ValueError("Expected weights of the whole network, but some are missing.")
    return network


@contextmanager
def explain_contents(path: Any) -> Iterator[None]:
    """Turn any error into one that names the model folder."""
    try:
        yield
    except Exception as error:  # a modified folder may raise anything
        why = one_line(error)
        raise ValueError(f"Expected {path} to hold a model of lupi, but got: {why or type(error).__name__}") from error
