"""Methods: one class per method, and a registry of their names (`names`, `kind`, `build`)."""

from lupi.methods.auto import Auto
from lupi.methods.base import Conditional, Method, Stage
from lupi.methods.distillation import Distillation
from lupi.methods.dropout import HeteroscedasticDropout
from lupi.methods.imputation import MeanImputation
from lupi.methods.label_posterior import LabelPosterior
from lupi.methods.marginalization import FullMarginalization
from lupi.methods.no_pi import NoPI
from lupi.methods.registry import build, kind, names
from lupi.methods.tram import TRAM, TwoStepTRAM

__all__ = [
    "TRAM",
    "Auto",
    "Conditional",
    "Distillation",
    "FullMarginalization",
    "HeteroscedasticDropout",
    "LabelPosterior",
    "MeanImputation",
    "Method",
    "NoPI",
    "Stage",
    "TwoStepTRAM",
    "build",
    "kind",
    "names",
]
