"""Methods: one class per method, and a registry of their names (`names`, `kind`, `build`)."""

from lupi.methods.aggregation import AggregatedNoPI, DawidSkene, MajorityVote
from lupi.methods.auto import Auto, Stack
from lupi.methods.base import Conditional, Method, Stage
from lupi.methods.distillation import (
    Distillation,
    DistilledTRAM,
    GeneralizedDistillation,
    PrivilegedTeacher,
    SoftTRAM,
)
from lupi.methods.dropout import HeteroscedasticDropout
from lupi.methods.ensemble import Ensemble
from lupi.methods.imputation import MeanImputation, ZeroImputation
from lupi.methods.label_posterior import LabelPosterior
from lupi.methods.marginalization import FullMarginalization
from lupi.methods.no_pi import NoPI
from lupi.methods.pi_dual import PiDUAL
from lupi.methods.registry import build, kind, names
from lupi.methods.slack import MIMLFCNPlus
from lupi.methods.tram import TRAM, TwoStepTRAM
from lupi.methods.transition import PITransition

__all__ = [
    "TRAM",
    "AggregatedNoPI",
    "Auto",
    "Conditional",
    "DawidSkene",
    "Distillation",
    "DistilledTRAM",
    "Ensemble",
    "FullMarginalization",
    "GeneralizedDistillation",
    "HeteroscedasticDropout",
    "LabelPosterior",
    "MIMLFCNPlus",
    "MajorityVote",
    "MeanImputation",
    "Method",
    "NoPI",
    "PITransition",
    "PiDUAL",
    "PrivilegedTeacher",
    "SoftTRAM",
    "Stack",
    "Stage",
    "TwoStepTRAM",
    "ZeroImputation",
    "build",
    "kind",
    "names",
]
