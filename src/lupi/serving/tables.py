"""From an annotation table to a model folder, and from a model folder to predictions."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from lupi import methods
from lupi._internal.devices import check_device
from lupi._internal.progress import Steps
from lupi.estimators import folder as persistence
from lupi.estimators.base import PrivilegedClassifier, PrivilegedEstimator, PrivilegedRegressor
from lupi.serving.card import card
from lupi.tabular.tables import (
    Schema,
    as_pandas,
    batches,
    check_matches,
    check_name,
    count_rows,
    open_table,
    prepare,
    read_annotations,
    split_names,
)
from lupi.tabular.text import TfidfEncoder, TransformerEncoder, make_encoder

TextEncoder = TfidfEncoder | TransformerEncoder
ESTIMATORS: dict[str, type[PrivilegedEstimator]] = {
    "PrivilegedClassifier": PrivilegedClassifier,
    "PrivilegedRegressor": PrivilegedRegressor,
}
CARD, NUMBERS, LOSSES = "README.md", "results.json", "results.csv"


@dataclass(frozen=True)
class TableModel:
    """A trained estimator with what it needs to read tables."""

    estimator: PrivilegedEstimator
    schema: Schema
    text: dict[str, TextEncoder]

    def predict(self, frame: pd.DataFrame, start: int = 0) -> pd.DataFrame:
        """Predict rows of a table.

        Parameters
        ----------
        frame : DataFrame
            Has the input columns; others are not looked at.
        start : int
            Where in a larger table these rows begin, for messages.

        Returns
        -------
        DataFrame
            `prediction` and, of classes, `probability_<class>`; of several targets `prediction_<target>` and
            `probability_<target>`.
        """
        X = features(prepare(frame, self.schema.inputs, start), self.text)
        if isinstance(self.estimator, PrivilegedRegressor):
            return pd.DataFrame({"prediction": self.estimator.predict(X)})
        assert isinstance(self.estimator, PrivilegedClassifier)
        p = self.estimator.predict_proba(X)
        if self.estimator.multi_label_:
            names = self.schema.roles.target
            on = {f"prediction_{name}": p[:, i] > 0.5 for i, name in enumerate(names)}
            return pd.DataFrame(
                {name: value.astype(int) for name, value in on.items()}
                | {f"probability_{name}": p[:, i].astype(np.float32) for i, name in enumerate(names)}
            )
        classes = self.estimator.classes_
        shares = {f"probability_{name}": p[:, i].astype(np.float32) for i, name in enumerate(classes)}
        return pd.DataFrame({"prediction": classes[p.argmax(1)], **shares})


def features(frame: pd.DataFrame, text: Mapping[str, TextEncoder]) -> pd.DataFrame:
    """Replace each text column by the numbers of its encoder, which sees every distinct text once.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [20, 40, 60], "note": ["so good", "so bad", "so good"]})
    >>> encoder = TfidfEncoder(width=2).fit(["so good", "so bad"])
    >>> list(features(frame, {"note": encoder}))
    ['age', 'note[0]', 'note[1]']
    """
    parts = []
    for name, column in frame.items():
        if name not in text:
            parts.append(column.to_frame())
            continue
        place, distinct = pd.factorize(column)
        rows = text[str(name)].transform([str(value) for value in distinct])[place]
        names = [f"{name}[{i}]" for i in range(rows.shape[1])]
        parts.append(pd.DataFrame(rows, columns=names, index=frame.index))
    return pd.concat(parts, axis="columns")


# -------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class Request:
    """What `lupi train` was asked for."""

    table: Path
    target: Sequence[str]
    privileged: Sequence[str] = ()
    example: str | None = None
    ignore: Sequence[str] = ()
    kind: Sequence[str] = ()
    task: str | None = None
    method: str = "tram"
    text_encoder: str | None = None
    device: str = "cpu"
    seed: int = 0
    settings: Mapping[str, Any] | None = None
    """More parameters of the estimator, such as `epochs`."""


def train(
    request: Request, say: Callable[[str], None] = print, *, progress: bool = True
) -> tuple[TableModel, dict[str, Any]]:
    """Train on a table.

    Parameters
    ----------
    request : Request
        The table, its columns and how to train.
    say : callable
        Takes each choice that was made, as a line.
    progress : bool
        Show progress.

    Returns
    -------
    tuple
        The model, and the facts of this training for the model card.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "table.csv")
    ...     pd.DataFrame({"x": [1.5, 2, 3, 4], "worker": [1, 2, 1, 2], "y": list("abab")}).to_csv(table, index=False)
    ...     request = Request(table, ["y"], ["worker"], settings={"epochs": 1})
    ...     model, facts = train(request, progress=False)  # doctest: +ELLIPSIS
    Task: classification (the target is names).
    Inputs: 1 number.
    Privileged: worker (category).
    Note: Privileged column 'worker' holds whole numbers that look like ids, so each is a category; ...
    >>> list(model.predict(pd.DataFrame({"x": [2.5]})))
    ['prediction', 'probability_a', 'probability_b']
    """
    uses_privileged = methods.kind(request.method).uses_privileged
    check_device(request.device)
    missing = f"Expected `--privileged` to name columns, since method {request.method!r} learns from them."
    read = read_annotations(request, missing if uses_privileged else None)
    frame, roles, inputs = read.frame, read.schema.roles, read.schema.inputs
    for sentence in (*read.said, *(f"Note: {note}" for note in read.notes)):
        say(sentence)
    X = prepare(frame, inputs)
    text = {}
    for name, column in inputs.items():
        if column.kind == "text":
            encoder = make_encoder(resolved(request.text_encoder), request.device)
            text[name] = encoder.fit([str(value) for value in X[name].unique()])
    y = frame[roles.target[0]] if len(roles.target) == 1 else frame[list(roles.target)].astype(int)
    kind = PrivilegedRegressor if read.schema.task == "regression" else PrivilegedClassifier
    estimator = kind(
        request.method,
        numbers={
            name: "category" if kind == "category" else "quantile" for name, kind in read.schema.privileged.items()
        },
        device=request.device,
        random_state=request.seed,
        verbose=progress,
        **(request.settings or {}),
    )
    estimator.fit(
        features(X, text),
        y,
        privileged=frame[list(roles.privileged)] if uses_privileged else None,
        example=frame[roles.example] if roles.example else None,
    )
    estimator.set_params(verbose=False)
    schema = read.schema if uses_privileged else replace(read.schema, privileged={})
    return TableModel(estimator, schema, text), {
        "table": str(request.table),
        "rows": len(frame),
        "examples": frame[roles.example].nunique() if roles.example else len(frame),
        "classes": class_names(estimator, schema),
        "epochs": estimator.epochs,
        "seed": request.seed,
        "text_encoder": request.text_encoder or "TF-IDF, reduced by a truncated singular value decomposition",
        "notes": read.notes,
        "history": estimator.history_,
    }


def resolved(name: str | None) -> str | None:
    """Make the name of a folder absolute, since a model is used from other folders too."""
    return str(Path(name).resolve()) if name and Path(name).is_dir() else name


def class_names(estimator: PrivilegedEstimator, schema: Schema) -> list[str] | None:
    """Names of the probabilities that a model gives."""
    if not isinstance(estimator, PrivilegedClassifier):
        return None
    return list(schema.roles.target) if estimator.multi_label_ else [str(name) for name in estimator.classes_]


def save(model: TableModel, training: Mapping[str, Any], path: str | Path) -> None:
    """Write the model folder: the estimator's files, a card, and what training was told and did.

    Parameters
    ----------
    model : TableModel
        The model.
    training : mapping
        Facts of `train`, with `command` and `versions`.
    path : str or Path
        The folder.
    """
    stored = model.estimator._stored()
    facts = stored.facts | {"table": model.schema.to_json()}
    notes = {
        CARD: card(model.schema, facts, training),
        NUMBERS: json.dumps(training, indent=2, default=persistence.plain) + "\n",
        LOSSES: pd.DataFrame(training["history"]).to_csv(index=False),
    }
    encoders = stored.encoders | {"text_encoders_": model.text}
    with writing(path):
        persistence.write(path, persistence.Stored(facts, stored.weights, encoders), notes)


# -------------------------------------------------------------------------------- prediction


def load_estimator(path: str | Path, device: str = "cpu") -> PrivilegedEstimator:
    """Read the estimator of any model folder."""
    name = persistence.read(path).facts["estimator"]
    if name not in ESTIMATORS:
        raise ValueError(f"Expected {path} to hold one of {', '.join(ESTIMATORS)}, but it holds a {name}.")
    return ESTIMATORS[name].load(path, device=device)


def load(path: str | Path, device: str = "cpu", text_encoder: str | None = None) -> TableModel:
    """Read a model folder that `lupi train` wrote.

    Parameters
    ----------
    path : str or Path
        The folder.
    device : str
        Where to predict.
    text_encoder : str, optional
        Where the Hugging Face encoder of training is now, if it has moved.
    """
    check_device(device)
    stored = persistence.read(path)
    if "table" not in stored.facts:
        raise ValueError(f"Expected {path} to be a model that `lupi train` wrote, but it was saved from Python.")
    text = stored.encoders["text_encoders_"]
    for encoder in text.values():
        if isinstance(encoder, TransformerEncoder):
            encoder.device = device
            encoder.name = resolved(text_encoder) or encoder.name
    return TableModel(load_estimator(path, device), Schema.from_json(stored.facts["table"]), text)


def predict(
    model: TableModel, table: str | Path, output: str | Path, keep: Sequence[str] = (), *, progress: bool = True
) -> int:
    """Predict a table of any length, part by part, into a Parquet or CSV file.

    Parameters
    ----------
    model : TableModel
        The model.
    table : str or Path
        CSV, Parquet or a folder of Parquet.
    output : str or Path
        The file, .parquet or .csv.
    keep : sequence of str
        Columns to copy; the example's is copied where the table has it.
    progress : bool
        Show progress.

    Returns
    -------
    int
        The number of rows.
    """
    names = open_table(table).schema.names
    example = model.schema.roles.example
    kept = split_names(keep, names)
    for name in kept:
        check_name(name, names, "--keep")
    kept = list(dict.fromkeys([example, *kept] if example and example in names else kept))
    check_matches(open_table(table).schema, model.schema.inputs, table)
    source = open_table(table, model.schema.csv_types(name for name in kept if name not in model.schema.inputs))
    total = count_rows(source, table)
    columns = list(dict.fromkeys([*kept, *model.schema.inputs]))
    done = 0
    with Steps("predict", total, show=progress) as steps, table_writer(output) as write:
        for batch in batches(source, columns, table):
            if batch.num_rows == 0:
                continue
            predicted = pa.Table.from_pandas(model.predict(as_pandas(batch), done), preserve_index=False)
            clash = set(kept) & set(predicted.schema.names)
            if clash:
                raise ValueError(f"Expected `--keep` to name other columns than the output's, but got {clash.pop()!r}.")
            copied = [(name, batch.column(name)) for name in kept]
            own = [(name, predicted.column(name)) for name in predicted.schema.names]
            write(pa.table(dict(copied + own)))
            done += batch.num_rows
            steps.advance(batch.num_rows, "rows")
    return done


@contextmanager
def table_writer(path: str | Path) -> Iterator[Callable[[pa.Table], None]]:
    """Write a table part by part under another name, and move it into place when it is whole."""
    path = Path(path)
    form = output_format(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name + ".")
    with folder as name:
        partial_file = Path(name, path.name)
        writer: Any = None

        def write(rows: pa.Table) -> None:
            nonlocal writer
            with writing(path):
                try:
                    if writer is None:
                        writer = form(partial_file, rows.schema)
                    writer.write_table(rows)
                except pa.ArrowException as error:
                    why = " ".join(str(error).split()).removesuffix(".")
                    raise ValueError(f"Expected columns that a {path.suffix} file can hold, but got: {why}.") from error

        try:
            yield write
            with writing(path):
                writer.close()
                partial_file.replace(path)
        except BaseException:
            if writer is not None:
                with suppress(OSError):
                    writer.close()
            raise


def output_format(path: Path) -> Callable[..., Any]:
    """Find the writer of a file by its name."""
    formats: dict[str, Callable[..., Any]] = {".parquet": pa.parquet.ParquetWriter, ".csv": pa.csv.CSVWriter}
    if path.suffix.lower() not in formats:
        raise ValueError(f"Expected `--output` to be a .parquet or .csv file, but got {path}.")
    return formats[path.suffix.lower()]


def export(path: str | Path, onnx: str | Path) -> list[str]:
    """Write a model folder's predictor as an ONNX file.

    Returns
    -------
    list of str
        What goes into the file's graph and what comes out, in words.
    """
    stored = persistence.read(path)
    estimator = load_estimator(path)
    for name in stored.encoders.get("text_encoders_", {}):
        raise ValueError(f"Expected all input columns to be numbers for an ONNX file, but {name!r} is text.")
    with writing(onnx, "--onnx"):
        estimator.export_onnx(onnx)
    outputs = "real numbers, [rows]"
    if isinstance(estimator, PrivilegedClassifier):
        names = [str(name) for name in estimator.classes_]
        if estimator.multi_label_ and "table" in stored.facts:
            names = list(stored.facts["table"]["roles"]["target"])
        outputs = f"probabilities, [rows, {len(names)}]: {', '.join(names)}"
    columns = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(estimator.n_features_in_)])
    return [
        f"ONNX: {onnx}, checked against torch",
        f"  x: float32 numbers as they are in the table, [rows, {len(columns)}]: {', '.join(columns)}",
        f"  y: float32 {outputs}",
    ]


# -------------------------------------------------------------------------------- outputs


def check_output(path: Path, option: str, overwrite: bool, *, folder: bool = False) -> None:
    """Look, before long work, whether an output is new or may be replaced, and whether it can be written."""
    empty = folder and path.is_dir() and not any(path.iterdir())
    if path.exists() and not empty:
        if not overwrite:
            raise FileExistsError(f"Expected `{option}` to be new, but {path} exists: `--overwrite` replaces it.")
        if folder and not persistence.replaceable(path):
            raise FileExistsError(f"Expected `{option}` to be new or a model to replace, but {path} is something else.")
        if not folder and path.is_dir():
            raise FileExistsError(f"Expected `{option}` to be a file, but {path} is a folder.")
    with writing(path, option):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


@contextmanager
def writing(path: str | Path, option: str = "--output") -> Iterator[None]:
    """Turn what the disk says into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        why = os.strerror(error.errno)
        raise OSError(f"Expected `{option}` to be a place to write to, but got {path}: {why}.") from error
