"""Encode columns as float arrays: inputs X as dense arrays, privileged information A as sparse ones.

Both encoders are thin shells over scikit-learn: `as_frame` turns any table into typed pandas columns, each column
becomes *cells* (numbers, or the codes of categories and bins), and a ``ColumnTransformer`` scales the numbers and
one-hot encodes the codes. Fitted encoders are stored by skops. Messages count rows from 0.
"""

import re
import warnings
from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import Any, Self, TypeAlias, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from lupi._internal.checks import check_integer
from lupi.tabular.containers import as_pandas
from lupi.tabular.standardizing import Standardizer, measure, standardize
from lupi.tabular.text import TfidfEncoder, encode_texts

Column: TypeAlias = "pd.Series[Any]"
Table: TypeAlias = Any  # a table or column of pandas, polars, Arrow or Hugging Face, an array, or a list of rows

TRUSTED = (
    "lupi.tabular.encoding.InputEncoder",
    "lupi.tabular.encoding.PrivilegedEncoder",
    "lupi.tabular.standardizing.Standardizer",
    "numpy.dtype",
    "sklearn.compose._column_transformer._RemainderColsList",  # a list, in scikit-learn before 1.7
)
ID = re.compile(r"(\bid|_id|Id|ID|annotator|worker|rater|labell?er|coder|judge|reviewer|participant|user|model)$")
ENCODINGS = ("quantile", "standardize", "category", "text")


def as_frame(table: Table, prefix: str = "a", what: str = "privileged information") -> pd.DataFrame:
    """Return a table as a pandas DataFrame with distinct string names and typed columns.

    Object columns get the type of their values; durations become seconds, and dates seconds since 1970.

    Parameters
    ----------
    table
        A table or column of pandas, polars, Arrow or Hugging Face, an array or a list of rows; 1-D is one column.
    prefix
        Columns without names become ``{prefix}0``, ``{prefix}1``, and so on.
    what
        Name of the table in error messages.

    Examples
    --------
    >>> as_frame([[True, 2], [False, None]]).dtypes.astype(str).to_dict()
    {'a0': 'boolean', 'a1': 'Int64'}
    """
    table = as_pandas(table)
    if isinstance(table, pd.Series):
        table = table.to_frame(f"{prefix}0" if table.name in (None, "") else table.name)
    if isinstance(table, pd.DataFrame):
        frame = table.set_axis([str(name) for name in table.columns], axis="columns")
    else:
        # With the object type, numbers in a list of mixed rows stay numbers.
        array = np.asarray(table, dtype=object if isinstance(table, list | tuple) else None)
        if array.ndim not in (1, 2):
            got = f"a {array.ndim}-D array" if array.ndim else type(table).__name__
            raise ValueError(f"Expected {what} to be a DataFrame or a 1-D or 2-D array, but got {got}.")
        array = array[:, np.newaxis] if array.ndim == 1 else array
        frame = pd.DataFrame(array, columns=_default_names(array.shape[1], prefix), copy=False)
    for size, unit in zip(frame.shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:  # scikit-learn checks for these last words
            raise ValueError(
                f"Expected {what} to have rows and columns, but got 0 {unit} (shape={frame.shape}) "
                "while a minimum of 1 is required."
            )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"Expected {what} to have distinct column names, but got {twice!r} twice.")
    typed = {str(name): _typed(frame[name]) for name, dtype in frame.dtypes.items() if dtype.kind not in "biuf"}
    return frame.assign(**typed) if typed else frame


class PrivilegedEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Encode privileged information as a sparse float32 matrix.

    Strings, booleans and categories become one column per category seen in training, in sorted order. Numbers
    become one column per quantile bin, or are standardised. Texts become their TF-IDF features, standardised. Missing
    values have a column of their own where the training rows had any. A category, or a missing value, that training did
    not see is a row of zeros, and a missing text is an empty one.

    Parameters
    ----------
    numbers
        How numbers are encoded: ``"quantile"`` (one-hot by quantile bin), ``"standardize"`` ((x − mean) / sd, 0 where
        missing or constant in training) or ``"category"`` (one-hot by value, such as numbered annotators); or a mapping
        from column names to these, where other numbers are encoded by ``"quantile"``. In a mapping, strings may be
        ``"category"``, the default, or ``"text"``.
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
        for name, kind in self.kinds_.items():
            if kind == "quantile":
                self.edges_[name] = _edges(frame[name], quantiles)
                ends = ["-inf", *map(as_text, self.edges_[name]), "inf"]
                bins = [f"[{low}, {high})" for low, high in pairwise(ends)]
                self.labels_[name] = [bins[0].replace("[", "("), *bins[1:]]
            elif kind == "category":
                self.labels_[name] = _category_labels(frame[name])
            elif kind == "text":
                self.texts_[name] = TfidfEncoder().fit([str(text) for text in frame[name].dropna().unique()])
        cells = self._cells(frame)
        steps: list[tuple[str, BaseEstimator, list[str]]] = []
        for one_hot, run in groupby(map(str, cells), key=self.labels_.__contains__):
            if one_hot:
                step = OneHotEncoder(handle_unknown="ignore", dtype=np.float32)
            else:
                imputer = SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True)
                step = make_pipeline(Standardizer(), imputer)
            steps.append((str(len(steps)), step, list(run)))
        with config_context(transform_output="default"):  # the steps exchange arrays, whatever users set
            transformer = ColumnTransformer(steps, sparse_threshold=1.0).fit(cells)
        self.transformer_: ColumnTransformer = transformer
        return self

    def transform(self, A: Table) -> csr_array[np.float32]:
        """Return one row of features per row of A, with at most one stored entry per column of A."""
        check_is_fitted(self)
        cells = self._cells(_matching(as_frame(A), list(self.kinds_), "a", "privileged information"))
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
                names += [*columns, *(f"{columns[i]}=missing" for i in step[-1].indicator_.features_)]
        return np.array(names, dtype=object)

    def _cells(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return each column as numbers or as codes: the index of its label, their number if missing, −1 if unseen.

        A text becomes several numbers.
        """
        cells: dict[str, NDArray[Any]] = {}
        for name, kind in self.kinds_.items():
            if kind == "category":
                cells[name] = _category_codes(frame[name], self.labels_[name])
                continue
            if kind == "text":
                features = encode_texts(self.texts_[name], frame[name])
                cells |= {f"{name}[{i}]": column for i, column in enumerate(features.T)}
                continue
            cells[name] = values = _numbers(frame[name])
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
            self.mean_, self.scale_ = measure(_matrix(frame), self.columns_)
        else:
            self.encoder_ = PrivilegedEncoder(numbers=dict.fromkeys(numeric, "standardize") | chosen).fit(frame)
        return self

    def transform(self, X: Table) -> NDArray[np.float32]:
        """Return one row of features per row of X."""
        check_is_fitted(self)
        frame = _matching(check_inputs(X), self.columns_, "x", "X")
        if not self.numeric_:
            numbers = [name for name, kind in self.encoder_.kinds_.items() if kind == "standardize"]
            self._warn_of_missing([name for name in numbers if frame[name].isna().any()])
            return self.encoder_.transform(frame).toarray()
        if not all(map(is_numeric_dtype, frame.dtypes)):
            frame = pd.DataFrame({name: _numbers(frame[name]) for name in self.columns_})
        features = standardize(_matrix(frame), self.mean_, self.scale_, np.float32)
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
        kind = named.get(name, default if is_number(frame[name]) else "category")
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


def is_id(column: Column) -> bool:
    """Return whether a column of numbers looks like ids of annotators, by its name and values.

    Examples
    --------
    >>> import pandas as pd
    >>> is_id(pd.Series([3, 7, 3], name="worker_id")), is_id(pd.Series([3, 7, 3], name="seconds"))
    (True, False)
    """
    return bool(ID.search(str(column.name))) and bool((column.dropna() % 1 == 0).all())


def _edges(column: Column, quantiles: int) -> NDArray[np.float64]:
    """Return the inner edges of at most `quantiles` bins; they are training values, so no bin is empty."""
    values = _numbers(column)
    ordered = np.sort(values[~np.isnan(values)])
    edges = np.unique(ordered)
    if len(edges) > quantiles:  # otherwise each value has its own bin
        edges = np.unique(ordered[np.arange(1, quantiles) * len(ordered) // quantiles])
    return np.asarray(edges[edges > ordered[0]])


def _category_labels(column: Column) -> list[str]:
    numeric = is_number(_plain(column))
    labels = [as_text(value) for value in _factorize(column, sort=numeric)[1]]
    return labels if numeric else sorted(set(labels))


def _category_codes(column: Column, labels: list[str]) -> NDArray[np.intp]:
    codes, values = _factorize(column)
    places = pd.Index(labels, dtype=object).get_indexer(pd.Index([as_text(value) for value in values], dtype=object))
    return np.append(places, len(labels))[codes]  # a missing value has code −1, the last element


def code_categories(column: Column) -> NDArray[np.int64]:
    """Number the distinct values of a column from 0, in sorted order; a missing value is the last of them.

    Examples
    --------
    >>> import pandas as pd
    >>> code_categories(pd.Series(["bob", None, "ann", "bob"]))
    array([1, 2, 0, 1])
    """
    return _category_codes(column, _category_labels(column)).astype(np.int64)


def _factorize(column: Column, sort: bool = False) -> tuple[NDArray[np.intp], Any]:
    """Return the index of each row's value among the distinct values, −1 if missing, and these values."""
    column = _plain(column)
    if is_number(column):
        _numbers(column)  # raises an error on infinity
    try:
        return pd.factorize(column, sort=sort)
    except TypeError:  # unhashable values
        raise ValueError(
            f"Expected column {column.name!r} to be numbers, strings, booleans or categories, "
            f"but got {column.iloc[0]!r} in row 0."
        ) from None


def as_text(value: Any) -> str:
    """Return a value as a string; 3, 3.0 and "3" are equal, because ids become floats beside missing values.

    Examples
    --------
    >>> as_text(3.0), as_text("3"), as_text(2.5)
    ('3', '3', '2.5')
    """
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if whole else value)


def _numbers(column: Column) -> NDArray[np.float64]:
    """Return a column of finite or missing numbers as floats, NaN where missing."""
    column = _plain(column)
    missing = column.isna().to_numpy()
    if missing.all():
        return np.full(len(column), np.nan)
    if not is_numeric_dtype(column.dtype):
        strange = [not isinstance(value, int | float | np.number) for value in column]
        row = int(np.argmax(strange & ~missing))
        raise ValueError(f"Expected column {column.name!r} to be numbers, but got {column.iloc[row]!r} in row {row}.")
    values = column.to_numpy(np.float64, na_value=np.nan)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(f"Expected column {column.name!r} to be finite numbers, but got {values[row]} in row {row}.")
    return values


def is_number(column: Column) -> bool:
    """Return whether a column holds numbers; booleans are none."""
    return is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)


def _plain(column: Column) -> Column:
    """Return a categorical column as a column of its values."""
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    return pd.Series(np.asarray(column), name=column.name) if categorical else column


def _typed(column: Column) -> Column:
    """Convert an object column to the type of its values, and durations and dates to seconds."""
    if column.dtype == object:
        # Missing values would turn integers into floats.
        known = column.reset_index(drop=True).dropna().infer_objects().convert_dtypes()
        column = known.reindex(range(len(column))).set_axis(column.index)
    if column.dtype.kind == "c":  # scikit-learn checks for these first words
        raise ValueError(
            f"Complex data not supported. Expected column {column.name!r} to be real numbers, but got {column.dtype}."
        )
    if column.dtype.kind == "M":
        column = column - pd.Timestamp(0, tz=column.dt.tz).as_unit(column.dt.unit)
    return column.dt.total_seconds() if column.dtype.kind == "m" else column


def check_inputs(X: Table) -> pd.DataFrame:
    """Return X as a frame; raise a `ValueError` that names the place of an infinite number or a missing string."""
    if isinstance(X, np.ndarray | list) and np.ndim(X) == 1:
        raise ValueError("Expected X to be a 2-D array, but got a 1-D array. Reshape your data.")
    frame = as_frame(X, "x", "X")
    if all(map(is_numeric_dtype, frame.dtypes)) and not np.isinf(_matrix(frame)).any():
        return frame
    unnamed = list(frame.columns) == _default_names(frame.shape[1], "x")
    for position, (name, column) in enumerate(frame.items()):
        numeric = is_numeric_dtype(column.dtype)
        missing = column.isna().to_numpy() & ~numeric
        infinite = np.isinf(column.to_numpy(np.float64, na_value=0)) if numeric else np.zeros_like(missing)
        if missing.any() or infinite.any():
            row = int(np.argmax(missing | infinite))
            what = "NaN" if missing[row] else "infinity"  # scikit-learn checks for these words
            raise ValueError(f"Input X contains {what} in column {position if unnamed else repr(name)}, row {row}.")
    return frame


def _matrix(frame: pd.DataFrame) -> NDArray[Any]:
    """Return a frame of numbers as an array, without a copy if possible."""
    dtypes = set(frame.dtypes)
    same = len(dtypes) == 1 and isinstance(dtypes.pop(), np.dtype)
    return frame.to_numpy() if same else frame.to_numpy(np.float64, na_value=np.nan)


def _matching(frame: pd.DataFrame, columns: list[str], prefix: str, what: str) -> pd.DataFrame:
    """Return the frame with the column names of training; of an array, only the number of columns is checked."""
    names = list(frame.columns)
    unnamed = names == _default_names(len(names), prefix) or columns == _default_names(len(columns), prefix)
    if unnamed and len(names) != len(columns):
        raise ValueError(f"Expected {what} with {len(columns)} columns, but got {len(names)}.")
    if not unnamed and names != columns:
        raise ValueError(f"Expected {what} with columns {columns}, but got {names}.")
    return frame.set_axis(columns, axis="columns")


def _default_names(count: int, prefix: str) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]
