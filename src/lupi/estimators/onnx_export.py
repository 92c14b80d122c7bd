"""Export a whole model to ONNX: columns in, labels and probabilities out."""

import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.checks import import_extra
from lupi._internal.files import library_versions, replace_file
from lupi.estimators.targets import ClassTarget, SeveralLabels, Target
from lupi.tabular.encoding import TableEncoder
from lupi.tabular.kinds.number import Standard
from lupi.tabular.kinds.vector import stack_vectors
from lupi.tabular.onnx_graph import MICROSOFT, ML, OnnxGraph
from lupi.tabular.values import Column, as_numbers, as_text

OPSET = {"": 20, ML: 3, MICROSOFT: 1}
"""Versions of the operators by domain; 20 is the first that matches strings with patterns."""
CHECKED_ROWS = 20
"""Number of rows that are drawn to compare a file with its model."""
MATRIX = "x"
"""Name of the input if the model was trained on an array, or has a trunk of the user's own."""


class Outputs(nn.Module):
    """A predictor that returns classes by number and probabilities, 0 or 1 and probabilities, or numbers."""

    def __init__(self, predictor: nn.Module, target: Target) -> None:
        super().__init__()
        self.predictor, self.target = copy.deepcopy(predictor).cpu(), target
        self.eval()

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs for features, computed in double precision as `predict` does."""
        y = self.target.decode(self.predictor(x).double())
        if not isinstance(self.target, ClassTarget):
            return (y,)
        return (y > 0.5).long() if isinstance(self.target, SeveralLabels) else y.argmax(1), y.float()


def export_onnx(
    model: Any,
    path: str | Path,
    *,
    X: Any = None,
    stored: Mapping[str, str] | None = None,
    names: Sequence[Any] | None = None,
    tolerance: float = 1e-6,
) -> dict[str, Any]:
    """Write a fitted estimator as an ONNX file, after comparing both, and return the metadata of the file.

    `X` has inputs to compare with, `stored` the types of columns that the estimator got in another form, and `names`
    are those of the classes or of several labels.
    """
    onnxruntime = import_extra("onnxruntime", "export")  # slow to import
    import_extra("onnxscript", "export")  # torch needs it
    encoder: TableEncoder | None = model.input_encoder_
    graph = OnnxGraph(stored)
    features = None if encoder is None else encode_columns(graph, encoder, named=hasattr(model, "feature_names_in_"))
    inputs = draw_rows(encoder) if X is None and encoder is not None else model._read_inputs(X, reset=False)
    x: Any = model._encode_inputs(inputs) if encoder is None else encoder.encode_frame(inputs, dense=True)
    content = export_network(Outputs(model.predictor_, model.target_), x)
    if features is not None:
        content = prepend(graph, features, content)
    name_outputs(content, model.target_)
    facts: dict[str, Any] = {"inputs": graph.columns, "versions": library_versions()}
    if isinstance(model.target_, ClassTarget):
        facts["classes"] = model.target_.classes.tolist() if names is None else list(names)
    for name, fact in facts.items():
        content.metadata_props.add(key=name, value=json.dumps(fact))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as partial:
        partial.write_bytes(content.SerializeToString())
        session = onnxruntime.InferenceSession(content.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = model.target_.decode(model._outputs_of(inputs)).numpy()
        feed = {MATRIX: x.numpy()} if encoder is None else make_feed(graph, inputs)
        for rows in (slice(None), slice(0, 1)):
            output = session.run(None, {name: values[rows] for name, values in feed.items()})[-1]
            difference = float(np.abs(output - expected[rows]).max()) / max(1.0, float(np.abs(expected).max()))
            if not difference <= tolerance:
                what = f"the model's predictions, but it differs by {difference:.2g}"
                raise ValueError(f"Expected the ONNX file to give {what}.")
    return facts


def encode_columns(graph: OnnxGraph, encoder: TableEncoder, *, named: bool) -> str:
    """Add the operators that encode columns, and return their features."""
    first = encoder.encodings_[0]
    if not named and len(encoder.encodings_) == 1 and type(first) is Standard:
        return first.scale_onnx(graph, graph.read(MATRIX, first.kind.name, width=first.numbers))
    features = [one.to_onnx(graph) for one in encoder.encodings_]
    for name in ("label", "probabilities", "prediction"):
        if name in graph.columns:
            raise ValueError(f"Expected no input column with the name of an output of the ONNX file, but got {name!r}.")
    return graph.apply("Concat", *features, axis=1)


def draw_rows(encoder: TableEncoder) -> pd.DataFrame:
    """Draw rows like those of training."""
    rng = np.random.default_rng(0)
    drawn = [encoding.draw(rng, CHECKED_ROWS) for encoding in encoder.encodings_]
    return pd.DataFrame({name: values for columns in drawn for name, values in columns.items()})


def make_feed(graph: OnnxGraph, table: pd.DataFrame | NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a session for rows of the training table."""
    if list(graph.columns) == [MATRIX] and not (isinstance(table, pd.DataFrame) and MATRIX in table):
        return {MATRIX: np.asarray(table, dtype=np.float64)}
    assert isinstance(table, pd.DataFrame)
    return {name: as_input(table[name], facts) for name, facts in graph.columns.items()}


def as_input(column: Column, facts: Mapping[str, Any]) -> NDArray[Any]:
    """Return a column as the input of a session."""
    if "width" in facts:
        return stack_vectors(column, column.index).astype(np.float64)
    if facts["type"] == "float64":
        return as_numbers(column)
    texts = [facts["missing"] if missing else as_text(one) for one, missing in zip(column, column.isna(), strict=True)]
    return np.array(texts, dtype=object)


def export_network(module: nn.Module, x: Tensor) -> Any:
    """Return a module as an ONNX model for any number of rows."""
    x = torch.cat([x, x]) if x.shape[0] == 1 else x  # torch would take a single row for a fixed number of rows
    with silence("torch.onnx", "onnxscript"):
        program = torch.onnx.export(
            module,
            (x,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            input_names=[MATRIX],
            opset_version=OPSET[""],
            verbose=False,
        )
    assert program is not None  # it is None only without dynamo
    return strip(program.model_proto)


def prepend(graph: OnnxGraph, features: str, network: Any) -> Any:
    """Join the operators on columns and the network, whose names get a prefix, since columns may have any name."""
    from onnx import TensorProto, compose, helper

    types = {"string": TensorProto.STRING, "float64": TensorProto.DOUBLE}
    inputs = [
        helper.make_tensor_value_info(name, types[one["type"]], ["rows", *([one["width"]] if "width" in one else [])])
        for name, one in graph.columns.items()
    ]
    output = helper.make_tensor_value_info(features, TensorProto.FLOAT, ["rows", None])
    encode = helper.make_graph(graph.nodes, "lupi", inputs, [output], graph.constants)
    opset = [helper.make_opsetid(domain, version) for domain, version in OPSET.items()]
    columns = helper.make_model(encode, opset_imports=opset, ir_version=network.ir_version)
    network = compose.add_prefix(network, "network/")
    return compose.merge_models(columns, network, io_map=[(features, f"network/{MATRIX}")])


def name_outputs(content: Any, target: Target) -> None:
    """Name the outputs `label` and `probabilities`, or `prediction`; replace the numbers of classes by classes."""
    from onnx import helper, numpy_helper

    of_classes = isinstance(target, ClassTarget)
    outputs = list(content.graph.output)
    del content.graph.output[:]
    for name, output in zip(["label", "probabilities"] if of_classes else ["prediction"], outputs, strict=True):
        kind, shape = output.type.tensor_type.elem_type, list[str | int | None](["rows"])
        node = helper.make_node("Identity", [output.name], [name])
        if name == "label" and isinstance(target, ClassTarget) and not isinstance(target, SeveralLabels):
            classes = target.classes.astype(object) if target.classes.dtype.kind == "U" else target.classes
            constant = numpy_helper.from_array(classes, "lupi/classes")
            content.graph.initializer.append(constant)
            node, kind = helper.make_node("Gather", [constant.name, output.name], [name]), constant.data_type
        elif of_classes:
            shape.append(target.outputs)
        content.graph.node.append(node)
        content.graph.output.append(helper.make_tensor_value_info(name, kind, shape))
    content.producer_name = "lupi"


def strip(message: Any) -> Any:
    """Remove the exporter's metadata from a protobuf message, since it contains stack traces with local paths."""
    for field, value in message.ListFields():
        if field.name in ("doc_string", "metadata_props"):
            message.ClearField(field.name)
        elif field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:  # a message, or several
                strip(part)
    return message


@contextmanager
def silence(*loggers: str) -> Iterator[None]:
    """Suppress the exporter's warnings and log messages below errors, which are meant for its developers."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in loggers}
    try:
        for logger in levels:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
