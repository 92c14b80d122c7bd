"""How a table becomes a model folder, and a folder predictions."""

from lupi.serving.deployment import export_onnx
from lupi.serving.loading import load
from lupi.serving.model import TableModel
from lupi.serving.prediction import predict_table
from lupi.serving.training import train

__all__ = ["TableModel", "export_onnx", "load", "predict_table", "train"]
