"""Tables of other libraries as pandas columns: nothing is rounded on the way."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lupi.tabular import TableEncoder
from lupi.tabular.frames import as_frame, to_column, to_pandas
from lupi.tabular.values import category_labels

LARGE = 12345678901234567


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([LARGE, LARGE + 1, None], pa.decimal128(20, 0)),
        ([LARGE, LARGE + 1], pa.decimal128(20, 2)),
        ([2**63, 2**63 + 1, None], pa.decimal128(20, 0)),
        ([10**30, 10**30 + 1, None], pa.decimal128(38, 0)),
        ([10**30, 10**30 + 1], pa.decimal256(50, 0)),
    ],
    ids=str,
)
def test_integers_stored_as_decimals_keep_their_digits(values, kind):
    expected = [str(value) for value in values if value is not None]
    column = pa.chunked_array([[None if value is None else Decimal(value) for value in values]], kind)
    for found in (to_column("id", column), to_pandas(pa.table({"id": column}))["id"]):
        assert category_labels(found) == expected
    encoder = TableEncoder(privileged=True).fit(pa.table({"worker_id": column}))
    assert [label for one in encoder.encodings_ for label in one.labels] == expected


@pytest.mark.parametrize("values", [["1.50", "2.25", None], ["1", "2", "3"]])
def test_decimals_are_numbers(values):
    decimals = [None if value is None else Decimal(value) for value in values]
    expected = np.array(values, float)
    for table in (
        pa.table({"price": decimals}),
        pd.DataFrame({"price": decimals}),
        pl.DataFrame({"price": decimals}),
    ):
        np.testing.assert_array_equal(as_frame(table)["price"].to_numpy(np.float64, na_value=np.nan), expected)
    assert TableEncoder().fit(pd.DataFrame({"price": decimals})).encodings_[0].kind.name == "number"
