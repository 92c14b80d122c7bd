import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from lupi.tabular.encoding import InputEncoder, PrivilegedEncoder

PRIVILEGED = pd.DataFrame({"annotator": ["ann", "bob"], "seconds": [1.0, 2.0]})
PERSONS = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "city": ["Rome", "Bern", "Rome", "Bern"]})


@pytest.mark.parametrize(
    ("encoder", "A", "message"),
    [
        (PrivilegedEncoder("bins"), PRIVILEGED, "`numbers`.*'bins'"),
        (PrivilegedEncoder({"seconds": "bins"}), PRIVILEGED, "`numbers`.*'bins'"),
        (PrivilegedEncoder({"second": "quantile"}), PRIVILEGED, "`numbers`.*'second'"),
        (PrivilegedEncoder(quantiles=1), PRIVILEGED, "`quantiles`.*1"),
        (PrivilegedEncoder(quantiles=2.5), PRIVILEGED, "`quantiles`.*2.5"),
        (PrivilegedEncoder({"annotator": "quantile"}), PRIVILEGED, "'annotator'.*'ann' in row 0"),
        (PrivilegedEncoder(), [[1.0], [None], [-np.inf]], "'a0'.*-inf in row 2"),
        (PrivilegedEncoder("category"), np.array([1.0, np.inf]), "'a0'.*inf in row 1"),
        (PrivilegedEncoder(), [["a", "b"], ["c"]], r"'a0'.*\['a', 'b'\] in row 0"),
        (PrivilegedEncoder(), PRIVILEGED[:0], r"0 sample\(s\)"),
        (PrivilegedEncoder(), np.empty((3, 0)), r"0 feature\(s\)"),
        (PrivilegedEncoder(), np.zeros((2, 2, 2)), "3-D array"),
        (PrivilegedEncoder(), csr_array(np.eye(2)), "csr_array"),
        (PrivilegedEncoder(), pd.DataFrame([[1, 2]], columns=["s", "s"]), "'s' twice"),
        (PrivilegedEncoder(), np.array([1j]), "'a0'.*complex128"),
        (InputEncoder(), np.zeros(3), "1-D array"),
        (InputEncoder(), [1, 2], "1-D array"),
        (InputEncoder(), np.empty((3, 0)), r"0 feature\(s\)"),
    ],
)
def test_errors_of_fit(encoder, A, message):
    with pytest.raises(ValueError, match=message):
        encoder.fit(A)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (PRIVILEGED, PRIVILEGED[["seconds"]], "columns ['annotator', 'seconds'], but got ['seconds']."),
        (
            PRIVILEGED,
            PRIVILEGED.rename(columns={"seconds": "time"}),
            "columns ['annotator', 'seconds'], but got ['annotator', 'time'].",
        ),
        (
            PRIVILEGED,
            PRIVILEGED[["seconds", "annotator"]],
            "columns ['annotator', 'seconds'], but got ['seconds', 'annotator'].",
        ),
        (np.zeros((2, 3)), np.zeros((2, 2)), "3 columns, but got 2."),
        (PRIVILEGED, np.zeros((2, 3)), "2 columns, but got 3."),
        (np.zeros((2, 3)), PRIVILEGED, "3 columns, but got 2."),
    ],
)
def test_errors_of_other_columns(train, test, message):
    with pytest.raises(ValueError, match=re.escape(f"Expected privileged information with {message}") + "$"):
        PrivilegedEncoder().fit(train).transform(test)
    with pytest.raises(ValueError, match=re.escape(f"Expected X with {message}") + "$"):
        InputEncoder().fit(train).transform(test)


@pytest.mark.parametrize("numbers", ["quantile", "standardize"])
@pytest.mark.parametrize(
    ("seconds", "got"),
    [(["1", "2"], "'1' in row 0"), ([None, "fast"], "'fast' in row 1"), ([1.5, "fast"], "'fast' in row 1")],
)
def test_numbers_that_become_strings(numbers, seconds, got):
    message = re.escape(f"Expected column 'seconds' to be numbers, but got {got}.") + "$"
    later = PRIVILEGED.assign(seconds=pd.Series(seconds, dtype=object))
    with pytest.raises(ValueError, match=message):
        PrivilegedEncoder(numbers).fit(PRIVILEGED).transform(later)
    if None not in seconds:
        for columns in (["annotator", "seconds"], ["seconds"]):
            with pytest.raises(ValueError, match=message):
                InputEncoder().fit(PRIVILEGED[columns]).transform(later[columns])


def test_infinite_and_empty_tables_at_transform():
    encoder = PrivilegedEncoder().fit(PRIVILEGED)
    with pytest.raises(ValueError, match=r"^Expected column 'seconds' to be finite numbers, but got inf in row 1\.$"):
        encoder.transform(PRIVILEGED.assign(seconds=[1.0, np.inf]))
    with pytest.raises(ValueError, match=r"^Expected privileged information to have rows and columns, but got 0 sam"):
        encoder.transform(PRIVILEGED[:0])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (PERSONS.assign(age=[1.0, 2.0, -np.inf, np.nan]), "infinity in column 'age', row 2."),
        (np.array([[1.0, 2.0], [np.inf, np.nan]], dtype=np.float32), "infinity in column 0, row 1."),
        ([["a", 2.0], [None, np.inf]], "infinity in column 1, row 1."),
    ],
)
def test_infinite_inputs(X, message):
    with pytest.raises(ValueError, match=re.escape(f"Input X contains {message}") + "$"):
        InputEncoder().fit(X)
    good = X[:1]
    with pytest.raises(ValueError, match=re.escape(f"Input X contains {message}") + "$"):
        InputEncoder().fit(good).transform(X)
