"""Export a predictor to ONNX: modules that take unscaled inputs and return probabilities or real numbers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from lupi._internal.files import replace_file
from lupi.likelihoods import Likelihood


class Affine(nn.Module):
    """Compute x·scale + shift."""

    def __init__(self, scale: ArrayLike, shift: ArrayLike) -> None:
        super().__init__()
        self.scale = nn.Buffer(torch.as_tensor(scale, dtype=torch.float32))
        self.shift = nn.Buffer(torch.as_tensor(shift, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Return x·scale + shift."""
        return x * self.scale + self.shift


class Standardize(nn.Module):
    """Compute (x − mean) / scale, with the mean as two float32 numbers, since one cannot hold a date in seconds."""

    def __init__(self, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        super().__init__()
        exact = torch.from_numpy(mean)
        self.mean = nn.Buffer(exact.float())
        self.rest = nn.Buffer((exact - self.mean).float())
        self.scale = nn.Buffer(torch.from_numpy(scale).float())

    def forward(self, x: Tensor) -> Tensor:
        """Return (x − mean) / scale."""
        return (x - self.mean - self.rest) / self.scale


class Mean(nn.Module):
    """Compute the expected y of an output."""

    def __init__(self, likelihood: Likelihood) -> None:
        super().__init__()
        self.likelihood = likelihood

    def forward(self, output: Tensor) -> Tensor:
        """Return probabilities or real numbers."""
        return self.likelihood.mean(output)


def export_onnx(module: nn.Module, x: Tensor, path: str | Path, *, tolerance: float = 1e-5) -> None:
    """Write a module as an ONNX file for any number of rows, after comparing its outputs with torch.

    Parameters
    ----------
    module : Module
        A module of x in evaluation mode.
    x : Tensor
        A few rows for tracing and for the comparison.
    path : str or Path
        The file.
    tolerance : float
        Largest absolute difference, relative to the largest output if that is above 1.
    """
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
        program.save(partial, external_data=False)
        session = onnxruntime.InferenceSession(partial, providers=["CPUExecutionProvider"])
        for rows in (x, x[:1]):
            (output,) = session.run(None, {"x": rows.numpy()})
            with torch.no_grad():
                expected = module(rows).numpy()
            difference = float(np.abs(output - expected).max()) / max(1.0, float(np.abs(expected).max()))
            if not difference <= tolerance:
                raise ValueError(f"Expected the ONNX file to give torch's outputs, but it differs by {difference:.2g}.")


@contextmanager
def silence(*loggers: str) -> Iterator[None]:
    """Suppress warnings and log messages below errors: the exporter's are for its own developers."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in loggers}
    try:
        for logger in levels:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
