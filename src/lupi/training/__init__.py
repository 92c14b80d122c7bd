"""Train methods with one loop, in plain torch or with Lightning Fabric."""

from lupi._internal.devices import pick_device
from lupi.training.checkpoint import Checkpoint
from lupi.training.fitting import fit, fit_seeds
from lupi.training.replicas import Replicas, StackedAnnotations

__all__ = [
    "Checkpoint",
    "Replicas",
    "StackedAnnotations",
    "fit",
    "fit_seeds",
    "pick_device",
]
