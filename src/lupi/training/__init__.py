"""How a method is trained: one loop, in plain torch or through a Lightning Fabric."""

from lupi.training.checkpoint import Checkpoint
from lupi.training.loop import Epoch, fit, fit_seeds, own_noise
from lupi.training.settings import Settings

__all__ = ["Checkpoint", "Epoch", "Settings", "fit", "fit_seeds", "own_noise"]
