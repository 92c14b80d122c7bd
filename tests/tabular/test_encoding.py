import shutil

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lupi.tabular import TableEncoder
from lupi.tabular.frames import as_frame
from lupi.tabular.kinds.number import MAX_STANDARDIZED, find_edges
from lupi.tabular.values import is_id
from tests.estimators.helpers import through_json

NUMBERS = st.floats(-1e6, 1e6).map(lambda value: round(value, 3)) | st.integers(-3, 3).map(float)
ANNOTATORS = st.text(max_size=3) | st.none()
properties = settings(deadline=None, max_examples=50)  # the first call of a run is slow
ROWS = st.lists(st.tuples(ANNOTATORS, NUMBERS | st.none(), NUMBERS | st.none()), min_size=1, max_size=30)
MIXED = {"z": "standardized"}


def of_privileged(kind=None):
    return TableEncoder(kind, privileged=True)


def kinds(encoder):
    return {name: one.kind.name for one in encoder.encodings_ for name in one.columns}


def table(rows):
    """A mixed table: w is a category, t a quantile column, z a standardized one."""
    w, t, z = zip(*rows, strict=True)
    return pd.DataFrame({"w": pd.Series(w, dtype=object), "t": np.array(t, float), "z": np.array(z, float)})


def encode(encoder, A):
    """The features as a labelled dense table."""
    features = encoder.transform(A)
    assert isinstance(features, csr_array)
    assert features.dtype == np.float32
    return pd.DataFrame(features.toarray(), columns=encoder.get_feature_names_out())


# ---------------------------------------------------------------- categories


@properties
@given(st.lists(ANNOTATORS, min_size=1), st.lists(ANNOTATORS, min_size=1))
def test_categories_match_a_comparison_with_each_category(train, test):
    encoder = of_privileged().fit(pd.Series(train, name="w", dtype=object))
    known = sorted({value for value in train if value is not None})
    columns = [*known, *([None] if None in train else [])]
    expected = [[float(value == column) for column in columns] for value in test]
    result = encode(encoder, pd.Series(test, name="w", dtype=object))
    np.testing.assert_array_equal(result, np.array(expected).reshape(len(test), -1))
    assert list(result) == ["w=missing" if c is None else f"w={c}" for c in columns]


def test_kinds_of_category_columns():
    A = pd.DataFrame(
        {
            "text": ["b", "a", "b"],
            "object": pd.Series([None, "x", 3], dtype=object),
            "bool": [True, False, True],
            "nullable": pd.array([True, None, False], dtype="boolean"),
            "level": pd.Categorical([10, 9, 10]),
            "empty": [np.nan, np.nan, np.nan],
        }
    )
    encoder = of_privileged().fit(A)
    assert kinds(encoder) == dict.fromkeys(A, "category") | {"bool": "boolean", "nullable": "boolean"}
    assert encoder.get_feature_names_out().tolist() == [
        *("text=a", "text=b"),
        *("object=3", "object=x", "object=missing"),
        *("bool=False", "bool=True"),
        *("nullable=False", "nullable=True", "nullable=missing"),
        *("level=9", "level=10"),  # categories that are numbers are in the order of numbers
        "empty=missing",
    ]
    expected = [
        [0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1],
        [1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1],
        [0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1],
    ]
    np.testing.assert_array_equal(encode(encoder, A), expected)
    # A column without a value in training knows no number; unseen values are zeros.
    later = A.assign(empty=[1.0, np.nan, 2.0], level=pd.Categorical([9, 11, 11]))
    assert encode(encoder, later)["empty=missing"].tolist() == [0, 1, 0]
    assert encode(encoder, later)[["level=9", "level=10"]].to_numpy().tolist() == [[1, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_every_missing_value_is_missing(missing):
    A = pd.DataFrame({"w": pd.Series(["a", missing], dtype=object)})
    encoder = of_privileged().fit(A)
    assert encode(encoder, A).to_dict("list") == {"w=a": [1, 0], "w=missing": [0, 1]}
    unseen = encode(of_privileged().fit(A[:1]), A)
    assert unseen.to_dict("list") == {"w=a": [1, 0]}


def test_integer_ids_as_categories():
    ids = np.array([10, 9, 2**60, 2**60 + 1, 9])
    encoder = of_privileged({"id": "category"}).fit(pd.DataFrame({"id": ids}))
    names = ["id=9", "id=10", f"id={2**60}", f"id={2**60 + 1}"]  # in order, and not rounded to floats
    assert encoder.get_feature_names_out().tolist() == names
    np.testing.assert_array_equal(encode(encoder, pd.DataFrame({"id": ids})), ids[:, None] == np.unique(ids))
    # Beside a missing value pandas makes ids floats, and a CSV file may make them strings.
    for column in ([9.0, np.nan], ["9", None]):
        result = encode(encoder, pd.DataFrame({"id": column}))
        np.testing.assert_array_equal(result, [[1, 0, 0, 0], [0, 0, 0, 0]])
    floats = of_privileged({"a0": "category"}).fit([[3.0], [None], [0.5]])
    assert floats.get_feature_names_out().tolist() == ["a0=0.5", "a0=3", "a0=missing"]


# ---------------------------------------------------------------- numbers


def quantile_bins(train, values, q):
    """Bins counted one value at a time: an edge is passed when the value is not below it."""
    ordered = sorted(train)
    few = len(set(train)) <= q  # then every value is a bin of its own
    edges = sorted((set(train) if few else {ordered[len(train) * i // q] for i in range(1, q)}) - {ordered[0]})
    return edges, [sum(value >= edge for edge in edges) for value in values]


@properties
@given(st.lists(NUMBERS, min_size=1, max_size=60), st.lists(NUMBERS, min_size=1, max_size=20), st.integers(2, 12))
def test_edges_are_training_quantiles(train, test, q):
    edges, train_bins = quantile_bins(train, train, q)
    np.testing.assert_array_equal(find_edges(np.array(train), q), edges)
    assert set(train_bins) == set(range(len(edges) + 1))  # no bin is empty
    assert len(edges) + 1 <= q
    encoder, (edges, _) = of_privileged().fit(np.array(train)), quantile_bins(train, train, 10)
    for values in (train, test):
        features = encoder.transform(np.array(values)).toarray()
        assert features.shape == (len(values), len(edges) + 1)
        bins = np.searchsorted(edges, values, side="right")
        np.testing.assert_array_equal(bins, quantile_bins(train, values, 10)[1])
        np.testing.assert_array_equal(features, np.eye(len(edges) + 1)[bins])


@properties
@given(st.integers(1, 300), st.randoms(use_true_random=False))
def test_quantile_bins_of_distinct_numbers_are_equally_full(n, random):
    values = random.sample(range(1000), n)
    counts = of_privileged().fit_transform(np.array(values)).sum(axis=0)
    assert len(counts) == min(n, 10)
    assert counts.max() - counts.min() <= 1


def test_quantile_edges_are_those_of_numpy_where_these_are_unambiguous():
    values = np.random.default_rng(0).normal(size=1000)
    edges = of_privileged().fit(values).encodings_[0].edges
    np.testing.assert_array_equal(edges, np.quantile(values, np.arange(1, 10) / 10, method="higher"))


def test_quantile_names_and_outer_bins():
    A = pd.DataFrame({"seconds": [1.0, 1.25, 1.5, 2.0, np.nan]})
    encoder = of_privileged().fit(A)
    names = ["(-inf, 1.25)", "[1.25, 1.5)", "[1.5, 2)", "[2, inf)"]
    expected = [*(f"seconds in {name}" for name in names), "seconds=missing"]
    assert encoder.get_feature_names_out().tolist() == expected
    later = encode(encoder, pd.DataFrame({"seconds": [-1e9, 1.49, 1e9, np.nan]}))
    np.testing.assert_array_equal(later, np.eye(5)[[0, 1, 3, 4]])
    without = of_privileged().fit(A[:4])
    np.testing.assert_array_equal(encode(without, A), np.eye(5)[:, :4])


def test_constant_numbers_are_one_bin():
    assert encode(of_privileged().fit([[7], [7]]), [[8], [7]]).to_dict("list") == {"a0 in (-inf, inf)": [1, 1]}


@properties
@given(st.lists(NUMBERS | st.none(), min_size=1), st.lists(NUMBERS | st.none(), min_size=1))
def test_standardized_columns(train, test):
    assume(any(value is not None for value in train))
    present = np.array([value for value in train if value is not None])
    assume(present.std() == 0 or present.std() > 1e-6 * np.abs(present).max())  # constant or clearly not
    encoder = of_privileged({"s": "standardized"}).fit(pd.DataFrame({"s": np.array(train, float)}))
    values = np.array(test, dtype=float)
    result = encode(encoder, pd.DataFrame({"s": values}))
    expected = np.nan_to_num((values - present.mean()) / (present.std() or np.inf)).clip(
        -MAX_STANDARDIZED, MAX_STANDARDIZED
    )
    np.testing.assert_allclose(result["s"], expected, rtol=1e-4, atol=1e-4)
    if None in train:
        np.testing.assert_array_equal(result["s=missing"], np.isnan(values))
    assert list(result) == ["s", "s=missing"][: 1 + (None in train)]


def test_numbers_may_be_chosen_by_column():
    A = pd.DataFrame({"id": [3, 1, 3], "n": [5, 6, 7], "s": [1.0, 2.0, 3.0], "flag": [True, False, False]})
    encoder = of_privileged({"id": "category", "s": "standardized", "flag": "standardized"})
    result = encode(encoder.fit(A), A)
    assert list(result) == ["id=1", "id=3", "n in (-inf, 6)", "n in [6, 7)", "n in [7, inf)", "s", "flag"]
    np.testing.assert_allclose(result["s"], [-np.sqrt(1.5), 0, np.sqrt(1.5)], rtol=1e-6)
    np.testing.assert_allclose(result["flag"], [np.sqrt(2), -np.sqrt(0.5), -np.sqrt(0.5)], rtol=1e-6)
    assert kinds(encoder)["n"] == "number"


def test_missing_indicators_follow_a_run_of_numeric_inputs():
    X = pd.DataFrame({"s": [1.0, np.nan], "t": [1.0, 2.0], "u": [np.nan, 3.0], "w": ["a", "b"]})
    encoder = TableEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["s", "t", "u", "s=missing", "u=missing", "w=a", "w=b"]
    np.testing.assert_array_equal(encoder.transform(X), [[0, -1, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 0, 1]])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_objects_that_are_numbers_are_numbers(missing):
    A = pd.DataFrame({"n": [1, missing, 2.5], "id": [2**60, missing, 2**60 + 1]}, dtype=object)
    encoder = of_privileged({"id": "category"}).fit(A)
    assert encoder.get_feature_names_out().tolist() == [
        *("n in (-inf, 2.5)", "n in [2.5, inf)", "n=missing"),
        *(f"id={2**60}", f"id={2**60 + 1}", "id=missing"),
    ]
    np.testing.assert_array_equal(encode(encoder, A), np.hstack([np.eye(3)[[0, 2, 1]]] * 2))


def test_a_numeric_array_is_not_copied():
    array = np.zeros((3, 2), dtype=np.float32)
    assert np.shares_memory(as_frame(array).to_numpy(), array)


def test_durations_and_dates_are_seconds():
    A = pd.DataFrame(
        {
            "took": pd.to_timedelta([1, 2, None], unit="min"),
            "naive": pd.to_datetime(["1970-01-02", None, "1970-01-01"]),
            "zoned": pd.to_datetime(["1970-01-01 01:00", "1970-01-01 02:00", None]).tz_localize("Etc/GMT-1"),
        }
    )
    frame = as_frame(A)
    np.testing.assert_array_equal(frame["took"], [60, 120, np.nan])
    np.testing.assert_array_equal(frame["naive"], [86400, np.nan, 0])
    np.testing.assert_array_equal(frame["zoned"], [0, 3600, np.nan])
    assert set(kinds(of_privileged().fit(A)).values()) == {"number"}


# ---------------------------------------------------------------- whole tables


@properties
@given(ROWS)
def test_each_seen_value_is_one_entry(rows):
    A = table(rows)
    encoder = of_privileged(MIXED).fit(A)
    result = encode(encoder, A)
    for name in ("w", "t"):
        group = result[[c for c in result if c.startswith((f"{name}=", f"{name} in "))]].to_numpy()
        assert set(np.unique(group)) <= {0.0, 1.0}
        np.testing.assert_array_equal(group.sum(axis=1), 1)
    assert np.diff(encoder.transform(A).indptr).max() <= 3


@properties
@given(ROWS, st.randoms(use_true_random=False))
def test_rows_are_encoded_one_by_one(rows, random):
    A = table(rows)
    encoder = of_privileged(MIXED).fit(A)
    order = random.sample(range(len(A)), len(A))
    np.testing.assert_array_equal(encode(encoder, A.iloc[order]), encode(encoder, A).iloc[order])
    np.testing.assert_array_equal(encode(encoder, A.iloc[:1]), encode(encoder, A).iloc[:1])


@properties
@given(ROWS, ROWS)
def test_it_comes_back_from_json(rows, others):
    A, B = table(rows), table(others)
    encoder = of_privileged(MIXED).fit(A)
    loaded = through_json(encoder)
    for C in (A, B):
        pd.testing.assert_frame_equal(encode(loaded, C), encode(encoder, C))


def test_no_other_type_is_written():
    A = table([("a", 1.0, 2.0), (None, None, None)])
    forged = of_privileged().fit(A)
    forged.encodings_[0].labels = shutil.rmtree
    with pytest.raises(TypeError, match="rmtree"):
        through_json(forged)


def test_the_same_table_in_every_form():
    rows = [["ann", 1.5, True], ["bob", None, False], [None, 2.5, True]]
    pandas = pd.DataFrame(rows, columns=["w", "s", "b"])
    expected = encode(of_privileged().fit(pandas), pandas)
    assert list(expected) == [
        *("w=ann", "w=bob", "w=missing", "s in (-inf, 2.5)", "s in [2.5, inf)", "s=missing", "b=False", "b=True")
    ]
    polars = pl.DataFrame(rows, schema=["w", "s", "b"], orient="row")
    for form in (polars, polars.with_columns(pl.col("w").cast(pl.Categorical)), pandas.astype({"w": "category"})):
        pd.testing.assert_frame_equal(encode(of_privileged().fit(form), form), expected)
    for form in (rows, tuple(map(tuple, rows)), np.array(rows, dtype=object)):
        encoder = of_privileged().fit(form)
        np.testing.assert_array_equal(encode(encoder, form), expected)
        assert encoder.columns_ == ["a0", "a1", "a2"]
    # An array has no names, so it may follow a table with names, and the other way round.
    np.testing.assert_array_equal(encode(of_privileged().fit(pandas), rows), expected)
    np.testing.assert_array_equal(encode(of_privileged().fit(rows), pandas), expected)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (np.array(["x", "y"]), "a0"),
        (["x", "y"], "a0"),
        (pd.Series(["x", "y"], index=[5, 5]), "a0"),
        (pd.Series(["x", "y"], name=7), "7"),
        (pl.Series(["x", "y"]), "a0"),
        (pl.Series("w", ["x", "y"]), "w"),
    ],
)
def test_one_column(column, name):
    encoder = of_privileged().fit(column)
    assert encode(encoder, column).to_dict("list") == {f"{name}=x": [1, 0], f"{name}=y": [0, 1]}


def test_many_annotators_stay_sparse():
    n, annotators = 514_200, 2_571
    ids = np.arange(n) % annotators
    A = pd.DataFrame({"annotator": ids, "seconds": np.linspace(0, 1, n), "trust": np.linspace(-1, 1, n)})
    A.loc[::10, "trust"] = np.nan
    encoder = of_privileged({"annotator": "category", "trust": "standardized"})
    features = encoder.fit_transform(A)
    assert features.shape == (n, annotators + 10 + 2)
    assert features.nnz <= 3 * n
    assert features.data.nbytes <= 3 * n * 4
    assert features.indices.nbytes <= 3 * n * 4
    np.testing.assert_array_equal(features[:, :annotators].indices, ids)


def test_input_is_left_alone_and_the_index_ignored():
    A = pd.DataFrame({"w": pd.Series([1, "b", None], dtype=object), 3: [1.0, np.nan, 2.0]}).set_index([[4, 4, 2]])
    before = A.copy(deep=True)
    encoder = of_privileged({3: "standardized"}).fit(A)
    assert kinds(encoder) == {"w": "category", "3": "standardized"}
    np.testing.assert_array_equal(encode(encoder, A), encode(encoder, A.reset_index(drop=True)))
    pd.testing.assert_frame_equal(A, before)
    array = np.array([[1.0, 2.0], [3.0, 5.0]])
    array.flags.writeable = False  # as joblib's memory maps are
    np.testing.assert_array_equal(TableEncoder().fit_transform(array), [[-1, -1], [1, 1]])
    np.testing.assert_array_equal(
        of_privileged(dict.fromkeys(["a0", "a1"], "standardized")).fit_transform(array).toarray(), [[-1, -1], [1, 1]]
    )


def test_scikit_learn_conventions():
    A = table([("a", 1.0, 2.0), ("b", 3.0, 5.0)])
    for encoder in (of_privileged(MIXED), TableEncoder()):
        expected = encoder.fit_transform(A)
        again = clone(encoder)
        assert again.get_params() == encoder.get_params()
        for method in (again.transform, again.get_feature_names_out):
            with pytest.raises(NotFittedError):
                method(A)
        with config_context(transform_output="pandas"):  # of no effect, rather than an error
            result = again.fit(A).transform(A)
        assert type(result) is type(expected)
        assert abs(result - expected).max() == 0


# ---------------------------------------------------------------- inputs


@properties
@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1))
def test_numeric_inputs_are_standardized(rows):
    X = np.array(rows)
    sd = X.std(axis=0)
    assume(np.all((sd == 0) | (sd > 1e-6 * np.abs(X).max(axis=0))))  # constant or clearly not
    encoder = TableEncoder().fit(X)
    expected = (X - X.mean(axis=0)) / np.where(sd == 0, np.inf, sd)
    result, (numbers,) = encoder.transform(X), encoder.encodings_
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result, ((X - numbers.mean) / numbers.scale).astype(np.float32))
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x2"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint16, bool, object])
def test_dtypes_of_numeric_inputs(dtype):
    X = np.array([[1, 0], [1, 1], [0, 1], [1, 1]]).astype(dtype)
    result = TableEncoder().fit_transform(X)
    expected = (X.astype(float) - [0.75, 0.75]) / np.sqrt(3 / 16)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_statistics_are_of_double_precision():
    X = np.array([[2.0**24], [2.0**24 + 2], [2.0**24 + 4]], dtype=np.float32)
    encoder = TableEncoder().fit(X)
    np.testing.assert_allclose(encoder.encodings_[0].mean, 2.0**24 + 2, rtol=1e-15)
    np.testing.assert_allclose(encoder.transform(X), [[-np.sqrt(1.5)], [0], [np.sqrt(1.5)]], rtol=1e-6)
    offset = TableEncoder().fit_transform(np.array([[1e9], [1e9 + 1]]))
    np.testing.assert_array_equal(offset, [[-1], [1]])


@pytest.mark.parametrize("library", ["pandas", "nullable", "polars"])
def test_mixed_inputs(library):
    X = pd.DataFrame({"age": [20, 30, 40], "city": ["Rome", "Bern", "Rome"], "flag": [True, True, False]})
    make = {"pandas": lambda f: f, "nullable": lambda f: f.convert_dtypes(), "polars": pl.from_pandas}[library]
    encoder = TableEncoder().fit(make(X))
    assert encoder.get_feature_names_out().tolist() == ["age", "city=Bern", "city=Rome", "flag"]
    result = encoder.transform(make(X.assign(city=["Rome", "Oslo", "Bern"])))
    age, flag = np.sqrt(1.5), np.sqrt(0.5)
    expected = [[-age, 0, 1, flag], [0, 0, 0, flag], [age, 1, 0, -2 * flag]]
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    numeric = TableEncoder().fit(make(X[["age", "flag"]]))
    np.testing.assert_allclose(numeric.transform(make(X[["age", "flag"]])), np.array(expected)[:, [0, 3]])


@properties
@given(st.lists(st.none() | st.sampled_from("abc"), min_size=1, max_size=9).filter(any))
def test_missing_inputs_are_a_category_of_their_own(cities):
    """They are encoded like a name that sorts after all others."""
    X = pd.DataFrame({"age": np.arange(len(cities)), "city": pd.Series(cities, dtype=object)})
    named = X.fillna({"city": "zzz"})
    np.testing.assert_array_equal(TableEncoder().fit_transform(X), TableEncoder().fit_transform(named))


def test_inputs_that_are_missing_for_the_first_time_count_as_unseen():
    encoder = TableEncoder().fit(pd.DataFrame({"age": [20, 30], "city": ["Rome", "Bern"]}))
    test = pd.DataFrame({"age": [20, 25], "city": ["Bern", "Oslo"]})
    with pytest.warns(UserWarning, match="'city' has missing values, but had none in training; they count as an"):
        missing = encoder.transform(test.assign(city=["Bern", None]))
    np.testing.assert_array_equal(missing, encoder.transform(test))


def test_missing_texts_are_empty_texts():
    X = pd.DataFrame({"note": ["good cast", "bad plot", None]})
    missing = TableEncoder({"note": "text"}).fit(X)
    np.testing.assert_array_equal(missing.transform(X), missing.transform(X.fillna("")))


def test_inputs_come_back_from_json():
    X = pd.DataFrame({"age": [20, 30, 40], "city": ["Rome", "Bern", "Rome"]})
    for frame in (X, X[["age"]]):
        encoder = TableEncoder().fit(frame)
        loaded = through_json(encoder)
        np.testing.assert_array_equal(loaded.transform(frame), encoder.transform(frame))
        assert loaded.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()


def test_few_values_are_a_bin_each():
    """A rare value keeps its own bin, where quantiles would merge it with the common one."""
    ratings = np.repeat([1.0, 2.0, 5.0], [96, 3, 1])
    encoder = of_privileged().fit(ratings)
    assert encoder.get_feature_names_out().tolist() == ["a0 in (-inf, 2)", "a0 in [2, 5)", "a0 in [5, inf)"]
    np.testing.assert_array_equal(encoder.transform(ratings).toarray(), np.repeat(np.eye(3), [96, 3, 1], axis=0))


@pytest.mark.parametrize("name", ["annotator", "worker_id", "WorkerId", "model", "id"])
def test_integers_that_look_like_ids_are_categories(name):
    A = pd.DataFrame({name: [3, 14, 15, 92], "valid": [0, 1, 2, 3], "seconds": [1, 2, 3, 4]})
    others = {"valid": "number", "seconds": "number"}
    assert kinds(of_privileged().fit(A)) == {name: "category"} | others
    assert kinds(of_privileged().fit(A.astype({name: str}))) == {name: "category"} | others
    assert kinds(of_privileged().fit(A + 0.5)) == {name: "number"} | others
    assert kinds(of_privileged({name: "number"}).fit(A)) == {name: "number"} | others


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("annotator", [1, 2], True),
        ("worker_id", [1.0, np.nan], True),
        ("judge", [1, 2], True),
        ("annotator", [1.5, 2], False),
        ("seconds", [1, 2], False),
        ("identity", [1, 2], False),
    ],
)
def test_numbers_that_are_ids(name, values, expected):
    assert is_id(pd.Series(values, name=name)) is expected


def test_dates_beyond_nanoseconds_are_seconds_too():
    """Nanoseconds in 64 bits end in the year 2262."""
    dates = pd.Series(np.array(["9999-12-31", "1970-01-02", "0001-01-01"], dtype="datetime64[s]"), name="due")
    expected = [253402214400.0, 86400.0, -62135596800.0]
    assert as_frame(dates)["due"].tolist() == expected
    assert as_frame(dates.dt.tz_localize("UTC"))["due"].tolist() == expected
