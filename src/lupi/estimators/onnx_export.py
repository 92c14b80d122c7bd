"""Export a predictor to ONNX."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.files import replace_file
from lupi.tabular.encoding import TableEncoder
from lupi.tabular.kinds.embedded import Embedded
from lupi.tabular.kinds.number import FARTHEST, Boolean, Number, Standard, Standardized
from lupi.tabular.kinds.vector import Vector

NUMERIC = (Number, Standardized, Boolean, Vector)
"""Kinds of columns that an ONNX file can hold."""


class Deployed(nn.Module):
    """A predictor that takes unscaled numbers and returns probabilities or real numbers."""

    def __init__(self, predictor: nn.Module, decode: Callable[[Tensor], Tensor], encoder: TableEncoder | None) -> None:
        super().__init__()
        self.predictor, self.decode, self.encoded = predictor, decode, encoder is not None
        if encoder is not None:
            encodings = check_numeric(encoder)
            mean = torch.from_numpy(np.concatenate([one.mean for one in encodings]))
            self.mean = nn.Buffer(mean.float())
            self.rest = nn.Buffer((mean - self.mean).float())  # one float32 number cannot hold a date in seconds
            self.scale = nn.Buffer(torch.from_numpy(np.concatenate([one.scale for one in encodings])).float())
            starts = np.cumsum([0, *(one.numbers for one in encodings)])
            missing = [start + one.missing for start, one in zip(starts, encodings, strict=False)]
            self.missing = nn.Buffer(torch.from_numpy(np.concatenate(missing)))
            self.order = nn.Buffer(torch.from_numpy(order_features(encodings)))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the expected y."""
        if self.encoded:
            x = ((x - self.mean - self.rest) / self.scale).clamp(-FARTHEST, FARTHEST)
            absent = torch.isnan(x)
            x = torch.cat([torch.where(absent, 0.0, x), absent[:, self.missing].to(x.dtype)], dim=1)[:, self.order]
        return self.decode(self.predictor(x))


def order_features(encodings: Sequence[Standard]) -> NDArray[np.int64]:
    """Return the position of each feature among all numbers, which come first, and all indicators of missing values."""
    number, indicator, order = 0, sum(one.numbers for one in encodings), []
    for one in encodings:
        order += [*range(number, number + one.numbers), *range(indicator, indicator + one.codes)]
        number, indicator = number + one.numbers, indicator + one.codes
    return np.array(order, dtype=np.int64)


def check_numeric(encoder: TableEncoder) -> list[Standard]:
    """Return the encodings of numbers; raise a `ValueError` if a column is of another kind, which ONNX cannot hold."""
    for one in encoder.encodings_:
        if isinstance(one, Embedded) or not isinstance(one, Standard) or type(one.kind) not in NUMERIC:
            what = f"{one.columns[0]!r} is {'a category' if one.kind.name == 'category' else one.kind.name}"
            raise ValueError(f"Expected all columns of X to be numbers for an ONNX file, but {what}.")
    return [one for one in encoder.encodings_ if isinstance(one, Standard)]


def draw_inputs(encoder: TableEncoder) -> Tensor:
    """Draw ten rows with the mean and scale of the training set; the first misses every value that may be missing."""
    parts = []
    for one in check_numeric(encoder):
        scale = np.where(np.isinf(one.scale), 0.0, one.scale)  # a constant column stays constant
        x = np.random.default_rng(0).normal(one.mean, scale, size=(10, one.numbers))
        x[0, one.missing] = np.nan
        parts.append(x)
    return torch.from_numpy(np.hstack(parts)).float()


def export_onnx(module: nn.Module, x: Tensor, path: str | Path, *, tolerance: float = 1e-5) -> None:
    """Write a module as an ONNX file for any number of rows, after comparing its outputs with torch."""
    try:
        import onnxruntime  # slow to import
        import onnxscript  # noqa: F401 - torch needs it
    except ImportError as error:
        raise ImportError(f"Expected the extra `export` (pip install 'lupi[export]'), but {error}.") from error

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    x = torch.cat([x, x]) if x.shape[0] == 1 else x  # torch would take a single row for a fixed number of rows
    with replace_file(path) as partial:
        with silence("torch.onnx", "onnxscript"):
            program = torch.onnx.export(
                module,
                (x,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("rows")},),
                input_names=["x"],
                output_names=["y"],
                verbose=False,
            )
        assert program is not None  # it is None only without dynamo
        content = strip(program.model_proto).SerializeToString()
        partial.write_bytes(content)
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        for rows in (x, x[:1]):
            (output,) = session.run(None, {"x": rows.numpy()})
            with torch.no_grad():
                expected = module(rows).numpy()
            difference = float(np.abs(output - expected).max()) / max(1.0, float(np.abs(expected).max()))
            if not difference <= tolerance:
                raise ValueError(f"Expected the ONNX file to give torch's outputs, but it differs by {difference:.2g}.")


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
