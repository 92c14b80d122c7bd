"""Vectors as columns: recognized, standardized like numbers, from lists and strings."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import lupi
from lupi.tabular import TableEncoder
from lupi.tabular.kinds.vector import stack_vectors

NUMBERS = st.floats(-1e6, 1e6, width=32)
MATRICES = st.tuples(st.integers(1, 8), st.integers(1, 5)).flatmap(lambda s: arrays(np.float32, s, elements=NUMBERS))


def as_lists(X):
    return pd.DataFrame({"v": list(X)})


def as_arrow(X):
    flat = pa.array(X.reshape(-1))
    return pa.table({"v": pa.FixedSizeListArray.from_arrays(flat, X.shape[1])}).to_pandas()


def as_polars(X):
    return pl.DataFrame({"v": X.tolist()}).to_pandas()


def as_strings(X):
    return pd.DataFrame({"v": [str(row.tolist()) for row in X]})


@given(MATRICES, st.sampled_from([as_lists, as_arrow, as_polars, as_strings]))
def test_vectors_are_stacked_whatever_they_are_stored_as(X, store):
    np.testing.assert_array_equal(stack_vectors(store(X)["v"], range(len(X))), X)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [[1.0, 2.0], [1.0]],
            r"^Expected the vectors of column 'v' to have 2 numbers as row 10 has, but row 11 has 1\.$",
        ),
        ([[1.0, 2.0], [1.0, np.nan]], r"^Expected column 'v' to have finite numbers, but got nan in row 11\.$"),
        ([[1.0, 2.0], [np.inf, 2.0]], r"^Expected column 'v' to have finite numbers, but got inf in row 11\.$"),
        ([[1.0, 2.0], ["a", "b"]], r"to have a vector of numbers in every row, but row 11 has \"\['a', 'b'\]\"\.$"),
        ([[1.0, 2.0], [[1.0], [2.0]]], r"but row 11 has '\[\[1.0\], \[2.0\]\]'\.$"),
        ([[1.0, 2.0], None], r"but row 11 has none\.$"),
        ([[1.0, 2.0], []], r"to have numbers, but row 11 has none\.$"),
        (["[1, 2]", "[1, x]"], r"but row 11 has '\[1, x\]'\.$"),
    ],
)
def test_vectors_that_make_no_sense(values, message):
    with pytest.raises(ValueError, match=message):
        stack_vectors(pd.Series(values, name="v"), range(10, 12))


def test_the_width_is_that_of_training():
    encoder = TableEncoder().fit(as_lists(np.eye(3)))
    message = r"^Expected the vectors of column 'v' to have 3 numbers as in training, but row 5 has 2\.$"
    with pytest.raises(ValueError, match=message):
        encoder.transform(as_lists(np.zeros((4, 2))).set_axis(range(5, 9)))


@given(MATRICES)
def test_inputs_are_standardized_like_numbers(X):
    encoder = TableEncoder().fit(as_lists(X))
    assert encoder.get_feature_names_out().tolist() == [f"v[{i}]" for i in range(X.shape[1])]
    np.testing.assert_array_equal(encoder.transform(as_lists(X)), TableEncoder().fit_transform(X))


def test_privileged_vectors_are_standardized_and_a_missing_one_is_the_mean():
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    frame = pd.DataFrame({"v": list(X), "seconds": np.arange(20.0), "worker": list("ab") * 10})
    frame.loc[4, "v"] = None
    encoder = TableEncoder({"seconds": "standardized"}, privileged=True).fit(frame)
    assert encoder.encodings_[0].kind.name == "vector"
    names = ["v[0]", "v[1]", "v[2]", "seconds", "worker=a", "worker=b"]
    assert encoder.get_feature_names_out().tolist() == names
    features = encoder.transform(frame).toarray()
    known = np.delete(X.astype(np.float64), 4, axis=0)
    expected = (X - known.mean(0)) / known.std(0)
    expected[4] = 0
    np.testing.assert_allclose(features[:, :3], expected, atol=1e-5)
    with pytest.raises(ValueError, match=r"'v' to have 3 numbers as in training, but row 0 has 2"):
        encoder.transform(frame.assign(v=list(X[:, :2])))


def test_estimators_take_vectors(tmp_path):
    rng = np.random.default_rng(0)
    E, age = rng.normal(size=(80, 4)), rng.normal(size=80)
    y = np.where(E[:, 0] + age > 0, "yes", "no")
    frames = pd.DataFrame({"age": age, "embedding": list(E)}), pd.DataFrame(np.c_[age, E], columns=list("abcde"))
    models = [
        lupi.PrivilegedClassifier("tram", epochs=2, random_state=0).fit(X, y, privileged=frames[0][["embedding"]])
        for X in frames
    ]
    p = [model.predict_proba(X) for model, X in zip(models, frames, strict=True)]
    np.testing.assert_array_equal(*p)
    assert models[0].feature_names_in_.tolist() == ["age", "embedding"]
    models[0].save(tmp_path / "model")
    np.testing.assert_array_equal(lupi.load(tmp_path / "model").predict_proba(frames[0]), p[0])
    chosen = lupi.PrivilegedClassifier("no-pi", epochs=1, kind={"embedding": "vector"})
    strings = frames[0].assign(embedding=[str(row.tolist()) for row in E])
    assert chosen.fit(strings, y).n_features_in_ == 2
    with pytest.raises(
        ValueError, match=r"^Expected column 'age' to be lists of numbers to be read as vector, but it is n"
    ):
        lupi.PrivilegedClassifier("no-pi", kind={"age": "vector"}).fit(frames[0], y)
