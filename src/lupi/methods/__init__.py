"""Methods: one class per method, and a registry of their names (`names`, `kind`, `build`)."""

from lupi.methods.base import Conditional, Method, Remembered, Stage
from lupi.methods.distillation import Distillation
from lupi.methods.imputation import MeanImputation
from lupi.methods.no_pi import NoPI
from lupi.methods.registry import build, kind, names
from lupi.methods.tram import TRAM, TwoStepTRAM

__all__ = [
    "TRAM",
    "Conditional",
    "Distillation",
    "MeanImputation",
    "Method",
    "NoPI",
    "Remembered",
    "Stage",
    "TwoStepTRAM",
    "build",
    "kind",
    "names",
]
