import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lupi.crowd.votes import number_ids


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 3, 2],
        ["b", "a", "b", ""],
        np.array(["b", None, 2.5, np.nan, None], dtype=object),
        [0.5, np.nan, 0.5, float("nan")],
        [True, False, True],
    ],
)
def test_ids_are_numbered_by_first_appearance_as_pandas_does(ids):
    codes, names = number_ids("example", ids, len(ids))
    expected, uniques = pd.factorize(np.asarray(ids), use_na_sentinel=False)
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(pd.isna(names), pd.isna(uniques))
    assert len(names) == len(uniques)


def test_the_room_needs_numpy_and_scipy_only():
    program = Path(__file__).parent / "programs" / "list_imports.py"
    output = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
