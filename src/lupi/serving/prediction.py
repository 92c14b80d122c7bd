"""Make predictions for a table of any length."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from lupi._internal.checks import check_name, split_names
from lupi._internal.files import check_not_input, claim_output, explain_os_errors, is_formula, replace_file
from lupi._internal.progress import Steps
from lupi._internal.sanitizing import one_line
from lupi.estimators.table_estimator import Estimator
from lupi.serving.model import TableModel
from lupi.tabular.formats import count_rows, folder_of, open_file, read_batches, read_schema
from lupi.tabular.formats.separated import is_separated
from lupi.tabular.frames import to_pandas
from lupi.tabular.kinds.number import Number
from lupi.tabular.schema import InputColumn, Schema
from lupi.tabular.spec import Roles
from lupi.tabular.values import as_text, stored_as

MOST_NAMES = 10
"""Maximum number of columns whose names a message lists."""


def predict_table(
    model: TableModel | Estimator,
    table: str | Path,
    output: str | Path,
    *,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> int:
    """Predict a table in batches, and write the predictions to a Parquet or CSV file.

    Categories that were not in the training table cause a warning for each column. An estimator that was fitted on a
    DataFrame finds its columns by name, one that was fitted on an array takes them in their order.
    """
    output = Path(output)
    make_writer = find_writer(output)
    check_not_input(output, table)
    schema = read_schema(open_file(table))
    trained = as_table_model(model, schema, table)
    inputs, example = trained.schema.inputs, trained.schema.roles.example
    kept = split_names(keep, schema.names)
    for name in kept:
        check_name(name, schema.names, "keep")
    kept = list(dict.fromkeys([example, *kept] if example and example in schema.names else kept))
    trained.schema.check_table(schema, table)
    source = open_file(table, trained.schema.csv_types(name for name in kept if name not in inputs))
    total, done, writer, warned = count_rows(source), 0, None, False
    unseen = UnseenCategories(trained)
    with (
        claim_output(output, overwrite=overwrite),
        explain_os_errors(output),
        replace_file(output) as partial,
        ExitStack() as stack,
        Steps("predict", total, show=progress) as steps,
    ):
        for batch in read_batches(source, list(dict.fromkeys([*kept, *inputs]))):
            if batch.num_rows == 0:
                continue
            frame = to_pandas(batch)
            predicted = trained.predict(frame, start=done, folder=folder_of(table))
            unseen.add(frame)
            clash = set(kept) & set(predicted)
            if clash:
                raise ValueError(f"Expected `keep` to name no column of the output, but got {clash.pop()!r}.")
            rows = pa.table({name: batch.column(name) for name in kept} | predicted.to_dict("series"))
            try:
                if writer is None:
                    file = stack.enter_context(partial.open("wb"))  # Arrow accepts only UTF-8 paths
                    writer = stack.enter_context(make_writer(file, rows.schema))
                writer.write_table(rows)
            except pa.ArrowException as error:
                why = one_line(error).removesuffix(".")
                raise ValueError(f"Expected columns that a {output.suffix} file can hold, but got: {why}.") from error
            if output.suffix.lower() == ".csv" and not warned:
                warned = warn_of_formulas(rows)
            done += batch.num_rows
            steps.advance(batch.num_rows, "rows")
    for note in unseen.describe():
        warnings.warn(note, stacklevel=2)
    return done


def as_table_model(model: TableModel | Estimator, stored: pa.Schema, table: str | Path) -> TableModel:
    """Return a model that finds its inputs in a table with the given columns."""
    if isinstance(model, TableModel):
        return model
    encoder, classes = model.input_encoder_, getattr(model, "classes_", None)
    if encoder is None:
        raise ValueError("Expected `model` to take columns of a table, but it has a trunk of its own.")
    kinds = {name: one.kind for one in encoder.encodings_ for name in one.columns}
    if not hasattr(model, "feature_names_in_"):
        if len(stored.names) != len(kinds):
            what = f"Expected {table} to have {len(kinds)} columns, as the array that the model was fitted on"
            why = "fitted on a DataFrame, a model finds its columns by name"
            raise ValueError(f"{what}, but it has {len(stored.names)}: {why}.")
        few = len(kinds) <= MOST_NAMES
        listed = ", ".join(stored.names) if few else f"{stored.names[0]} to {stored.names[-1]}"
        warnings.warn(f"The model was fitted on an array, so columns are taken in their order: {listed}.", stacklevel=3)
        kinds = dict(zip(stored.names, kinds.values(), strict=True))
    inputs = {}
    for name, kind in kinds.items():
        here = stored_as(stored.field(name).type) if name in stored.names else "null"
        if is_separated(table) and not isinstance(kind, Number):
            here = "string"  # 007 is no number
        families = ([] if here == "null" else [here]) + ["number", "boolean", "string", "vector"]
        spelled = kind.name if kind.argument is None else f"{kind.name}:{kind.argument}"
        inputs[name] = InputColumn(spelled, next(family for family in families if kind.reads(family)))
    schema = Schema(
        roles=Roles(target=(), inputs=tuple(inputs)),
        task="regression" if classes is None else "classification",
        soft=False,
        inputs=inputs,
        privileged={},
        annotator=None,
    )
    return TableModel(
        estimator=model, schema=schema, record={"classes": None if classes is None else list(map(str, classes))}
    )


class UnseenCategories:
    """Count rows with unseen categories, batch by batch; memory does not grow with the number of rows."""

    def __init__(self, model: TableModel) -> None:
        encoder = model.estimator.input_encoder_
        self.encodings = {} if encoder is None else encoder.categories()
        self.found: dict[str, tuple[str, int]] = {}
        """One of the unseen categories of a column, and the number of rows."""

    def add(self, batch: pd.DataFrame) -> None:
        """Count the rows of a batch."""
        for name, encoding in self.encodings.items():
            counts = batch[name].value_counts(sort=False)  # without missing values
            distinct = counts.index.to_series()
            unseen = encoding.code(distinct) == -1
            if unseen.any():
                example, before = self.found.get(name, (as_text(distinct[unseen].iloc[0]), 0))
                self.found[name] = example, before + int(counts[unseen].sum())

    def describe(self) -> list[str]:
        """Return a sentence for every column with unseen categories."""
        return [
            f"Input column {name!r} has categories that were not in the training table, such as {example[:50]!r}, in "
            f"{count:,} row{'' if count == 1 else 's'}, and is ignored there."
            for name, (example, count) in self.found.items()
        ]


def warn_of_formulas(rows: pa.Table) -> bool:
    """Warn about cells that a spreadsheet would run as formulas, and return whether there are any.

    Programs read the predictions and match rows by id, so the cells are written unchanged.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if stored_as(field.type) != "string":
            continue
        found = next((text for text in column.unique().to_pylist() if text is not None and is_formula(text)), None)
        if found is not None:
            warnings.warn(
                f"Column {field.name!r} of the predictions has texts that spreadsheets run as formulas, such as "
                f"{found[:50]!r}: open the file in a spreadsheet only if you trust them.",
                stacklevel=3,
            )
            return True
    return False


def find_writer(path: Path) -> Callable[..., Any]:
    """Return the writer for the suffix of a file."""
    writers: dict[str, Callable[..., Any]] = {".parquet": pa.parquet.ParquetWriter, ".csv": pa.csv.CSVWriter}
    if path.suffix.lower() not in writers:
        raise ValueError(f"Expected `output` to be a .parquet or .csv file, but got {path}.")
    return writers[path.suffix.lower()]
