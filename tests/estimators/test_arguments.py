import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi.estimators.fit_arguments import find_annotators, find_examples
from lupi.tabular.frames import as_frame
from lupi.tabular.values import code_categories
from tests.estimators.helpers import MULTI, A, X, Y, classifier


def changed(array, place, value):
    array = np.array(array, dtype=None if isinstance(value, int) else type(value))
    array[place] = value
    return array


def frame(place, value):
    table = pd.DataFrame(X, columns=["age", "height", "weight"]).astype({place[1]: object})
    table.loc[place] = value
    return table


DATA = {
    "y is short": ({"y": Y[:50]}, "`y`.* 60 .*50"),
    "privileged is short": ({"privileged": A[:50]}, "`privileged`.* 60 .*50"),
    "example is short": ({"example": np.arange(50)}, "`example`.* 60 .*50"),
    "no y": ({"y": None}, "PrivilegedClassifier estimator requires y"),
    "infinity in X": ({"X": changed(X, (7, 2), -np.inf)}, "'x2' to be finite numbers, but got '-inf' in row 7"),
    "no value in a column": ({"X": changed(X, (slice(None), 2), np.nan)}, "'x2' to have a value in some row"),
    "no value in a column of strings": (
        {"X": pd.DataFrame({"age": X[:, 0], "city": [None] * 60})},
        "'city' to have a value in some row",
    ),
    "infinity in a frame": ({"X": frame((5, "age"), np.inf)}, "'age' to be finite numbers, but got 'inf' in row 5"),
    "another number in one row of an example": (
        {"X": changed(np.repeat(X[:30], 2, 0), (7, 2), 9.5), "example": np.arange(60) // 2},
        "rows 6 and 7 of example 3 differ",
    ),
    "no label": ({"y": np.full(60, np.nan)}, "all 60 are missing"),
    "infinity in y": ({"y": changed(Y, 3, np.inf)}, "Input y contains infinity in row 3"),
    "NaN in multi-label y": ({"y": changed(MULTI, (4, 1), np.nan)}, "Input y contains NaN in row 4"),
    "one class": ({"y": np.ones(60)}, "two classes.* 1.0"),
    "one class, a string": ({"y": ["yes"] * 60}, "two classes.* 'yes'"),
    "real y": ({"y": X[:, 0]}, "Unknown label type: continuous"),
    "labels of two types": ({"y": np.array(["a", 1] * 30, dtype=object)}, "one type.* int and str"),
    "a 2 among labels": ({"y": changed(MULTI, (4, 1), 2)}, "0 or 1.* 2 in row 4, column 1"),
    "strings as labels": ({"y": np.where(MULTI, "on", "off")}, "0 or 1.* 'o"),
    "no rows": ({"X": X[:0], "y": Y[:0]}, re.escape("0 sample(s) (shape=(0, 3))")),
    "an empty frame": ({"X": pd.DataFrame({"u": []}), "y": []}, re.escape("X to have rows and columns, but got 0")),
    "no columns": ({"X": X[:, :0]}, re.escape("0 feature(s) (shape=(60, 0))")),
    "no privileged columns": ({"privileged": A[[]]}, re.escape("privileged information")),
    "infinity in privileged": (
        {"privileged": A.assign(seconds=np.where(np.arange(60) == 9, np.inf, 1.0))},
        "'seconds' to be finite numbers, but got 'inf' in row 9",
    ),
    "missing id": ({"example": [None if i == 8 else f"image {i}" for i in range(60)]}, "`example`.* row 8 "),
    "missing number as id": ({"example": changed(np.arange(60), 8, np.nan)}, "`example`.* row 8 "),
    "ids in two columns": ({"example": np.zeros((60, 2))}, r"`example`.* \[60, 2\]"),
}


@pytest.mark.parametrize("case", DATA)
def test_bad_data_is_refused_with_its_place(case):
    passed, message = DATA[case]
    data = {"X": X, "y": Y, "privileged": A, "example": None} | passed
    with pytest.raises(ValueError, match=message):
        classifier().fit(data["X"], data["y"], privileged=data["privileged"], example=data["example"])


PARAMETERS = {
    "unknown method": ({"method": "trap"}, "`method`.* no-pi, .*'trap'"),
    "method of another type": ({"method": 3}, "`method`.* 3"),
    "method that makes something else": ({"method": lambda parts: parts.trunk()}, "`method`.* MLP"),
    "unknown option of the method": ({"method_options": {"gamma": 1}}, "'tram'.* beta.*'gamma'"),
    "option of a method without options": ({"method": "no-pi", "method_options": {"beta": 1}}, "'no-pi'.* 'beta'"),
    "options in a list": ({"method_options": ["beta"]}, r"`method_options`.* \['beta'\]"),
    "unknown training option": ({"training": {"dropout": 0.1}}, "`training`.* draw, accumulate.* 'dropout'"),
    "training option that is a parameter": ({"training": {"epochs": 3}}, "`training`.* draw, accumulate.* 'epochs'"),
    "value of a training option": ({"training": {"optimizer": "adagrad"}}, "`optimizer`.* 'adagrad'"),
    "training options in a string": ({"training": "fast"}, "`training`.* 'fast'"),
    "epochs": ({"epochs": 0}, "`epochs`.* 0"),
    "validation_fraction of 1": (
        {"training": {"validation_fraction": 1.0}, "patience": 1},
        r"`validation_fraction`.* 1\.0 of 60",
    ),
    "validation_fraction of 2": ({"training": {"validation_fraction": 2.0}}, r"`validation_fraction`.* 2\.0"),
    "validation_fraction as a string": (
        {"training": {"validation_fraction": "half"}},
        "`validation_fraction`.* 'half'",
    ),
    "validation_fraction too small": (
        {"training": {"validation_fraction": 0.001}, "patience": 1},
        r"`validation_fraction`.* 0\.001 of 60 is 0",
    ),
    "hidden of another type": ({"hidden": 64}, "`hidden`.* 64"),
    "hidden of 0": ({"hidden": (8, 0)}, r"`hidden`.* \(8, 0\)"),
    "hidden as a string": ({"hidden": "64"}, "`hidden`.* '64'"),
    "tower of one": ({"tower": (8,)}, r"`tower`.* 2 .* \(8,\)"),
    "no tower": ({"tower": None}, "`tower`.* None"),
    "trunk": ({"trunk": "resnet"}, "`trunk`.* 'resnet'"),
    "kind": ({"kind": "number"}, "`kind` to be a dict, but got 'number'"),
    "unknown kind": ({"kind": {"seconds": "rank"}}, "`kind`.* 'seconds'.* 'rank'"),
    "kind of an unknown column": ({"kind": {"time": "number"}}, "`kind`.* 'time'"),
    "unknown annotator": ({"annotator": "anotator"}, "`annotator`.* of `privileged`.* mean 'annotator'"),
    "number of an unknown annotator": ({"annotator": 2}, "`annotator`.* 0 to 1,.* 2"),
    "negative number of an annotator": ({"annotator": -1}, "`annotator`.* -1"),
    "annotator of another type": ({"annotator": True}, "`annotator`.* True"),
    "unknown device": ({"device": "gpu"}, "`device`.* 'gpu'"),
    "device of another type": ({"device": 1.5}, r"`device`.* 1\.5"),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_bad_parameters_are_refused_with_their_value(case):
    parameters, message = PARAMETERS[case]
    with pytest.raises(ValueError, match=message):
        classifier(**parameters).fit(X, Y, privileged=A)


def test_an_annotator_is_a_column_of_privileged_information():
    with pytest.raises(ValueError, match=r"`privileged`.* `annotator` column 'worker'.* None"):
        classifier("no-pi", annotator="worker").fit(X, Y)


def number(privileged, annotator, kinds=None):
    """The number of each row's annotator."""
    column = find_annotators(as_frame(privileged, "a"), annotator, kinds or {})
    return None if column is None else code_categories(column).tolist()


ids = st.sampled_from(["ann", "bob", "3", 3, 3.0, 4, None, float("nan"), True])


@settings(deadline=None)
@given(st.lists(ids, min_size=1, max_size=20), st.booleans())
def test_annotators_are_numbered_by_their_ids(who, named):
    """Equal ids, and only those, get equal numbers; 3, 3.0 and "3" are equal, and missing ids are one annotator."""
    names = ["missing" if pd.isna(one) else "3" if one in ("3", 3) else str(one) for one in who]
    frame = pd.DataFrame({"seconds": np.arange(len(who)), "who": pd.Series(who, dtype=object)})
    codes = number(frame if named else frame.to_numpy(object), "who" if named else 1)
    assert set(codes) == set(range(len(set(names))))
    assert len(set(zip(codes, names, strict=True))) == len(set(names))


@pytest.mark.parametrize("as_table", [pd.DataFrame, pl.DataFrame])
def test_annotators_are_found_by_name(as_table):
    columns = {"seconds": [1.5, 2.0, 1.5, 3.0], "worker": ["bob", "ann", None, "bob"]}
    expected = [1, 0, 2, 1]
    for named in (None, "worker", 1, np.int64(1)):
        assert number(as_table(columns), named) == expected
    assert number(as_table(columns), "seconds") == [0, 1, 0, 2]
    assert number(as_table(columns)["worker"], None) == expected
    assert number(as_table({"seconds": columns["seconds"]}), None) is None


def test_ids_that_are_read_as_quantities_are_no_annotators():
    A = pd.DataFrame({"worker_id": [7, 9, 7, 9]})
    assert number(A, None) == number(A, None, {"worker_id": "category"}) == [0, 1, 0, 1]
    assert number(A, None, {"worker_id": "standardized"}) is None
    assert number(A, "worker_id", {"worker_id": "standardized"}) == [0, 1, 0, 1]


def test_columns_that_are_named_by_numbers_are_told_by_name():
    A = pd.DataFrame([[5, "ann"], [6, "ann"]], columns=[1, 0])
    assert number(A, 0) == [0, 0]
    assert number(A, 1) == [0, 1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_refused():
    with pytest.raises(ValueError, match=r"`device`.* 'cuda'"):
        classifier(device="cuda").fit(X, Y, privileged=A)


def test_bad_data_at_prediction():
    table = pd.DataFrame(X, columns=["age", "height", "weight"])
    model = classifier().fit(table, Y, privileged=A)
    for passed, message in [
        (table[["age", "weight"]], "The feature names should match those that were passed during fit"),
        (frame((5, "height"), np.inf), "'height' to be finite numbers, but got 'inf' in row 5"),
        (table.assign(height="tall"), "'height'.* 'tall' in row 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.predict(passed)
    plain = classifier().fit(X, Y, privileged=A)
    with pytest.raises(ValueError, match="'x1' to be finite numbers, but got 'inf' in row 0"):
        plain.predict(changed(X, (0, 1), np.inf))
    with pytest.raises(ValueError, match="X has 2 features, but PrivilegedClassifier is expecting 3 features"):
        plain.predict(X[:, :2])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((60, 3), "a"), "not compatible with arrays of bytes/strings"),
        (np.zeros(60), "(?s)got 1D array.*Reshape your data"),
        (np.zeros((0, 3)), re.escape("0 sample(s) (shape=(0, 3))")),
        (changed(np.zeros((60, 3)), (4, 1), np.nan), "Input X contains NaN or infinity in row 4"),
        (np.zeros((60, 3, 2)), r"`trunk`.* \[1, 3, 4\]"),
    ],
)
def test_bad_inputs_of_a_trunk_of_your_own(X, message):
    with pytest.raises(ValueError, match=message):
        classifier(trunk=nn.Linear(2 if X.ndim == 3 else 3, 4)).fit(X, Y, privileged=A)


def test_a_trunk_of_your_own_predicts_inputs_of_the_same_width():
    model = classifier(trunk=nn.Linear(3, 4)).fit(X, Y, privileged=A)
    with pytest.raises(ValueError, match=r"X has 2 features.* 3"):
        model.predict(X[:, :2])


def test_a_trunk_that_cannot_take_X_is_named():  # noqa: N802
    images = np.zeros((len(X), 1, 8, 8), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"(?s)`trunk`.* \[1, 1, 8, 8\] and torch.uint8"):
        classifier(trunk=nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten())).fit(images, Y, privileged=A)


def test_a_missing_value_is_that_of_other_rows_and_equals_itself():
    inputs = pd.DataFrame({"x": pd.array(["a", pd.NA, pd.NA, "a"], dtype="string"), "y": 1.0})
    with pytest.warns(UserWarning, match="In 2 rows without 'x', the value of another row of the same example is used"):
        known, _ = find_examples(["p", "p", "q", "q"], inputs)
    assert known["x"].tolist() == ["a", "a"]
    _, codes = find_examples(["p", "q", "q", "p"], inputs)
    assert codes.tolist() == [0, 1, 1, 0]


def test_a_true_label_beside_soft_ones_is_a_class():
    soft = np.eye(3)[Y] * 0.8 + 0.2 / 3
    model = classifier("no-pi", soft=True).fit(X, soft, gold=np.where(np.arange(60) < 5, Y, -1))
    assert model.predict_proba(X).shape == (60, 3)
