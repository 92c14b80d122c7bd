"""Encode a table as numbers, column by column: inputs X as dense rows, privileged information A as sparse rows.

A table that is read by column need not fit into memory. Fitted encoders are saved as JSON and arrays.
"""

import warnings
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Self, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lupi._internal.sparse_rows import CodedRows
from lupi.data import MAX_DENSE_VALUES
from lupi.tabular.frames import Columns, Frame, Table, as_frame, match_columns
from lupi.tabular.kinds import Encoding, find_kind
from lupi.tabular.kinds.category import OneHot
from lupi.tabular.kinds.number import Standard
from lupi.tabular.recognizing import PYTHON_ADVICE, check_kinds, recognize_inputs, recognize_privileged_column
from lupi.tabular.values import check_not_all_missing


class MissingValuesWarning(UserWarning):
    """An input column has missing values, but had none in training; ignored where a table is split at random."""


class TableEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Encode a table as float32 features, each column as its kind says.

    Numbers are standardized, (x − mean) / sd, and clipped to ±1e6; as privileged information, they become one feature
    per quantile bin. Names become one feature per category seen in training. Texts become standardized TF-IDF features,
    and the numbers of vectors are standardized. Columns with missing values in training get an additional feature for
    them. Unseen categories, and missing values in other columns, become zeros. A missing text counts as an empty text.

    Parameters
    ----------
    kind : mapping of str to str, optional
        Kinds of columns, such as "number", "standardized", "category", "text" or "vector" (`lupi.tabular.KINDS`). Kinds
        of other columns are recognized.
    privileged : bool
        Whether the table holds privileged information rather than inputs.
    device : str
        Device of pretrained encoders of texts and images; by default a GPU if there is one.

    Attributes
    ----------
    columns_ : list of str
        Names of the columns; ``x0``, ``x1``, … or, if privileged, ``a0``, ``a1``, … if they have none.
    encodings_ : list of Encoding
        The encodings, in the order of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [20, 40, None], "city": ["Bern", "Rome", "Rome"]})
    >>> encoder = TableEncoder().fit(X)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age=missing', 'city=Bern', 'city=Rome']
    >>> encoder.transform(X)
    array([[-1.,  0.,  1.,  0.],
           [ 1.,  0.,  0.,  1.],
           [ 0.,  1.,  0.,  1.]], dtype=float32)
    >>> A = pd.DataFrame({"annotator": ["ann", "bob", "ann"], "seconds": [1.5, 2.0, 8.0]})
    >>> TableEncoder(privileged=True).fit(A).get_feature_names_out().tolist()  # doctest: +NORMALIZE_WHITESPACE
    ['annotator=ann', 'annotator=bob',
     'seconds in (-inf, 2)', 'seconds in [2, 8)', 'seconds in [8, inf)']
    """

    kind: Mapping[str, str] | None
    privileged: bool
    device: str
    columns_: list[str]
    encodings_: list[Encoding]

    def __init__(
        self, kind: Mapping[str, str] | None = None, *, privileged: bool = False, device: str = "auto"
    ) -> None:
        self.kind = kind
        self.privileged = privileged
        self.device = device

    def fit(self, table: Table, y: object = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Learn the categories, bins and scales of the training rows, column by column."""
        frame = self._read(table)
        names, chosen = list(map(str, frame.columns)), {str(name): kind for name, kind in (self.kind or {}).items()}
        check_kinds(chosen, names, "the table")
        kinds = {name: chosen.get(name) or self._recognize(frame, name) for name in names}
        for name in names:
            if not self.privileged and not find_kind(kinds[name]).joins:
                check_not_all_missing(frame[name])
            elif self.privileged and frame[name].isna().all():
                kinds[name] = "category"  # the only kind that can be all missing
        self.columns_, self.encodings_ = names, list[Encoding]()
        for chosen_kind, run in groupby(names, kinds.__getitem__):
            kind, columns = find_kind(chosen_kind), list(run)
            together = [columns] if kind.joins and not self.privileged else [[name] for name in columns]
            for group in together:
                self.encodings_.append(kind.encode(frame, group, privileged=self.privileged, device=self.device))
        return self

    def transform(self, table: Table) -> "NDArray[np.float32] | csr_array[np.float32]":  # quoted for scipy 1.12
        """Return one row of features per row of a table: dense for inputs, sparse for privileged information."""
        rows = self.encode(table, dense=not self.privileged)
        return rows.numpy() if isinstance(rows, Tensor) else rows.matrix()

    def encode(self, table: Table, *, dense: bool = False) -> Tensor | CodedRows:
        """Return one row of features per row of a table.

        Inputs are a tensor unless that would be large, and not `dense`; others are numbers and codes, which take less
        memory.
        """
        check_is_fitted(self)
        return self.encode_frame(table if self.takes_matrix(table) else self._read(table), dense=dense)

    def takes_matrix(self, table: Any) -> TypeGuard[NDArray[Any]]:
        """Return whether a table is an array of numbers that needs no names of columns."""
        return (
            isinstance(table, np.ndarray)
            and table.dtype.kind in "biuf"
            and len(self.encodings_) == 1
            and type(self.encodings_[0]) is Standard
            and table.shape[1:] == (len(self.columns_),)
        )

    def encode_frame(self, frame: Any, *, dense: bool = False) -> Tensor | CodedRows:
        """Encode a table whose columns are typed, as by `lupi.tabular.frames.as_frame`, or an array of numbers."""
        if not isinstance(frame, np.ndarray):
            frame = match_columns(frame, self.columns_, *self._naming)
        width = sum(one.width for one in self.encodings_)
        coded = any(isinstance(one, OneHot) for one in self.encodings_)
        dense = dense or not (self.privileged or (coded and len(frame) * width > MAX_DENSE_VALUES))
        numbers = np.zeros((len(frame), width if dense else sum(one.numbers for one in self.encodings_)), np.float32)
        code_type = np.int16 if width < 2**15 else np.int32
        codes = np.empty((len(frame), sum(one.codes for one in self.encodings_)), code_type)
        place, notes = list[int](), list[str]()
        first = code = 0
        for one in self.encodings_:
            start = first if dense else len(place)
            here, there = slice(start, start + one.numbers), slice(code, code + one.codes)
            missing = one.fill(frame, numbers[:, here], codes[:, there], first, width)
            what = f"has missing values, but had none in training; {one.kind.when_missing}"
            notes += [f"Input column {name!r} {what}." for name in missing if one.kind.when_missing]
            place += range(first, first + one.numbers)
            first, code = first + one.width, code + one.codes
        if not self.privileged and not isinstance(frame, Columns):  # which are those of training
            for note in notes:
                warnings.warn(note, MissingValuesWarning, stacklevel=5)
        if not dense:
            places = torch.tensor(place, dtype=torch.int64)
            return CodedRows(torch.from_numpy(numbers), places, torch.from_numpy(codes), width)
        for column in codes.T:
            known = np.flatnonzero(column < width)
            numbers[known, column[known]] = 1
        return torch.from_numpy(numbers)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the features: ``age``, ``annotator=ann``, ``seconds in [1.5, 2)``, ``age=missing``."""
        check_is_fitted(self)
        return np.array([name for one in self.encodings_ for name in one.features], dtype=object)

    def categories(self) -> dict[str, OneHot]:
        """Return the encodings of columns of categories, by column."""
        check_is_fitted(self)
        return {one.columns[0]: one for one in self.encodings_ if isinstance(one, OneHot)}

    @property
    def _naming(self) -> tuple[str, str]:
        """The prefix of columns without names, and the name of the table in messages."""
        return ("a", "privileged information") if self.privileged else ("x", "X")

    def _read(self, table: Table) -> Frame:
        return as_frame(table, *self._naming)

    def _recognize(self, frame: Frame, name: str) -> str:
        if self.privileged:
            return recognize_privileged_column(frame[name])
        return recognize_inputs(frame[[name]], {}, PYTHON_ADVICE)[0][name]
