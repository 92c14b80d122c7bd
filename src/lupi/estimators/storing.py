"""Turn a fitted estimator into the contents of a model folder, and back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted
from torch import nn

from lupi import __version__, methods
from lupi._internal.devices import seeded
from lupi.estimators.facts import FITTED, check_facts, explain_contents, restore
from lupi.estimators.folder import StoredModel
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood

Estimator = TypeVar("Estimator")
NOT_STORED = (
    "method",
    "trunk",
    "device",
    "fabric",
    "checkpoint",
    "random_state",
    "class_weight",
    "classes",
    "callbacks",
    "trust",
)
"""Parameters that a model folder does not store, or stores elsewhere."""
LIKELIHOODS: dict[str, Likelihood] = {type(kind).__name__: kind for kind in (Categorical(), Bernoulli(), Gaussian())}


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
        parameters["training"] = {name: value for name, value in model.training.items() if not callable(value)}
    facts: dict[str, Any] = {
        "lupi": __version__,
        "estimator": type(model).__name__,
        "method": model.method if isinstance(model.method, str) else None,
        "own_trunk": model.trunk is not None,
        "parameters": parameters,
        "likelihood": type(model.likelihood_).__name__,
        "widths": {name: width for name, width in model.widths_.items() if whole or name != "privileged"},
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
    model.likelihood_, model.widths_ = LIKELIHOODS[facts["likelihood"]], facts["widths"]
    own = trunk is not None or method is not None
    with explain_contents(path), seeded(0):  # building a network draws weights
        model._check_parameters()
        if facts.get("privileged", True):
            model.method_ = restore(model._build, stored.weights, own=own)
            model.method_.to(device).eval()
            model.predictor_ = model.method_.predictor().eval()
        else:
            model.predictor_ = restore(lambda: model._build().predictor(), stored.weights, own=own)
            model.predictor_.to(device).eval()
            model._mixture = facts.get("mixture")
    return model  # type: ignore[no-any-return]
