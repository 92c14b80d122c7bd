from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.importers import read_export
from lupi.importers.wide import to_long


@given(st.lists(st.lists(st.sampled_from([None, "a", "b"]), min_size=3, max_size=3), min_size=1, max_size=6))
def test_every_cell_with_a_label_is_a_row(rows):
    table = pd.DataFrame(rows, columns=["ann", "bob", "eve"], dtype=object)
    if table.isna().all(axis=None):
        with pytest.raises(ValueError, match="to have labels, but it has none"):
            to_long(table, annotators=list(table))
        return
    long = to_long(table, annotators=list(table)).frame
    back = long.pivot(index="example", columns="annotator", values="label")
    for i, row in enumerate(rows):
        for name, label in zip(table.columns, row, strict=True):
            found = back.loc[str(i), name] if str(i) in back.index and name in back else None
            assert (None if pd.isna(found) else found) == label


def test_other_columns_are_inputs(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("item,text,ann,bob\np,good,1,0\nq,bad,,1\n")
    table = read_export("wide", path, annotators=["ann", "bob"])
    assert table.frame.to_dict("list") == {
        "example": ["p", "p", "q"],
        "text": ["good", "good", "bad"],
        "label": [1, 0, 1],
        "annotator": ["ann", "bob", "bob"],
    }
    assert table.privileged == ("annotator",)


def test_columns_that_are_no_labels():
    table = pd.DataFrame({"id": range(150), "x": np.linspace(0, 1, 150), "ann": [0, 1] * 75})
    with pytest.raises(ValueError, match="`annotators` to name the columns of labels, since no columns of the table"):
        to_long(table)
    with pytest.raises(ValueError, match="`annotators` to name a column of the table, but got 'anna': did you mean"):
        to_long(table, annotators=["anna"])
    found = to_long(table.assign(bob=1, age=range(20, 170)))
    assert sorted(found.frame["annotator"].unique()) == ["ann", "bob"]
    assert found.notes == ["Annotators: ann, bob; inputs: x, age."]
    with pytest.raises(ValueError, match="`example` to name a column"):
        to_long(table, example="ids")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_annotators_whose_labels_differ_in_type(suffix, tmp_path):
    table = pd.DataFrame({"ann": [0, 1, None], "bob": pd.array([0, 1, 1], "Int64"), "eve": ["1", "?", None]})
    read = {"csv": partial(pd.read_csv, dtype=str), "parquet": pd.read_parquet}[suffix]
    to_long(table).save(tmp_path / f"long.{suffix}")
    assert read(tmp_path / f"long.{suffix}")["label"].tolist() == ["0", "0", "1", "1", "1", "?", "1"]


def test_minus_one_may_be_a_class():
    assert to_long(pd.DataFrame([[-1, 1], [1, -1]])).frame["label"].tolist() == [-1, 1, 1, -1]


def test_tables_of_other_libraries():
    table = pd.DataFrame({"id": ["p", "q"], "ann": ["a", "b"], "bob": ["b", "b"]})
    pd.testing.assert_frame_equal(to_long(pl.from_pandas(table)).frame, to_long(table).frame)


def test_other_answers_of_annotators_are_privileged():
    columns = {"id": ["p", "q"], "ann": ["x", "y"], "ann_sure": [5, 1], "bob": ["x", "x"], "bob_sure": [2, None]}
    table = to_long(pd.DataFrame({**columns, "size_ann": [1.5, 2.5]}))
    assert table.privileged == ("annotator", "sure")
    assert table.frame["label"].tolist() == ["x", "x", "y", "x"]
    assert table.frame["sure"].fillna(-1).tolist() == [5, 2, 1, -1]
    assert table.notes == ["Annotators: ann, bob; other answers: sure; inputs: size_ann."]


@pytest.mark.parametrize("form", ["{who}_{question}", "{question} {who}"])
def test_questions_that_name_their_annotators(form):
    cells = {"ann": {"mood": ["x", "y"], "sure": [5, 1]}, "bob": {"mood": ["y", "y"], "sure": [2, 3]}}
    columns = {form.format(who=who, question=q): cells[who][q] for who in cells for q in cells[who]}
    frame = pd.DataFrame({"id": ["p", "q"], "size": [1, 2], **columns})
    table = to_long(frame, annotators=["ann", "bob"])
    assert table.frame[["label", "annotator", "sure"]].to_numpy().tolist() == [
        ["x", "ann", 5],
        ["y", "bob", 2],
        ["y", "ann", 1],
        ["y", "bob", 3],
    ]
    assert table.notes[0] == "Labels: mood, the first of the questions; `label` can name sure."
    other = to_long(frame, annotators=["ann", "bob"], label="sure")
    assert (other.frame["label"].tolist(), other.privileged) == ([5, 2, 1, 3], ("annotator", "mood"))
    with pytest.raises(ValueError, match="`label` to be one of the questions 'mood', 'sure', but got 'size'"):
        to_long(frame, annotators=["ann", "bob"], label="size")
    with pytest.raises(ValueError, match="`label` to name a question"):
        to_long(pd.DataFrame({"id": [1, 2], "ann": [0, 1], "bob": [1, 1]}), label="ann")
    with pytest.raises(ValueError, match="'eve'"):
        to_long(frame, annotators=["ann", "bob", "eve"])
