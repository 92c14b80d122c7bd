import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from lupi.tabular import TableEncoder

PRIVILEGED = pd.DataFrame({"annotator": ["ann", "bob"], "seconds": [1.0, 2.0]})
PERSONS = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "city": ["Rome", "Bern", "Rome", "Bern"]})


@pytest.mark.parametrize(
    ("kind", "A", "message"),
    [
        ({"seconds": "bins"}, PRIVILEGED, "`kind` of column 'seconds'.*'bins'"),
        ({"second": "number"}, PRIVILEGED, "`kind`.*'second': did you mean 'seconds'"),
        ({"annotator": "number"}, PRIVILEGED, "'annotator'.*'ann' in row 0"),
        (None, [[1.0], [None], [-np.inf]], "'a0'.*-inf' in row 2"),
        ({"a0": "category"}, np.array([1.0, np.inf]), "'a0'.*inf in row 1"),
        (None, [["a", "b"], ["c"]], "'a0' to have one value per row, but got lists"),
        (None, PRIVILEGED[:0], r"0 sample\(s\)"),
        (None, np.empty((3, 0)), r"0 feature\(s\)"),
        (None, np.zeros((2, 2, 2)), "3-D array"),
        (None, csr_array(np.eye(2)), "csr_array"),
        (None, pd.DataFrame([[1, 2]], columns=["s", "s"]), "'s' twice"),
        (None, np.array([1j]), "'a0'.*complex128"),
    ],
)
def test_errors_of_fit(kind, A, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(kind, privileged=True).fit(A)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (PRIVILEGED, PRIVILEGED[["seconds"]], "columns ['annotator', 'seconds'], but got ['seconds']."),
        (
            PRIVILEGED,
            PRIVILEGED.rename(columns={"seconds": "time"}),
            "columns ['annotator', 'seconds'], but got ['annotator', 'time'].",
        ),
        (np.zeros((2, 3)), np.zeros((2, 2)), "3 columns, but got 2."),
        (PRIVILEGED, np.zeros((2, 3)), "2 columns, but got 3."),
        (np.zeros((2, 3)), PRIVILEGED, "3 columns, but got 2."),
    ],
)
@pytest.mark.parametrize(("privileged", "what"), [(True, "privileged information"), (False, "X")])
def test_errors_of_other_columns(train, test, message, privileged, what):
    kind = {} if isinstance(train, np.ndarray) else {"annotator": "category"}
    encoder = TableEncoder(kind, privileged=privileged).fit(train)
    with pytest.raises(ValueError, match=re.escape(f"Expected {what} with {message}") + "$"):
        encoder.transform(test)


@pytest.mark.parametrize("privileged", [False, True])
@pytest.mark.parametrize("names", [["a0", "a1"], ["seconds", "age"]])
def test_columns_in_another_order_are_found_by_name(names, privileged):
    """Also if their names are those that the columns of an array get."""
    table = pd.DataFrame(np.arange(6.0).reshape(3, 2) ** 2, columns=names)
    encoder = TableEncoder(privileged=privileged).fit(table)
    expected, found = encoder.transform(table), encoder.transform(table[names[::-1]])
    assert abs(found - expected).max() == 0


@pytest.mark.parametrize(("kind", "privileged"), [("number", True), ("standardized", True), ("number", False)], ids=str)
@pytest.mark.parametrize("seconds", [[None, "fast"], [1.5, "fast"]])
def test_numbers_that_become_strings(kind, privileged, seconds):
    message = re.escape("Expected column 'seconds' to be finite numbers, but got 'fast' in row 1.") + "$"
    encoder = TableEncoder({"seconds": kind}, privileged=privileged).fit(PRIVILEGED)
    with pytest.raises(ValueError, match=message):
        encoder.transform(PRIVILEGED.assign(seconds=pd.Series(seconds, dtype=object)))


@pytest.mark.parametrize("privileged", [False, True])
def test_digits_are_numbers(privileged):
    encoder = TableEncoder(privileged=privileged).fit(PRIVILEGED)
    expected = encoder.transform(PRIVILEGED)
    assert abs(encoder.transform(PRIVILEGED.assign(seconds=["1", "2.0"])) - expected).max() == 0


def test_infinite_and_empty_tables_at_transform():
    encoder = TableEncoder(privileged=True).fit(PRIVILEGED)
    with pytest.raises(ValueError, match=r"^Expected column 'seconds' to be finite numbers, but got 'inf' in row 1\.$"):
        encoder.transform(PRIVILEGED.assign(seconds=[1.0, np.inf]))
    with pytest.raises(ValueError, match=r"^Expected privileged information to have rows and columns, but got 0 sam"):
        encoder.transform(PRIVILEGED[:0])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (PERSONS.assign(age=[1.0, 2.0, -np.inf, np.nan]), "'age' to be finite numbers, but got '-inf' in row 2."),
        (np.array([[1.0, 2.0], [np.inf, np.nan]], np.float32), "'x0' to be finite numbers, but got 'inf' in row 1."),
        ([["a", 2.0], [None, np.inf]], "'x1' to be finite numbers, but got 'inf' in row 1."),
    ],
)
def test_infinite_inputs(X, message):
    for fit in (TableEncoder().fit, TableEncoder().fit(X[:1]).transform):
        with pytest.raises(ValueError, match=re.escape(f"Expected column {message}") + "$"):
            fit(X)
