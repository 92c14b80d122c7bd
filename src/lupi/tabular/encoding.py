"""Encode columns as float arrays: inputs X as dense arrays, privileged information A as sparse arrays.

`as_frame` turns any table into typed pandas columns. Columns are encoded one after another, as standardized numbers or
as codes of categories and bins, so a table that is read by column need not fit into memory. Fitted encoders are saved
with skops. Messages count rows from 0.
"""

import warnings
from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lupi._internal.checks import check_integer
from lupi._internal.sparse_rows import ROWS_AT_ONCE, CodedRows
from lupi.data import MAX_DENSE_VALUES
from lupi.tabular.frames import Table, as_frame, check_inputs, iterate_matrix, match_columns
from lupi.tabular.kinds.vector import holds_vectors, stack_vectors
from lupi.tabular.lazy import Frame
from lupi.tabular.standardizing import measure, standardize
from lupi.tabular.text import TfidfEncoder, encode_texts
from lupi.tabular.values import (
    Column,
    as_numbers,
    as_text,
    category_codes,
    category_labels,
    check_not_all_missing,
    find_edges,
    is_id,
    is_number,
)

SEVERAL = ("text", "vector")
"""Encodings that turn a column into several numeric features."""
TRUSTED = ("lupi.tabular.encoding.InputEncoder", "lupi.tabular.encoding.PrivilegedEncoder")
ENCODINGS = ("quantile", "standardize", "category", "text", "vector")
REPLACEMENTS = {"standardize": "they are replaced by the mean", "category": "they count as an unseen category"}
"""What happens to the missing values of an input column that had none in training, by encoding."""


class MissingValuesWarning(UserWarning):
    """An input column has missing values, but had none in training; ignored where a table is split at random."""


class PrivilegedEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Encode privileged information as a sparse float32 matrix.

    Strings, booleans and categories become one column per category seen in training, in sorted order. Numbers become
    one column per quantile bin, or are standardized. Texts become standardized TF-IDF features, and the numbers of
    vectors are standardized. Columns with missing values in training get an additional column for them. Unseen
    categories, and missing values in other columns, become zeros. A missing text counts as an empty text, and a missing
    vector as the mean.

    Parameters
    ----------
    numbers
        Encoding of numbers: ``"quantile"`` (one-hot by quantile bin), ``"standardize"`` ((x − mean) / sd, 0 where
        missing or constant in training) or ``"category"`` (one-hot by value, for instance for numbered annotators); or
        a mapping from column names to encodings, where the default is ``"quantile"``. In a mapping, columns of strings
        may be ``"category"``, the default, or ``"text"``. Lists and arrays of numbers are ``"vector"``.
    quantiles
        Maximum number of bins. A fraction i / q of the training rows lies below edge i of q. Equal edges are merged,
        and the outer bins extend to infinity. A column with at most this many distinct values has one bin per value.

    Attributes
    ----------
    kinds_ : dict of str to str
        The encoding of each column. Columns without names are called ``a0``, ``a1``, …. A column without any value in
        training is a category.
    edges_ : dict of str to ndarray
        The inner edges of the bins of each quantile column.
    labels_ : dict of str to list of str
        Bins or categories of each one-hot column, in order.
    texts_ : dict of str to TfidfEncoder
        The encoder of each text column.
    scales_ : dict of str to ndarray
        Mean and standard deviation, [2, features], of each column of standardized numbers, texts or vectors.
    missing_ : list of str
        Columns with missing values in training.

    Examples
    --------
    >>> import pandas as pd
    >>> A = pd.DataFrame({"annotator": ["ann", "bob", "ann", None], "seconds": [1.5, 2.0, 3.25, 8.0]})
    >>> encoder = PrivilegedEncoder(quantiles=2).fit(A)
    >>> encoder.get_feature_names_out().tolist()  # doctest: +NORMALIZE_WHITESPACE
    ['annotator=ann', 'annotator=bob', 'annotator=missing',
     'seconds in (-inf, 3.25)', 'seconds in [3.25, inf)']
    >>> encoder.transform(A).toarray()
    array([[1., 0., 0., 1., 0.],
           [0., 1., 0., 1., 0.],
           [1., 0., 0., 0., 1.],
           [0., 0., 1., 0., 1.]], dtype=float32)
    """

    def __init__(self, numbers: str | Mapping[str, str] = "quantile", quantiles: int = 10) -> None:
        self.numbers = numbers
        self.quantiles = quantiles

    def fit(self, A: Table, y: object = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Learn the categories, bin edges and scales of the training rows, column by column."""
        quantiles = check_integer("quantiles", self.quantiles, 2)
        frame = as_frame(A)
        _check_encodings(frame, self.numbers)
        self.kinds_: dict[str, str] = {}
        self.edges_: dict[str, NDArray[np.float64]] = {}
        self.labels_: dict[str, list[str]] = {}
        self.texts_: dict[str, TfidfEncoder] = {}
        self.scales_: dict[str, NDArray[np.float64]] = {}
        self.missing_: list[str] = []
        for name in map(str, frame.columns):
            column = frame[name]
            self.kinds_[name] = kind = _choose_encoding(column, self.numbers, quantiles)
            if kind not in SEVERAL and column.isna().any():
                self.missing_.append(name)
            if kind == "quantile":
                self.edges_[name] = find_edges(column, quantiles)
                ends = ["-inf", *map(as_text, self.edges_[name]), "inf"]
                bins = [f"[{low}, {high})" for low, high in pairwise(ends)]
                self.labels_[name] = [bins[0].replace("[", "("), *bins[1:]]
            elif kind == "category":
                self.labels_[name] = category_labels(column)
            else:
                if kind == "text":
                    self.texts_[name] = TfidfEncoder().fit([str(text) for text in column.dropna().unique()])
                values = self._values(name, column)
                self.scales_[name] = np.stack(measure(values, self._value_names(name, values.shape[1])))
        return self

    def transform(self, A: Table) -> csr_array[np.float32]:
        """Return one row of features per row of A, with at most one stored entry per column of A."""
        return self.encode(A).matrix()

    def encode(self, A: Table, dtype: str = "float32") -> CodedRows:
        """Return one row of features per row of A as numbers and codes, which take less memory. A is read by column."""
        check_is_fitted(self)
        frame = match_columns(as_frame(A), list(self.kinds_), "a", "privileged information")
        first, absent, width = self._layout()
        places = [first[name] + i for name, scale in self.scales_.items() for i in range(scale.shape[1])]
        coded = [name for name in self.kinds_ if name in self.labels_ or name in absent]
        numbers = np.empty((len(frame), len(places)), dtype)
        codes = np.empty((len(frame), len(coded)), np.int16 if width < 2**15 else np.int32)
        done = 0
        for name in self.kinds_:
            column = frame[name]
            if name in self.labels_:
                known = np.arange(len(self.labels_[name])) + first[name]
                feature = np.append(known, [absent.get(name, width), width]).astype(codes.dtype)
                codes[:, coded.index(name)] = feature[self._codes(name, column)]
                continue
            values = self._values(name, column)
            here = slice(done, done + values.shape[1])
            done = here.stop
            for start in range(0, len(values), ROWS_AT_ONCE):
                some = slice(start, start + ROWS_AT_ONCE)
                missing = np.isnan(values[some])
                features = standardize(values[some], *self.scales_[name])
                features[missing] = 0
                numbers[some, here] = features + 0.0  # turn −0 into 0
                if name in absent:
                    codes[some, coded.index(name)] = np.where(missing[:, 0], absent[name], width)
        place = torch.tensor(places, dtype=torch.int64)
        return CodedRows(torch.from_numpy(numbers), place, torch.from_numpy(codes), width)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the features: ``annotator=ann``, ``seconds in [1.5, 2)``, ``seconds=missing``."""
        check_is_fitted(self)
        first, absent, width = self._layout()
        names = np.empty(width, dtype=object)
        for name, start in first.items():
            sign = " in " if name in self.edges_ else "="
            if name in self.labels_:
                labels = [name + sign + label for label in self.labels_[name]]
            else:
                labels = self._value_names(name, self.scales_[name].shape[1])
            names[start : start + len(labels)] = labels
        for name, start in absent.items():
            names[start] = f"{name}=missing"
        return names

    def _layout(self) -> tuple[dict[str, int], dict[str, int], int]:
        """Return the first feature of each column, the feature of its missing values, and the number of features.

        The features of missing numbers follow each run of adjacent columns of numbers and texts. Missing vectors have
        no feature.
        """
        first: dict[str, int] = {}
        absent: dict[str, int] = {}
        width = 0
        sorts = {name: (name in self.labels_, kind == "vector") for name, kind in self.kinds_.items()}
        for (one_hot, _), run in groupby(sorts, sorts.__getitem__):
            names = list(run)
            for group in [[name] for name in names] if one_hot else [names]:
                for name in group:
                    first[name] = width
                    width += len(self.labels_[name]) if one_hot else self.scales_[name].shape[1]
                for name in group:
                    if name in self.missing_:
                        absent[name] = width
                        width += 1
        return first, absent, width

    def _codes(self, name: str, column: Column) -> NDArray[np.signedinteger]:
        """Return the index of the label of each value: the number of labels if it is missing, −1 if it is unseen."""
        if self.kinds_[name] == "category":
            return category_codes(column, self.labels_[name])
        values = as_numbers(column)
        bins = np.searchsorted(self.edges_[name], values, side="right")
        return np.where(np.isnan(values), len(self.labels_[name]), bins)

    def _values(self, name: str, column: Column) -> NDArray[Any]:
        """Return a column as numbers, [rows, 1] or, for texts and vectors, [rows, features]."""
        if self.kinds_[name] == "text":
            return np.asfortranarray(encode_texts(self.texts_[name], column))
        if self.kinds_[name] == "vector":
            width = self.scales_[name].shape[1] if name in self.scales_ else None
            return np.asfortranarray(stack_vectors(column, width=width, may_be_missing=True))
        return as_numbers(column)[:, np.newaxis]

    def _value_names(self, name: str, count: int) -> list[str]:
        return [f"{name}[{i}]" for i in range(count)] if self.kinds_[name] in SEVERAL else [name]


class InputEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Encode ordinary inputs as a dense float32 matrix.

    Numbers and booleans are standardized, (x − mean) / sd, and clipped to ±1e6; columns that are constant in training
    become zeros. A missing number becomes the mean, 0, and each column with missing values in training gets an
    additional indicator feature. Strings and categories become one column per category seen in training, where missing
    counts as a category of its own; unseen categories become zeros. A missing text counts as an empty text. Infinite
    values, training values above 1e36 and columns without any value in training are errors.

    Parameters
    ----------
    kind : mapping of str to str, optional
        Columns of strings that are ``"text"``, to be encoded with TF-IDF, and columns of numbers that are
        ``"category"``. Lists and arrays of numbers are vectors, and become one column per number.

    Attributes
    ----------
    columns_ : list of str
        Names of the input columns; ``x0``, ``x1``, … if they have none.
    numeric_ : bool
        Whether all columns are numbers or booleans. The features are then ``(X - mean_) / scale_``, clipped, and the
        indicators of missing values.
    missing_ : ndarray of int
        Positions of the columns of numbers with missing values in training.
    mean_, scale_ : ndarray of float64
        Only if ``numeric_``. The scale of a constant column is infinite.
    encoder_ : PrivilegedEncoder
        Only if not ``numeric_``.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [20, 40], "city": ["Bern", "Rome"]})
    >>> InputEncoder().fit_transform(X)
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]], dtype=float32)
    >>> InputEncoder().fit_transform([[20.0], [40.0], [float("nan")]])
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 0.,  1.]], dtype=float32)
    """

    def __init__(self, kind: Mapping[str, str] | None = None) -> None:
        self.kind = kind

    def fit(self, X: Table, y: object = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Learn the scales and categories of the training rows."""
        frame = check_inputs(X)
        self.columns_ = list(frame.columns)
        chosen = {name: kind for name, kind in (self.kind or {}).items() if kind in ("text", "category")}
        numeric, missing = [], []
        for name in self.columns_:
            column = check_not_all_missing(frame[name])
            if name in chosen or not is_numeric_dtype(column.dtype):
                continue
            numeric.append(name)
            if column.isna().any():
                missing.append(self.columns_.index(name))
        self.missing_, self.numeric_ = np.array(missing, dtype=np.int64), numeric == self.columns_
        if self.numeric_:
            self.mean_, self.scale_ = np.empty((2, len(self.columns_)))
            for place, values in iterate_matrix(frame):
                self.mean_[place], self.scale_[place] = measure(values, self.columns_[place])
        else:
            self.encoder_ = PrivilegedEncoder(numbers=dict.fromkeys(numeric, "standardize") | chosen).fit(frame)
        return self

    def transform(self, X: Table) -> NDArray[np.float32]:
        """Return one row of features per row of X."""
        rows = self.encode(X, dense=True)
        assert isinstance(rows, Tensor)
        return rows.numpy()

    def encode(self, X: Table, dtype: str = "float32", *, dense: bool = False) -> Tensor | CodedRows:
        """Return one row of features per row of X, as a tensor or, if that would be large and not `dense`, as codes."""
        check_is_fitted(self)
        frame = match_columns(check_inputs(X), self.columns_, "x", "X")
        if self.numeric_:
            return torch.from_numpy(self._encode_numbers(frame, dtype))
        if isinstance(frame, pd.DataFrame):  # others are those of training
            for name, kind in self.encoder_.kinds_.items():
                if kind in REPLACEMENTS and name not in self.encoder_.missing_ and frame[name].isna().any():
                    warn_of_missing(name, kind)
        rows = self.encoder_.encode(frame, dtype)
        many = rows.shape[0] * rows.shape[1] > MAX_DENSE_VALUES and not dense
        return rows if many else rows[torch.arange(rows.shape[0])].contiguous()

    def _encode_numbers(self, frame: Frame, dtype: str) -> NDArray[Any]:
        """Return standardized numbers, with 0 for missing ones, followed by the indicators of missing values."""
        count = len(self.columns_)
        features = np.empty((len(frame), count + len(self.missing_)), dtype)
        for place, values in iterate_matrix(frame):
            part = standardize(values, self.mean_[place], self.scale_[place], dtype)
            absent = np.isnan(part)
            names = self.columns_[place]
            if absent.any():
                known = {self.columns_[i] for i in self.missing_}
                for name in (names[i] for i in np.flatnonzero(absent.any(axis=0))):
                    if name not in known:
                        warn_of_missing(name, "standardize")
                part[absent] = 0
            features[:, :count][:, place] = part
            for number, column in enumerate(self.missing_):
                if self.columns_[column] in names:
                    features[:, count + number] = absent[:, names.index(self.columns_[column])]
        return features

    def categories(self) -> dict[str, list[str]]:
        """Return the categories seen in training of each column that has some."""
        check_is_fitted(self)
        return {} if self.numeric_ else dict(self.encoder_.labels_)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the features: ``age``, ``age=missing``, ``city=Bern``."""
        check_is_fitted(self)
        if not self.numeric_:
            return self.encoder_.get_feature_names_out()
        return np.array([*self.columns_, *(f"{self.columns_[i]}=missing" for i in self.missing_)], dtype=object)


def warn_of_missing(name: str, encoding: str) -> None:
    """Warn that an input column has missing values, but had none in training."""
    warnings.warn(
        f"Input column {name!r} has missing values, but had none in training; {REPLACEMENTS[encoding]}.",
        MissingValuesWarning,
        stacklevel=5,
    )


def _check_encodings(frame: Frame, numbers: str | Mapping[str, str]) -> None:
    """Raise a `ValueError` unless `numbers` maps existing columns to known encodings."""
    named = {str(name): kind for name, kind in numbers.items()} if isinstance(numbers, Mapping) else {}
    for kind in named.values() if isinstance(numbers, Mapping) else [numbers]:
        if kind not in ENCODINGS:
            raise ValueError(f"Expected `numbers` to be or map columns to one of {ENCODINGS}, but got {kind!r}.")
    for name in named:
        if name not in frame.columns:
            raise ValueError(f"Expected `numbers` to name columns of {list(frame.columns)}, but got {name!r}.")


def _choose_encoding(column: Column, numbers: str | Mapping[str, str], quantiles: int) -> str:
    """Choose the encoding of a privileged column."""
    name = str(column.name)
    given = {str(key): kind for key, kind in numbers.items()} if isinstance(numbers, Mapping) else {}
    default = "quantile" if isinstance(numbers, Mapping) else numbers
    usual = default if is_number(column) else "vector" if holds_vectors(column) else "category"
    kind = given.get(name, usual)
    if kind == "text" and is_numeric_dtype(column.dtype):
        raise ValueError(f"Expected column {name!r} to be strings to be read as text, but it is {column.dtype}.")
    looks_like_id = kind != "category" and name not in given and is_id(column)
    if looks_like_id and (kind != "quantile" or column.nunique() > quantiles):  # otherwise each value has its own bin
        warnings.warn(
            f"The privileged column {name!r} holds integers, which are read as a quantity. If they are ids, pass "
            f"strings or `numbers={{{name!r}: 'category'}}`.",
            stacklevel=4,
        )
    return "category" if column.isna().all() else kind
