"""Rating scales of tables."""

import numpy as np
import pandas as pd
import pytest

from lupi.tabular import TableSpec
from lupi.tabular.table_data import read_data


@pytest.fixture
def read(tmp_path):
    def read(labels, **options):
        path = tmp_path / "table.parquet"
        pd.DataFrame({"x": np.arange(len(labels)) / 7, "y": labels}).to_parquet(path)
        return read_data(TableSpec(table=path, target=["y"], **options))

    return read


def test_a_few_integers_may_be_grades_and_a_note_says_so(read):
    data = read([1, 2, 3, 4, 5, 5])
    assert not data.schema.ordinal
    assert [note for note in data.notes if "integers from 1 to 5" in note and "'ordinal'" in note]
    for scale in ("ordinal", "nominal"):
        assert not read([1, 2, 3, 4, 5, 5], scale=scale).notes
    assert not read([0, 1, 1, 0]).notes
    assert not read(["a", "b", "c"]).notes


def test_a_scale_orders_numbers_and_names_and_keeps_minus_one(read):
    data = read([1, 0, -1, 2], scale="ordinal")
    assert (data.schema.ordinal, data.classes, data.y.tolist()) == (True, (-1, 0, 1, 2), [2, 1, 0, 3])
    assert "Scale: 4 grades in order, from -1 to 2." in data.choices
    named = read(["good", "poor", "fair"], scale="poor, fair,good,great")
    assert (named.classes, named.y.tolist()) == (("poor", "fair", "good", "great"), [2, 0, 1])
    assert read([1, 2, 4], scale="1,2,3,4").classes == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("labels", "scale", "message"),
    [
        (["good", "poor"], "ordinal", "Expected labels to be numbers with `scale` 'ordinal', but got 'good'"),
        (["good", "poor"], "good,fair", "Expected `scale` to list the grades in order, but it has no 'poor'"),
        ([0.5, 1.5, 2.5], "ordinal", "Expected classes for `scale`, but got regression"),
        ([1, 2, 3], "interval", "Expected `scale` to be one of nominal, ordinal"),
    ],
)
def test_other_scales_are_refused(read, labels, scale, message):
    with pytest.raises(ValueError, match=message):
        read(labels, scale=scale)
