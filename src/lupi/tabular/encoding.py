"""Encode columns as float arrays: inputs X as dense arrays, privileged information A as sparse ones.

Both encoders are thin shells over scikit-learn: `as_frame` turns any table into typed pandas columns, each column
becomes *cells* (numbers, or the codes of categories and bins), and a ``ColumnTransformer`` scales the numbers and
one-hot encodes the codes. Fitted encoders are stored by skops. Messages count rows from 0.
"""

import warnings
from collections.abc import Mapping
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from lupi._internal.checks import check_integer
from lupi.tabular.frames import Table, as_frame, as_matrix, check_inputs, match_columns
from lupi.tabular.kinds.vector import holds_vectors, stack_vectors
from lupi.tabular.standardizing import Standardizer, measure, standardize
from lupi.tabular.text import TfidfEncoder, encode_texts
from lupi.tabular.values import as_numbers, as_text, category_codes, category_labels, find_edges, is_id, is_number

TRUSTED = (
    "lupi.tabular.encoding.InputEncoder",
    "lupi.tabular.encoding.PrivilegedEncoder",
    "lupi.tabular.standardizing.Standardizer",
    "numpy.dtype",
    "sklearn.compose._column_transformer._RemainderColsList",  # a list, in scikit-learn before 1.7
)
ENCODINGS = ("quantile", "standardize", "category", "text", "vector")


class PrivilegedEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Encode privileged information as a sparse float32 matrix.

    Strings, booleans and categories become one column per category seen in training, in sorted order. Numbers
    become one column per quantile bin, or are standardised. Texts become their TF-IDF features, standardised. So do the
    numbers of vectors. Missing values have a column of their own where the training rows had any. A category, or a
    missing value, that training did not see is a row of zeros, a missing text is an empty one, and a missing vector is
    the mean.

    Parameters
    ----------
    numbers
        How numbers are encoded: ``"quantile"`` (one-hot by quantile bin), ``"standardize"`` ((x − mean) / sd, 0 where
        missing or constant in training) or ``"category"`` (one-hot by value, such as numbered annotators); or a mapping
        from column names to these, where other numbers are encoded by ``"quantile"``. In a mapping, strings may be
        ``"category"``, the default, or ``"text"``. Lists and arrays of numbers are ``"vector"``.
    quantiles
        Maximum number of bins. A fraction i / q of the training rows lies below edge i of q. Equal edges are merged,
        and the outer bins extend to infinity. A column with at most this number of distinct values has a bin for each.

    Attributes
    ----------
    kinds_ : dict of str to str
        How each column is encoded; columns without names are ``a0``, ``a1``, …. A column without any value in training
        is a category.
    edges_ : dict of str to ndarray
        The inner edges of the bins of each quantile column.
    labels_ : dict of str to list of str
        Bins or categories of each one-hot column, in order.
    texts_ : dict of str to TfidfEncoder
        The encoder of each text column.
    widths_ : dict of str to int
        The length of the vectors of each column of vectors.
    transformer_ : ColumnTransformer
        The transformer from cells to features.

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
        """Learn the categories, bin edges and scales of the training rows."""
        quantiles = check_integer("quantiles", self.quantiles, 2)
        frame = as_frame(A)
        self.kinds_: dict[str, str] = _choose_encodings(frame, self.numbers, quantiles)
        self.edges_: dict[str, NDArray[np.float64]] = {}
        self.labels_: dict[str, list[str]] = {}
        self.texts_: dict[str, TfidfEncoder] = {}
        self.widths_: dict[str, int] = {}
        for name, kind in self.kinds_.items():
            if kind == "quantile":
                self.edges_[name] = find_edges(frame[name], quantiles)
                ends = ["-inf", *map(as_text, self.edges_[name]), "inf"]
                bins = [f"[{low}, {high})" for low, high in pairwise(ends)]
                self.labels_[name] = [bins[0].replace("[", "("), *bins[1:]]
            elif kind == "category":
                self.labels_[name] = category_labels(frame[name])
            elif kind == "text":
                self.texts_[name] = TfidfEncoder().fit([str(text) for text in frame[name].dropna().unique()])
            elif kind == "vector":
                self.widths_[name] = stack_vectors(frame[name], may_be_missing=True).shape[1]
        cells = self._cells(frame)
        steps: list[tuple[str, BaseEstimator, list[str]]] = []
        vectors = {f"{name}[{i}]" for name, width in self.widths_.items() for i in range(width)}
        sorts = ((cell in self.labels_, cell in vectors) for cell in cells)
        for (one_hot, vector), run in groupby(zip(sorts, map(str, cells), strict=True), key=itemgetter(0)):
            if one_hot:
                step = OneHotEncoder(handle_unknown="ignore", dtype=np.float32)
            else:
                imputer = SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=not vector)
                step = make_pipeline(Standardizer(), imputer)
            steps.append((str(len(steps)), step, [cell for _, cell in run]))
        with config_context(transform_output="default"):  # the steps exchange arrays, whatever users set
            transformer = ColumnTransformer(steps, sparse_threshold=1.0).fit(cells)
        self.transformer_: ColumnTransformer = transformer
        return self

    def transform(self, A: Table) -> csr_array[np.float32]:
        """Return one row of features per row of A, with at most one stored entry per column of A."""
        check_is_fitted(self)
        cells = self._cells(match_columns(as_frame(A), list(self.kinds_), "a", "privileged information"))
        with config_context(transform_output="default"):
            features = csr_array(self.transformer_.transform(cells)).astype(np.float32)
        return cast("csr_array[np.float32]", features)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the features: ``annotator=ann``, ``seconds in [1.5, 2)``, ``seconds=missing``."""
        check_is_fitted(self)
        names: list[str] = []
        for _, step, columns in self.transformer_.transformers_:
            if isinstance(step, OneHotEncoder):
                for name, codes in zip(columns, step.categories_, strict=True):
                    sign = " in " if name in self.edges_ else "="
                    labels = [*(name + sign + label for label in self.labels_[name]), f"{name}=missing"]
                    names += [labels[code] for code in codes]
            else:
                missing = [] if step[-1].indicator_ is None else step[-1].indicator_.features_
                names += [*columns, *(f"{columns[i]}=missing" for i in missing)]
        return np.array(names, dtype=object)

    def _cells(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return each column as numbers or as codes: the index of its label, their number if missing, −1 if unseen.

        A text or a vector becomes several numbers.
        """
        cells: dict[str, NDArray[Any]] = {}
        for name, kind in self.kinds_.items():
            if kind == "category":
                cells[name] = category_codes(frame[name], self.labels_[name])
                continue
            if kind in ("text", "vector"):
                if kind == "text":
                    features = encode_texts(self.texts_[name], frame[name])
                else:
                    features = stack_vectors(frame[name], width=self.widths_[name], may_be_missing=True)
                cells |= {f"{name}[{i}]": column for i, column in enumerate(features.T)}
                continue
            cells[name] = values = as_numbers(frame[name])
            if kind == "quantile":
                bins = np.searchsorted(self.edges_[name], values, side="right")
                cells[name] = np.where(np.isnan(values), len(self.labels_[name]), bins)
        return pd.DataFrame(cells)


class InputEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Encode ordinary inputs as a dense float32 matrix.

    Numbers and booleans are standardised, (x − mean) / sd, and clipped to ±1e6; columns that are constant in training
    become zeros. A missing number becomes the mean, 0, and each column that misses values in training has one more
    feature that says where. Strings and categories become one column per category seen in training, all zeros for
    unseen ones. Missing strings, infinite values and training values above 1e36 are errors.

    Parameters
    ----------
    kind : mapping of str to str, optional
        Columns of strings that are ``"text"``, which is encoded by TF-IDF, and of numbers that are ``"category"``.
        Lists and arrays of numbers are vectors, and become one column per number.

    Attributes
    ----------
    columns_ : list of str
        Names of the input columns; ``x0``, ``x1``, … if they have none.
    numeric_ : bool
        Whether all columns are numbers or booleans. The features are then ``(X - mean_) / scale_``, clipped, and the
        indicators of missing values.
    missing_ : ndarray of int
        Positions of the columns of numbers that miss values in training.
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
        numeric = [name for name in self.columns_ if is_numeric_dtype(frame[name].dtype) and name not in chosen]
        self.numeric_ = numeric == self.columns_
        absent = {name: frame[name].isna() for name in numeric}
        for name in numeric:
            if absent[name].all():
                raise ValueError(f"Expected input column {name!r} to have a value in some row, but all are missing.")
        self.missing_ = np.array([self.columns_.index(name) for name in numeric if absent[name].any()], dtype=np.int64)
        if self.numeric_:
            self.mean_, self.scale_ = measure(as_matrix(frame), self.columns_)
        else:
            self.encoder_ = PrivilegedEncoder(numbers=dict.fromkeys(numeric, "standardize") | chosen).fit(frame)
        return self

    def transform(self, X: Table) -> NDArray[np.float32]:
        """Return one row of features per row of X."""
        check_is_fitted(self)
        frame = match_columns(check_inputs(X), self.columns_, "x", "X")
        if not self.numeric_:
            numbers = [name for name, kind in self.encoder_.kinds_.items() if kind == "standardize"]
            self._warn_of_missing([name for name in numbers if frame[name].isna().any()])
            return self.encoder_.transform(frame).toarray()
        if not all(map(is_numeric_dtype, frame.dtypes)):
            frame = pd.DataFrame({name: as_numbers(frame[name]) for name in self.columns_})
        features = standardize(as_matrix(frame), self.mean_, self.scale_, np.float32)
        absent = np.isnan(features)
        if absent.any():
            self._warn_of_missing([self.columns_[i] for i in np.flatnonzero(absent.any(axis=0))])
            features[absent] = 0
        return np.hstack([features, absent[:, self.missing_]]) if len(self.missing_) else features

    def _warn_of_missing(self, names: list[str]) -> None:
        """Warn of columns that miss values, unless they missed some in training."""
        known = {self.columns_[i] for i in self.missing_}
        for name in names:
            if name not in known:
                warnings.warn(
                    f"Input column {name!r} misses values, as it did not in training; they are replaced by the mean.",
                    stacklevel=5,
                )

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the features: ``age``, ``age=missing``, ``city=Bern``."""
        check_is_fitted(self)
        if not self.numeric_:
            return self.encoder_.get_feature_names_out()
        return np.array([*self.columns_, *(f"{self.columns_[i]}=missing" for i in self.missing_)], dtype=object)


def _choose_encodings(frame: pd.DataFrame, numbers: str | Mapping[str, str], quantiles: int) -> dict[str, str]:
    """Return how each privileged column is encoded."""
    named = {str(name): kind for name, kind in numbers.items()} if isinstance(numbers, Mapping) else {}
    default = "quantile" if isinstance(numbers, Mapping) else numbers
    for kind in (default, *named.values()):
        if kind not in ENCODINGS:
            raise ValueError(f"Expected `numbers` to be or map columns to one of {ENCODINGS}, but got {kind!r}.")
    for name in named:
        if name not in frame.columns:
            raise ValueError(f"Expected `numbers` to name columns of {list(frame.columns)}, but got {name!r}.")
    kinds: dict[str, str] = {}
    for name in frame.columns:
        usual = default if is_number(frame[name]) else "vector" if holds_vectors(frame[name]) else "category"
        kind = named.get(name, usual)
        if kind == "text" and is_numeric_dtype(frame[name].dtype):
            raise ValueError(
                f"Expected column {name!r} to be strings to be read as text, but it is {frame[name].dtype}."
            )
        own_bins = kind == "quantile" and frame[name].nunique() <= quantiles
        if kind != "category" and name not in named and not own_bins and is_id(frame[name]):
            warnings.warn(
                f"The privileged column {name!r} holds integers, which are read as a quantity. If they are ids, pass "
                f"strings or `numbers={{{name!r}: 'category'}}`.",
                stacklevel=4,
            )
        kinds[name] = "category" if frame[name].isna().all() else kind
    return kinds
