"""A trained estimator together with what it needs to read tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.estimators.folder import StoredModel, save_model_folder, to_plain
from lupi.serving.card import write_card
from lupi.tabular import Schema
from lupi.tabular.columns import clean_inputs
from lupi.tabular.features import encode_columns
from lupi.tabular.kinds import ColumnEncoder

CARD, RECORD, HISTORY = "README.md", "results.json", "results.csv"


@dataclass(frozen=True, kw_only=True)
class TableModel:
    """A model that was trained on a table and predicts tables.

    Parameters
    ----------
    estimator : PrivilegedClassifier or PrivilegedRegressor
        The trained estimator.
    schema : Schema
        The columns of the training table, their roles and kinds.
    encoders : dict
        The fitted encoders of text columns.
    record : mapping
        What is known about the training: the table and its size, classes, settings, notes, losses and versions.
    """

    estimator: PrivilegedClassifier | PrivilegedRegressor
    schema: Schema
    encoders: dict[str, ColumnEncoder]
    record: Mapping[str, Any]

    def predict(self, table: pd.DataFrame, *, start: int = 0) -> pd.DataFrame:
        """Predict the rows of a table.

        Parameters
        ----------
        table : DataFrame
            A table with the input columns; other columns are ignored.
        start : int
            Number of the first row in a larger table, for messages.

        Returns
        -------
        DataFrame
            `prediction` and, for classification, `probability_<class>`; for several targets `prediction_<target>` and
            `probability_<target>`.
        """
        X = encode_columns(clean_inputs(table, self.schema.inputs, start), self.encoders)
        if isinstance(self.estimator, PrivilegedRegressor):
            return pd.DataFrame({"prediction": self.estimator.predict(X)})
        p = self.estimator.predict_proba(X)
        names = self.record["classes"]
        if self.estimator.multi_label_:
            predictions = {f"prediction_{name}": (p[:, i] > 0.5).astype(int) for i, name in enumerate(names)}
        else:
            predictions = {"prediction": self.estimator.classes_[p.argmax(1)]}
        return pd.DataFrame(
            predictions | {f"probability_{name}": p[:, i].astype(np.float32) for i, name in enumerate(names)}
        )

    def save(self, path: str | Path) -> None:
        """Write the model to a folder that `lupi.load` reads, with a model card and the record of the training.

        Parameters
        ----------
        path : str or Path
            The folder. An existing model is replaced; other files in the folder are kept.
        """
        facts, weights, fitted = self.estimator._to_stored()
        facts |= {"table": self.schema.to_json(), "record": dict(self.record)}
        notes = {
            CARD: write_card(self.schema, facts),
            RECORD: json.dumps(self.record, indent=2, default=to_plain) + "\n",
            HISTORY: pd.DataFrame(self.record["history"]).to_csv(index=False),
        }
        save_model_folder(path, StoredModel(facts, weights, fitted | {"text_encoders_": self.encoders}), notes)
