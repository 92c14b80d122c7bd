"""Models trained on a table: predict, save, load and export them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi._internal.devices import pick_device
from lupi._internal.files import claim_output, explain_os_errors, to_csv
from lupi._internal.json_types import from_json
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor, folder, onnx_export
from lupi.estimators.base import MethodMaker, Trunk
from lupi.estimators.packing import explain_contents, pack_model, unpack_model
from lupi.estimators.table_estimator import Estimator
from lupi.serving.card import write_card
from lupi.tabular.frames import as_pandas
from lupi.tabular.kinds.embedded import Embedded
from lupi.tabular.pretrained_encoders import PretrainedEncoder, resolve_folder
from lupi.tabular.schema import Schema

ESTIMATORS: dict[str, type[Estimator]] = {kind.__name__: kind for kind in (PrivilegedClassifier, PrivilegedRegressor)}


class Record(TypedDict):
    """The record of a training run."""

    table: str
    rows: int
    examples: int
    classes: list[str] | None
    epochs: int
    mixture: NotRequired[str | None]
    seed: int
    text_encoder: str
    image_encoder: NotRequired[str]
    notes: list[str]
    command: str | None
    versions: dict[str, str]
    history: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class TableModel:
    """A model that was trained on a table and makes predictions for tables.

    Parameters
    ----------
    estimator : PrivilegedClassifier or PrivilegedRegressor
        The trained estimator.
    schema : Schema
        The columns of the training table, their roles and kinds.
    record : mapping
        The training record: the table and its size, classes, settings, notes, losses and versions.
    """

    estimator: Estimator
    schema: Schema
    record: Mapping[str, Any]

    def predict(self, table: pd.DataFrame, *, start: int = 0, folder: str | Path = ".") -> pd.DataFrame:
        """Predict the rows of a table.

        Parameters
        ----------
        table : DataFrame, list of dict or dict
            A pandas, polars or Arrow table with the input columns, or records; other columns are ignored.
        start : int
            Number of the first row in a larger table, for messages.
        folder : str or Path
            Folder of the images that the table names.

        Returns
        -------
        DataFrame
            `prediction` and, for classification, `probability_<class>`; for several targets `prediction_<target>` and
            `probability_<target>`. The index is that of a pandas table.
        """
        table = as_pandas(table)
        p = self._predict(table, start, folder)
        names = self.record["classes"]
        if isinstance(self.estimator, PrivilegedRegressor):
            return pd.DataFrame({"prediction": p}, index=table.index)
        if self.estimator.multi_label_:
            predictions = {f"prediction_{name}": (p[:, i] > 0.5).astype(int) for i, name in enumerate(names)}
        else:
            predictions = {"prediction": self.estimator._target.choose(p)}
        probabilities = {f"probability_{name}": p[:, i].astype(np.float32) for i, name in enumerate(names)}
        return pd.DataFrame(predictions | probabilities, index=table.index)

    def predict_proba(self, table: pd.DataFrame, *, folder: str | Path = ".") -> pd.DataFrame:
        """Return the class probabilities of the rows of a table. Only for classification.

        Parameters
        ----------
        table : DataFrame, list of dict or dict
            A pandas, polars or Arrow table with the input columns, or records; other columns are ignored.
        folder : str or Path
            Folder of the images that the table names.

        Returns
        -------
        DataFrame
            One column per class, in the order of `estimator.classes_`; for several targets one per target, with the
            probability of 1. The index is that of a pandas table. `predict` has the same numbers in single precision.

        Examples
        --------
        >>> import tempfile
        >>> from lupi.serving import train
        >>> from lupi.tabular import TableSpec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "table.csv")
        ...     pd.DataFrame({"x": [1.5, 2, 3, 4], "y": ["no", "no", "yes", "yes"]}).to_csv(path, index=False)
        ...     model = train(TableSpec(table=path, target=["y"]), method="no-pi", settings={"epochs": 1})
        >>> p = model.predict_proba(pd.DataFrame({"x": [2.5, 3.5]}, index=["a", "b"]))
        >>> list(p.columns), list(p.index), bool(np.allclose(p.sum(axis="columns"), 1))
        (['no', 'yes'], ['a', 'b'], True)
        """
        if isinstance(self.estimator, PrivilegedRegressor):
            raise ValueError("Expected a classifier for `predict_proba`, but the model is a regressor: use `predict`.")
        table = as_pandas(table)
        columns = self.record["classes"] if self.estimator.multi_label_ else self.estimator.classes_
        return pd.DataFrame(self._predict(table, 0, folder), columns=columns, index=table.index)

    def _predict(self, table: pd.DataFrame, start: int, folder: str | Path) -> NDArray[np.float64]:
        """Return the expected y."""
        rows = table.set_axis(range(start, start + len(table)), axis="index")  # as messages name them
        X: Any = self.schema.clean(rows, Path(folder))
        X = X if hasattr(self.estimator, "feature_names_in_") else X.to_numpy()  # as in training
        return self.estimator._predict_frame(X, self.record["classes"], start)

    def save(self, path: str | Path, *, privileged: bool = True) -> None:
        """Write the model to a folder that `lupi.load` reads, with a model card and the training record.

        Parameters
        ----------
        path : str or Path
            The folder. An existing model is replaced in one step, and other files beside it are kept; a file, or a
            folder with files but no model, is refused.
        privileged : bool
            Whether to include the parts that take privileged information, with names of annotators and values from the
            training set. Prediction does not need them. See `lupi.PrivilegedClassifier.save`.
        """
        stored = pack_model(self.estimator, privileged=privileged)
        stored.facts.update(table=self.schema.to_json(), record=dict(self.record))
        notes = {
            "README.md": write_card(self.schema, stored.facts),
            "results.json": json.dumps(self.record, indent=2, default=folder.to_plain) + "\n",
            "results.csv": to_csv(pd.DataFrame(self.record["history"])),
        }
        folder.save_model_folder(path, stored, notes)


def load(
    path: str | Path,
    *,
    trunk: Trunk | None = None,
    method: MethodMaker | None = None,
    text_encoder: str | None = None,
    image_encoder: str | None = None,
    device: str = "auto",
) -> Estimator | TableModel:
    """Load a saved model. Nothing in its folder is executed.

    Parameters
    ----------
    path : str or Path
        The model folder.
    trunk : Module or callable, optional
        The trunk, if the model was trained with a custom one.
    method : callable, optional
        The method, if the model was trained with a custom one.
    text_encoder : str, optional
        Name or folder of the Hugging Face model that encodes text columns, if the model was trained with one.
    image_encoder : str, optional
        Name or folder of the pretrained model that encodes image columns, if the model was trained with one.
    device : str
        Device for predictions; by default a GPU if there is one.

    Returns
    -------
    PrivilegedClassifier, PrivilegedRegressor or TableModel
        The saved estimator, or a `TableModel` if the model was trained on a table. Both take DataFrames and records,
        and `lupi predict` takes both.

    Examples
    --------
    >>> import tempfile
    >>> import lupi
    >>> model = lupi.PrivilegedClassifier("no-pi", epochs=1).fit([[0.0], [1.0]], ["no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(folder)
    ...     lupi.load(folder).classes_
    array(['no', 'yes'], dtype='<U3')
    """
    pick_device(device)
    stored = folder.read_model_folder(path)
    name = stored.facts.get("estimator")
    if not (isinstance(name, str) and name in ESTIMATORS):
        raise ValueError(f"Expected {path} to hold one of {', '.join(ESTIMATORS)}, but it holds a {name}.")
    estimator = unpack_model(ESTIMATORS[name], stored, path, trunk=trunk, method=method, device=device)
    for encoder in list_encoders(estimator):
        encoder.device = device
        given = {"image": image_encoder, "text": text_encoder}[encoder.unit]
        if given is None:  # a folder could name any model
            raise ValueError(
                f"Expected `{encoder.unit}_encoder` to say where to load the encoder of {path} from, which was "
                f"{encoder.name} in training, but got None."
            )
        encoder.name = resolve_folder(given)
    if "table" not in stored.facts:
        return estimator
    with explain_contents(path):
        schema = Schema.from_json(stored.facts["table"])
        record = from_json(stored.facts.get("record"), Record, "record")
        if isinstance(estimator, PrivilegedClassifier) and len(record["classes"] or ()) != len(estimator.classes_):
            raise ValueError(f"Expected `record.classes` to be {len(estimator.classes_)} names, but got others.")
    return TableModel(estimator=estimator, schema=schema, record=record)


def list_encoders(estimator: Estimator) -> list[PretrainedEncoder]:
    """Return the pretrained encoders of columns of an estimator."""
    tables = [one for one in (estimator.input_encoder_, getattr(estimator, "privileged_encoder_", None)) if one]
    encoders = [one.encoder for table in tables for one in table.encodings_ if isinstance(one, Embedded)]
    return [encoder for encoder in encoders if isinstance(encoder, PretrainedEncoder)]


def export_onnx(model: Estimator | TableModel, onnx: str | Path, *, overwrite: bool = False) -> list[str]:
    """Write a model as an ONNX file, without privileged information, and describe its inputs and outputs."""
    estimator, options = model, dict[str, Any]()
    if isinstance(model, TableModel):
        stored = {name: column.stored for name, column in model.schema.inputs.items()}
        estimator, options = model.estimator, {"stored": stored, "names": model.record["classes"]}
    with claim_output(onnx, argument="onnx", overwrite=overwrite), explain_os_errors(onnx, "onnx"):
        facts = onnx_export.export_onnx(estimator, onnx, **options)
    types: dict[str, list[str]] = {}
    for name, column in facts["inputs"].items():
        more = f" [rows, {column['width']}]" if "width" in column else f", {column['missing'] or 'empty'} if missing"
        types.setdefault(f"{column['type']}{more}", []).append(name)
    lines = [f"Input{'s' if len(names) > 1 else ''}: {', '.join(names)} ({what})" for what, names in types.items()]
    if "classes" not in facts:
        return [*lines, "Output: prediction (float64)"]
    return [*lines, f"Outputs: label, probabilities (float32) of {', '.join(map(str, facts['classes']))}"]
