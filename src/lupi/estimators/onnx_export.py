"""Export a predictor to ONNX."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.files import replace_file
from lupi.tabular import InputEncoder
from lupi.tabular.standardizing import FARTHEST


class Deployed(nn.Module):
    """A predictor that takes unscaled inputs and returns probabilities or real numbers."""

    def __init__(
        self,
        predictor: nn.Module,
        decode: Callable[[Tensor], Tensor],
        encoder: InputEncoder | None,
    ) -> None:
        super().__init__()
        self.predictor, self.decode, self.encoded = predictor, decode, encoder is not None
        if encoder is not None:
            mean = torch.from_numpy(encoder.mean_)
            self.mean = nn.Buffer(mean.float())
            self.rest = nn.Buffer((mean - self.mean).float())  # one float32 number cannot hold a date in seconds
            self.scale = nn.Buffer(torch.from_numpy(encoder.scale_).float())
            self.missing = nn.Buffer(torch.from_numpy(encoder.missing_))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the expected y."""
        if self.encoded:
            x = ((x - self.mean - self.rest) / self.scale).clamp(-FARTHEST, FARTHEST)
            absent = torch.isnan(x)
            x = torch.cat([torch.where(absent, 0.0, x), absent[:, self.missing].to(x.dtype)], dim=1)
        return self.decode(self.predictor(x))


def check_numeric(encoder: InputEncoder) -> None:
    """Raise an error unless an encoder takes numbers alone, which an ONNX file needs."""
    if not encoder.numeric_:
        name, kind = next(item for item in encoder.encoder_.kinds_.items() if item[1] != "standardize")
        what = f"{name!r} is {'text' if kind == 'text' else 'a category'}"
        raise ValueError(f"Expected all columns of X to be numbers for an ONNX file, but {what}.")


def draw_inputs(encoder: InputEncoder, columns: int) -> NDArray[np.float64]:
    """Draw ten rows with the mean and scale of the training set; the first misses every value that may be missing."""
    scale = np.where(np.isinf(encoder.scale_), 0.0, encoder.scale_)  # a constant column stays constant
    x = np.random.default_rng(0).normal(encoder.mean_, scale, size=(10, columns))
    x[0, encoder.missing_] = np.nan
    return x


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
