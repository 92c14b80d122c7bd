"""Learning using privileged information: better models from what you know about each label, at no serving cost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
    from lupi.serving import load

__version__ = "1.0.0"
__all__ = ["PrivilegedClassifier", "PrivilegedRegressor", "load"]

_HOMES = {
    "PrivilegedClassifier": "lupi.estimators",
    "PrivilegedRegressor": "lupi.estimators",
    "load": "lupi.serving",
}
_ROOMS = (
    "data",
    "likelihoods",
    "metrics",
    "settings",
    "datasets",
    "tabular",
    "importers",
    "crowd",
    "nn",
    "methods",
    "training",
    "testing",
    "estimators",
    "report",
    "serving",
    "compare",
    "diagnose",
)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, since torch takes seconds to import and `lupi --help` should be fast."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"lupi.{name}")
    raise AttributeError(f"module 'lupi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS, "__version__"]
