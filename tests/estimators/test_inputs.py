"""What the estimators make of tables: kinds of columns, missing numbers, rows without a label, containers."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lupi
from lupi import PrivilegedClassifier
from lupi.tabular import TableEncoder, TfidfEncoder
from tests.estimators.helpers import A, X, Y, classifier, regressor

RNG = np.random.default_rng(1)
GOOD, BAD = ["great", "lovely", "fine", "superb"], ["awful", "dull", "poor", "weak"]
FILLERS = ["the", "film", "cast", "plot", "story", "scene", "light", "sound", "hero", "end", "city", "road", "rain"]


def reviews(n, seed):
    """Texts of distinct wording, whose class is that of one of their words."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    said = [[rng.choice(GOOD if label else BAD), *rng.choice(FILLERS, 6)] for label in y]
    return pd.DataFrame({"text": [" ".join(rng.permutation(words)) for words in said]}), y


# -------------------------------------------------------------------------------- kinds of columns


def test_texts_are_read_word_by_word():
    """One-hot by whole string, all test texts would be unknown, and the accuracy that of chance."""
    (train, y), (test, y_test) = reviews(200, 0), reviews(200, 1)
    model = PrivilegedClassifier("no-pi", epochs=30, random_state=0).fit(train, y)
    assert model.score(test, y_test) > 0.95
    assert "text[0]" in model.input_encoder_.get_feature_names_out()


def test_models_with_texts_come_back(tmp_path):
    train, y = reviews(60, 0)
    comments = pd.DataFrame({"comment": [f"I think it is number {i}" for i in range(60)]})
    model = classifier().fit(train, y, privileged=comments)
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(train), model.predict_proba(train))
    np.testing.assert_array_equal(
        loaded.predict_proba_given(train, comments), model.predict_proba_given(train, comments)
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"code": [f"A{i}" for i in range(60)]}, "without identifiers, but 'code' has 60 distinct strings"),
        ({"user_id": range(60)}, "without identifiers, but 'user_id' holds integers and is named like an id"),
        ({"gold": Y}, "without true labels, but 'gold' is named like them: leave it out"),
        ({"v": [["a", "b"]] * 60}, "'v' to have one value per row, but got lists; write each"),
        ({"v": [np.ones((2, 2))] * 60}, "'v' to have one value per row, but got lists; write each"),
        (
            {"v": ["[0.5, 1.5]"] * 60},
            r"'v' to have one value per row, but got lists such as '\[0.5, 1.5\]'; pass `kind",
        ),
    ],
)
def test_columns_that_are_no_inputs(columns, message):
    table = pd.DataFrame({"x": X[:, 0], **columns})
    with pytest.raises(ValueError, match=message):
        classifier().fit(table, Y, privileged=A)


@pytest.mark.parametrize(
    ("column", "kind", "encoded"),
    [
        ([f"A{i}" for i in range(60)], "category", "code=A0"),
        ([f"word{i} more" for i in range(60)], "text", "code[0]"),
        (range(60), "number", "code"),
        ([7, 8] * 30, "category", "code=7"),
    ],
)
def test_kinds_may_be_chosen(column, kind, encoded):
    table = pd.DataFrame({"x": X[:, 0], "code": column})
    model = classifier(kind={"code": kind}).fit(table, Y, privileged=A)
    assert encoded in model.input_encoder_.get_feature_names_out()


def test_categories_of_pandas_are_categories():
    table = pd.DataFrame({"code": pd.Categorical([f"A{i}" for i in range(60)])})
    assert classifier().fit(table, Y, privileged=A).widths_["inputs"] == 60


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"x9": "number"}, "`kind` to name a column of X or `privileged`, but got 'x9'"),
        ({"x1": "image"}, "column 'x1' to be paths to be read as image, but it is number"),
        ({"x1": "text"}, "column 'x1' to be strings to be read as text, but it is number"),
    ],
)
def test_kinds_that_make_no_sense(kind, message):
    with pytest.raises(ValueError, match=message):
        classifier(kind=kind).fit(X, Y, privileged=A)


def test_comments_of_annotators_are_read_word_by_word():
    comments = [f"comment {i} is {'clear' if i % 2 else 'unsure'}" for i in range(60)]
    model = classifier().fit(X, Y, privileged=A.assign(comment=comments))
    encoded = model.privileged_encoder_.transform(A.assign(comment="it is quite clear"))
    features = TfidfEncoder().fit(comments).transform(["it is quite clear"])
    names = model.privileged_encoder_.get_feature_names_out().tolist()
    start = names.index("comment[0]")
    assert encoded.shape[1] == len(names)
    assert names[start : start + features.shape[1]] == [f"comment[{i}]" for i in range(features.shape[1])]


def test_numbers_in_another_notation_are_warned_of():
    prices, seconds = [f"€{i % 9}.50" for i in range(60)], [f"{i % 9} s" for i in range(60)]
    with pytest.warns(UserWarning) as told:  # noqa: PT030
        classifier().fit(pd.DataFrame({"price": prices}), Y, privileged=pd.DataFrame({"time": seconds}))
    found = [str(warning.message).split(" looks like")[0] for warning in told]
    assert sorted(found) == ["Input column 'price'", "Privileged column 'time'"]
    with warnings.catch_warnings(action="error"):
        classifier(kind={"price": "category"}).fit(pd.DataFrame({"price": prices}), Y, privileged=A)


def test_privileged_identifiers_are_refused():
    ids = [f"assignment{i}" for i in range(60)]
    with pytest.raises(ValueError, match="privileged columns without identifiers, but 'hit' has 60 distinct values"):
        classifier().fit(X, Y, privileged=A.assign(hit=ids))
    for options, column in [
        ({"kind": {"hit": "category"}}, ids),
        ({}, pd.Categorical(ids)),
        ({"annotator": "hit"}, ids),
    ]:
        model = classifier(**options).fit(X, Y, privileged=A.assign(hit=column))
        assert "hit=assignment0" in model.privileged_encoder_.get_feature_names_out()


# -------------------------------------------------------------------------------- missing numbers


def test_missing_numbers_are_the_mean_and_an_indicator():
    """The encoding is that of the columns, scaled by hand, and of which values are missing."""
    values = X.copy()
    values[::4, 1] = np.nan
    features = TableEncoder().fit_transform(values)
    scaled = (values - np.nanmean(values, 0)) / np.nanstd(values, 0)
    expected = np.column_stack([np.nan_to_num(scaled), np.isnan(values[:, 1])])
    np.testing.assert_allclose(features, expected, atol=1e-6)
    assert TableEncoder().fit(values).get_feature_names_out().tolist() == ["x0", "x1", "x2", "x1=missing"]


def test_missing_numbers_are_encoded_alike_with_and_without_strings():
    values = pd.DataFrame(X, columns=list("abc")).mask(X > 1)
    alone = TableEncoder().fit(values)
    beside = TableEncoder().fit(values.assign(city=["Bern", "Rome"] * 30))
    columns = [list(beside.get_feature_names_out()).index(name) for name in alone.get_feature_names_out()]
    together = beside.transform(values.assign(city="Bern"))
    np.testing.assert_allclose(together[:, columns], alone.transform(values), atol=1e-6)


@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame, lambda x: pd.DataFrame(x).convert_dtypes(), pl.DataFrame])
def test_models_take_missing_numbers(table):
    values = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    model = classifier().fit(table(values), Y, privileged=A)
    assert model.widths_["inputs"] == 6
    assert np.isfinite(model.predict_proba(table(values))).all()


@pytest.mark.parametrize("table", [pd.DataFrame, lambda x: pd.DataFrame(x).convert_dtypes(), pl.DataFrame, pa.table])
def test_models_take_missing_categories(table, tmp_path):
    X = table({"size": RNG.normal(size=60), "city": ["Bern", "Rome", None] * 20})
    model = classifier().fit(X, Y, privileged=A, example=np.arange(60))
    assert model.input_encoder_.get_feature_names_out().tolist()[1:] == ["city=Bern", "city=Rome", "city=missing"]
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(lupi.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_rows_of_an_example_may_miss_the_same_numbers():
    values = np.repeat(np.where(X[:30] > 1, np.nan, X[:30]), 2, axis=0)
    model = classifier().fit(values, Y, privileged=A, example=np.arange(60) // 2)
    assert len(model.predict(values)) == 60


@pytest.mark.parametrize("city", [[], ["city"]])
def test_numbers_that_are_missing_for_the_first_time_are_warned_of(city):
    table = pd.DataFrame(X, columns=list("abc")).assign(**dict.fromkeys(city, "Bern"))
    table.loc[0, "a"] = np.nan
    model = classifier().fit(table, Y, privileged=A)
    with pytest.warns(UserWarning, match="'b' has missing values, but had none in training; they are replaced by"):
        found = model.predict_proba(table.assign(a=np.nan, b=np.nan))
    with warnings.catch_warnings(action="error"):
        expected = model.predict_proba(table.assign(a=np.nan, b=np.mean(X[:, 1])))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_exported_models_take_missing_numbers(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    values = np.where(X > 1, np.nan, X).astype(np.float32)
    model = classifier().fit(values, Y, privileged=A)
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(["probabilities"], {"x": values.astype(np.float64)})
    np.testing.assert_allclose(found, model.predict_proba(values), atol=1e-6)


# -------------------------------------------------------------------------------- rows without a label


def without(y, rows, value):
    y = np.array(y, dtype=object if value is None else float)
    y[rows] = value
    return y


@pytest.mark.parametrize(
    ("make", "y", "value"),
    [(classifier, Y, -1), (classifier, Y, np.nan), (classifier, Y.astype(str), None), (regressor, X[:, 0], np.nan)],
)
@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame])
def test_rows_without_a_label_are_dropped_with_a_warning(make, y, value, table):
    """The model is the one that is trained without these rows."""
    rows, ids = np.array([0, 7, 30]), np.arange(60) // 1
    kept = np.delete(np.arange(60), rows)
    with pytest.warns(UserWarning, match="3 of 60 rows have no label and are dropped"):
        model = make().fit(table(X), without(y, rows, value), privileged=A, example=ids)
    same = without(y, [], value)[kept]
    expected = make().fit(table(X[kept]), same, privileged=A.iloc[kept].reset_index(drop=True), example=ids[kept])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("y", [np.where(Y > 0, 1, -1), np.where(Y > 0, 1, -1).astype(float), Y - 2])
def test_minus_one_may_be_a_class(y):
    with warnings.catch_warnings(action="error"):
        model = classifier().fit(X, y, privileged=A)
    assert model.classes_.tolist() == sorted(set(y))


def test_a_number_of_minus_one_is_a_number():
    with warnings.catch_warnings(action="error"):
        regressor().fit(X, np.where(X[:, 0] > 0, -1.0, 3.0), privileged=A)


# -------------------------------------------------------------------------------- containers


class Dataset:
    """Stands in for a Hugging Face dataset: `datasets.Dataset` has columns and `to_pandas`, and is no frame."""

    def __init__(self, frame):
        self.frame = frame

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, name):
        return Column(self.frame[name])

    def to_pandas(self):
        return self.frame.copy()


class Column:
    """Stands in for a column of such a dataset, a lazy sequence."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        return self.values.tolist()[place]


class DatasetDict(dict):
    """Stands in for several splits."""


for stand_in in (Dataset, Column, DatasetDict):
    stand_in.__module__ = "datasets.arrow_dataset"

TABLE = pd.DataFrame({"x": X[:, 0], "city": np.where(X[:, 1] > 0, "Bern", "Rome"), "label": Y})
CONTAINERS = {
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "hugging face": Dataset,
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_tables_of_other_libraries_are_tables(kind):
    make = CONTAINERS[kind]
    expected = classifier().fit(TABLE[["x", "city"]], Y, privileged=A).predict_proba(TABLE[["x", "city"]])
    model = classifier().fit(make(TABLE[["x", "city"]]), Y, privileged=make(A))
    assert model.feature_names_in_.tolist() == ["x", "city"]
    np.testing.assert_array_equal(model.predict_proba(make(TABLE[["x", "city"]])), expected)


@pytest.mark.parametrize(
    "labels", [pa.chunked_array([Y[:20], Y[20:]]), pa.array(Y), pl.Series(Y), Dataset(TABLE)["label"]]
)
def test_labels_of_other_libraries_are_labels(labels):
    expected = classifier().fit(X, Y, privileged=A).predict_proba(X)
    np.testing.assert_array_equal(classifier().fit(X, labels, privileged=A).predict_proba(X), expected)


def test_several_splits_are_refused():
    splits = DatasetDict(train=Dataset(TABLE), test=Dataset(TABLE))
    with pytest.raises(ValueError, match="one split of a Hugging Face dataset, but got train, test"):
        classifier().fit(splits, Y)
