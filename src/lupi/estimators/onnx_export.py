"""A trained network as one module, from inputs as they are to probabilities or real numbers, and as an ONNX file."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from lupi.likelihoods import Likelihood


class Affine(nn.Module):
    """x·scale + shift."""

    def __init__(self, scale: ArrayLike, shift: ArrayLike) -> None:
        super().__init__()
        self.scale = nn.Buffer(torch.as_tensor(scale, dtype=torch.float32))
        self.shift = nn.Buffer(torch.as_tensor(shift, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """x·scale + shift."""
        return x * self.scale + self.shift


class Standardize(nn.Module):
    """(x − mean) / scale; the mean is two float32 numbers, since one would lose digits of, say, a date in seconds."""

    def __init__(self, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        super().__init__()
        exact = torch.from_numpy(mean)
        self.mean = nn.Buffer(exact.float())
        self.rest = nn.Buffer((exact - self.mean).float())
        self.scale = nn.Buffer(torch.from_numpy(scale).float())

    def forward(self, x: Tensor) -> Tensor:
        """(x − mean) / scale."""
        return (x - self.mean - self.rest) / self.scale


class Mean(nn.Module):
    """Expected y of an output."""

    def __init__(self, likelihood: Likelihood) -> None:
        super().__init__()
        self.likelihood = likelihood

    def forward(self, output: Tensor) -> Tensor:
        """Probabilities or real numbers."""
        return self.likelihood.mean(output)


def export_onnx(module: nn.Module, x: Tensor, path: str | Path, *, tolerance: float = 1e-5) -> None:
    """Write a module of x as an ONNX file, for any number of rows, and check it against torch before it is in place.

    Parameters
    ----------
    module : Module
        In evaluation mode.
    x : Tensor
        A few rows, to trace and to check with.
    path : str or Path
        The file.
    tolerance : float
        Largest difference of an output, where the largest output is above 1 as a share of it.
    """
    try:
        import onnxruntime  # slow
        import onnxscript  # noqa: F401 - torch needs it
    except ImportError as error:
        raise ImportError(f"Expected the extra `export` (pip install 'lupi[export]'), but {error}.") from error

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name + ".") as folder:
        partial = Path(folder, "model.onnx")
        x = torch.cat([x, x]) if x.shape[0] == 1 else x  # of one row, torch would take their number as fixed
        rows = ({0: torch.export.Dim("rows")},)
        with quiet("torch.onnx", "onnxscript"):
            program = torch.onnx.export(
                module, (x,), dynamo=True, dynamic_shapes=rows, input_names=["x"], output_names=["y"], verbose=False
            )
        assert program is not None  # it is None only without dynamo
        program.save(partial, external_data=False)
        session = onnxruntime.InferenceSession(partial, providers=["CPUExecutionProvider"])
        for part in (x, x[:1]):
            (output,) = session.run(None, {"x": part.numpy()})
            with torch.no_grad():
                expected = module(part).numpy()
            difference = float(np.abs(output - expected).max()) / max(1.0, float(np.abs(expected).max()))
            if not difference <= tolerance:
                raise ValueError(f"Expected the ONNX file to give torch's outputs, but it differs by {difference:.2g}.")
        partial.replace(path)


@contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """Hold back warnings, and what loggers say that is no error: the exporter speaks to its own developers."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in loggers}
    try:
        for logger in levels:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
