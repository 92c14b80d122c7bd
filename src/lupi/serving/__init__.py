"""Train a model on a table, save it to a folder, load it and predict."""

from lupi.serving.model import TableModel, export_onnx, load
from lupi.serving.prediction import predict_table
from lupi.serving.training import train

__all__ = ["TableModel", "export_onnx", "load", "predict_table", "train"]
