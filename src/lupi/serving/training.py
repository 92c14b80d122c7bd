"""Train a model on a table."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lupi import methods
from lupi._internal.devices import pick_device
from lupi._internal.files import claim_output, explain_os_errors, hidden_path, library_versions, remove, resolve
from lupi.estimators.folder import is_replaceable
from lupi.estimators.table_estimator import TableEstimator, check_trust
from lupi.serving.model import TableModel
from lupi.tabular import TableSpec
from lupi.tabular.table_data import read_data
from lupi.training import Checkpoint

CHECKPOINT = "lupi-checkpoint"
"""Suffix of the hidden checkpoint file beside a model."""
INTERVAL = 60.0
"""Seconds between two checkpoints, and before the first."""


def train(
    spec: TableSpec,
    *,
    method: str = "auto",
    device: str = "auto",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    save_privileged: bool = True,
    checkpoint: bool = True,
    command: str | None = None,
    notify: Callable[[str], None] | None = None,
    progress: bool = False,
) -> TableModel:
    """Train a model on a table of annotations.

    Parameters
    ----------
    spec : TableSpec
        The table and the roles of its columns.
    method : str
        One of `lupi.methods.names()`. "tram" is the paper's method. The default is "auto", as for the estimators, which
        needs no privileged columns.
    device : str
        Device for training; by default a GPU if there is one.
    seed : int
        Seed for initial weights, batches and noise.
    settings : mapping, optional
        Further parameters of the estimator, such as `epochs`.
    output : str or Path, optional
        Folder to save the model to.
    overwrite : bool
        Whether to replace a model in that folder.
    save_privileged : bool
        Whether to also save the parts that take privileged information. See `TableModel.save`.
    checkpoint : bool
        Whether to save the state of training every minute, in a hidden file beside `output`. A run with the same
        options resumes from it and reaches the same model; with other options, it raises an error. The file is removed
        when the model has been saved.
    command : str, optional
        The command that trained the model, for the model card.
    notify : callable, optional
        Called with a line for each thing that was recognized in the table before training starts, and then with the
        mixture of "auto".
    progress : bool
        Whether to show progress.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "table.csv")
    ...     pd.DataFrame({"x": [1.5, 2, 3, 4], "worker": list("abab"), "y": list("nyny")}).to_csv(table, index=False)
    ...     spec = TableSpec(table=table, target=["y"], privileged=["worker"])
    ...     model = train(spec, method="tram", settings={"epochs": 1}, notify=print)
    Task: classification (the target holds names).
    Inputs: 1 number.
    Privileged: worker (category).
    Annotators: worker, by its name; `annotator` names another column.
    >>> list(model.predict(pd.DataFrame({"x": [2.5]})))
    ['prediction', 'probability_n', 'probability_y']
    """
    pick_device(device)  # before the table is read
    if methods.kind(method).needs_privileged and not (spec.privileged or spec.annotator):
        raise ValueError(f"Expected `privileged` to name columns, since method {method!r} learns from them.")
    if output is not None and not save_privileged and methods.kind(method).ships_privileged:
        raise ValueError(
            "Expected `method` to be one whose predictor contains no privileged information, to save it without any, "
            f"but that of {method!r} contains values of the training set."
        )
    with ExitStack() as stack:
        kept = None
        if output is not None:
            claim = claim_output(output, overwrite=overwrite, folder=True, ours=is_replaceable, kind="model")
            stack.enter_context(claim)
            kept = hidden_path(resolve(output), CHECKPOINT)
        stack.enter_context(explain_interrupt(kept if checkpoint else None))
        model = fit_table(
            spec,
            method,
            {**(settings or {}), "device": device, "random_state": seed, "verbose": progress},
            checkpoint=Checkpoint(kept, every=1, seconds=INTERVAL) if checkpoint and kept is not None else None,
            notify=notify or (lambda _: None),
            command=command,
        )
        if output is not None:
            with explain_os_errors(output):
                model.save(output, privileged=save_privileged)
        if kept is not None:
            remove(kept)
    return model


@contextmanager
def explain_interrupt(checkpoint: Path | None) -> Iterator[None]:
    """Add to a keyboard interrupt how to resume, if there is a checkpoint."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        how = "start again, since the first checkpoint is due after a minute"
        if checkpoint.exists():
            how = f"resume from {checkpoint}, which is at most a minute old"
        raise KeyboardInterrupt(f"Training was interrupted: run it again, with the same options, to {how}.") from None


def fit_table(
    spec: TableSpec,
    method: str,
    parameters: Mapping[str, Any],
    *,
    checkpoint: Checkpoint | None,
    notify: Callable[[str], None],
    command: str | None,
) -> TableModel:
    """Read a table and fit an estimator with the given parameters."""
    data = read_data(spec)
    check_trust(data)
    for line in (*data.choices, *(f"Note: {note}" for note in data.notes)):
        notify(line)
    training = parameters.get("training")
    model = TableEstimator(
        data.schema, method, {**parameters, "training": {**(training or {}), "checkpoint": checkpoint}}
    )
    if spec.trust and not model.uses_trust:
        notify(f"Note: method {method} has no model of annotators, so `trust` has no effect.")
    if checkpoint is not None and Path(checkpoint.path).exists():
        notify(f"Resuming from {checkpoint.path}.")
    estimator = model.fit(data).estimator
    estimator.set_params(verbose=False, training=training)
    mixture = describe_mixture(estimator.mixture_) if len(estimator.method_.mixture()) > 1 else None
    if mixture is not None:
        notify(mixture)
    return TableModel(
        estimator=estimator,
        schema=data.schema if model.uses_privileged else replace(data.schema, privileged={}),
        record={
            "table": str(spec.table),
            "rows": len(data),
            "examples": data.examples,
            "classes": model.classes,
            "epochs": estimator.epochs,
            "mixture": mixture,
            "seed": estimator.random_state,
            "text_encoder": spec.text_encoder or "TF-IDF, reduced by a truncated singular value decomposition",
            "image_encoder": spec.image_encoder or "the pixels of a thumbnail",
            "notes": data.notes,
            "command": command,
            "versions": library_versions(),
            "history": [{name: average(value) for name, value in row.items()} for row in estimator.history_],
        },
    )


def describe_mixture(weights: Mapping[str, float]) -> str:
    """Describe what was mixed."""
    used = sorted((name for name, weight in weights.items() if weight >= 0.005), key=lambda name: -weights[name])
    return f"Mixture: {', '.join(f'{name} {weights[name]:.2f}' for name in used)}."


def average(value: Any) -> Any:
    """Average a loss over the networks of a stage that train together, without those that have stopped."""
    return float(np.nanmean(value)) if isinstance(value, list) else value
