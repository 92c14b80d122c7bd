"""Turn the schema and the rows of a table into a fitted estimator. Commands have no other way to train."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from lupi import methods
from lupi.crowd.trusted import read_trust
from lupi.estimators.base import fit_together
from lupi.estimators.classifier import PrivilegedClassifier
from lupi.estimators.regressor import PrivilegedRegressor
from lupi.tabular.schema import Schema
from lupi.tabular.table_data import TableData

Estimator = PrivilegedClassifier | PrivilegedRegressor


@dataclass(eq=False)
class TableEstimator:
    """An estimator for tables with a given schema.

    Parameters
    ----------
    schema : Schema
        Roles and kinds of the columns.
    method : str
        One of `lupi.methods.names()`.
    settings : mapping
        Further parameters of the estimator, such as `epochs`.

    Attributes
    ----------
    estimator : PrivilegedClassifier or PrivilegedRegressor
        The estimator, after `fit`.
    """

    schema: Schema
    method: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def uses_privileged(self) -> bool:
        """Whether the method learns from privileged columns of the table."""
        return bool(self.schema.privileged) and methods.kind(self.method).uses_privileged

    @property
    def uses_trust(self) -> bool:
        """Whether the method learns from trust in annotators."""
        return methods.kind(self.method).models_annotators and self._annotator is not None

    @property
    def _annotator(self) -> str | None:
        name = self.schema.annotator
        return name if self.uses_privileged and name in self.schema.privileged else None

    def fit(self, data: TableData) -> Self:
        """Train on the rows of a table."""
        self.estimator = self._make(data)
        self.estimator.fit(**self._arguments(data))
        return self

    def _make(self, data: TableData) -> Estimator:
        kinds = {name: column.kind for name, column in self.schema.inputs.items()}
        options: dict[str, Any] = {
            "method": self.method,
            "kind": kinds | (self.schema.privileged if self.uses_privileged else {}),
            "annotator": self._annotator,
            "trust": (data.trusted or None) if self.uses_trust else None,
            **self.settings,
        }
        if self.schema.task == "regression":
            return PrivilegedRegressor(**options)
        scale = list(data.classes) if self.schema.ordinal and not self.schema.soft else None
        ordinal = "ordinal" if self.schema.ordinal else "nominal"
        return PrivilegedClassifier(soft=self.schema.soft, scale=scale or ordinal, **options)

    def _arguments(self, data: TableData) -> dict[str, Any]:
        """Return the arguments of the estimator's `fit`."""
        gold = None
        if data.true_labels is not None:  # a true label that nobody gave cannot be learned
            named = np.array([*data.classes, None], dtype=object)
            gold = named[np.where(np.isin(data.true_labels, data.y), data.true_labels, -1)]
        return {
            "X": data.inputs,
            "y": data.labels,
            "privileged": data.privileged if self.uses_privileged else None,
            "example": data.example,
            "sample_weight": None if data.weight is None else data.columns[data.weight],
            "gold": gold,
        }

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes or of several targets, for people; None for regression."""
        if isinstance(self.estimator, PrivilegedRegressor):
            return None
        return list(map(str, self.schema.roles.target if self.schema.several else self.estimator.classes_))


def check_trust(data: TableData) -> None:
    """Check the names and values of the trust in annotators before any training."""
    if data.trust and data.annotators is not None:
        read_trust(data.trust, np.unique(data.annotators.astype(str)))


def fit_tables(estimators: Sequence[TableEstimator], data: Sequence[TableData]) -> None:
    """Fit estimators that differ in their seeds and rows, as one stacked network where possible."""
    for one, rows in zip(estimators, data, strict=True):
        one.estimator = one._make(rows)
    sets = [one._arguments(rows) for one, rows in zip(estimators, data, strict=True)]
    fit_together([one.estimator for one in estimators], sets)
