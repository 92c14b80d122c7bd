"""Train a model on a table, save it to a folder, load it and predict."""

from lupi.serving.model import TableModel, load
from lupi.serving.training import train

__all__ = ["TableModel", "load", "train"]
