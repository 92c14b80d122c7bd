"""Learning using privileged information: better models from what you know about each label, at no serving cost."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
    from lupi.methods.svm_plus import SVMPlusClassifier

__version__ = "0.1.0"
__all__ = ["PrivilegedClassifier", "PrivilegedRegressor", "SVMPlusClassifier"]

_HOMES = {
    "PrivilegedClassifier": "lupi.estimators",
    "PrivilegedRegressor": "lupi.estimators",
    "SVMPlusClassifier": "lupi.methods.svm_plus",
}


_MODULES = ("compare", "data", "datasets", "likelihoods", "methods", "nn", "testing", "theory", "training")


def __getattr__(name: str) -> Any:
    """Import what is first asked for: torch takes seconds, and `lupi --help` should not wait."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"lupi.{name}")
    raise AttributeError(f"module 'lupi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
