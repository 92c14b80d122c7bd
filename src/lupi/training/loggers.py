"""Callbacks that log every epoch to TensorBoard, MLflow or Weights & Biases.

If several processes train together, each calls its own callbacks, so pass a logger in only one of them.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lupi.methods.base import Method
from lupi.training.loop import Epoch

Logger = Callable[[Epoch, Method], None]


def to_tensorboard(writer: Any) -> Logger:
    """Return a callback that logs to TensorBoard.

    Parameters
    ----------
    writer : torch.utils.tensorboard.SummaryWriter, str or Path
        A writer, or the folder for a new one.

    Examples
    --------
    >>> fit(method, data, callbacks=[to_tensorboard("runs/1")])  # doctest: +SKIP
    """
    if isinstance(writer, str | Path):
        writer = import_package("torch.utils.tensorboard", "tensorboard").SummaryWriter(writer)

    def log(row: Epoch, method: Method) -> None:  # noqa: ARG001
        for name, value in flatten_row(row).items():
            writer.add_scalar(name, value, row["epoch"])
        writer.flush()

    return log


def to_mlflow() -> Logger:
    """Return a callback that logs to the active run of MLflow, or to a new one.

    Examples
    --------
    >>> fit(method, data, callbacks=[to_mlflow()])  # doctest: +SKIP
    """
    mlflow = import_package("mlflow", "mlflow")

    def log(row: Epoch, method: Method) -> None:  # noqa: ARG001
        mlflow.log_metrics(flatten_row(row), step=row["epoch"])

    return log


def to_wandb(run: Any = None) -> Logger:
    """Return a callback that logs to a run of Weights & Biases.

    Every stage counts its epochs from 1, but the steps of a run cannot decrease, so the epoch is logged as a value.

    Parameters
    ----------
    run : wandb.Run, optional
        The run; by default the active one.

    Examples
    --------
    >>> fit(method, data, callbacks=[to_wandb(wandb.init(project="labels"))])  # doctest: +SKIP
    """
    run = import_package("wandb", "wandb").run if run is None else run
    if run is None:
        raise ValueError("Expected `run` to be a run of Weights & Biases, or one to be active, but there is none.")

    def log(row: Epoch, method: Method) -> None:  # noqa: ARG001
        run.log({**flatten_row(row), f"{row['stage']}/epoch": row["epoch"]})

    return log


def flatten_row(row: Epoch) -> dict[str, float]:
    """Return the numbers of an epoch by stage and name and, for replicas that have not stopped, by replica."""
    numbers: dict[str, float] = {}
    for name, value in row.items():
        if name not in ("stage", "epoch"):
            each = {f"/{number}": one for number, one in enumerate(value)} if isinstance(value, list) else {"": value}
            numbers |= {f"{row['stage']}/{name}{end}": float(one) for end, one in each.items() if not np.isnan(one)}
    return numbers


def import_package(module: str, package: str) -> Any:
    """Import a module of an optional package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"Expected {package} to be installed (pip install {package}), but {error}.") from error
