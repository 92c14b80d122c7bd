"""Train methods with one loop, in plain torch or with Lightning Fabric."""

from lupi.nn.noise import seed_noise
from lupi.training.augmentation import RandomCrop, RandomFlip, RandomResizedCrop
from lupi.training.checkpoint import Checkpoint
from lupi.training.fitting import fit, fit_seeds
from lupi.training.loggers import to_mlflow, to_tensorboard, to_wandb
from lupi.training.loop import Epoch
from lupi.training.replicas import Replicas, StackedAnnotations
from lupi.training.settings import Settings

__all__ = [
    "Checkpoint",
    "Epoch",
    "RandomCrop",
    "RandomFlip",
    "RandomResizedCrop",
    "Replicas",
    "Settings",
    "StackedAnnotations",
    "fit",
    "fit_seeds",
    "seed_noise",
    "to_mlflow",
    "to_tensorboard",
    "to_wandb",
]
