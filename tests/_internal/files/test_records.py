import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi._internal.files import is_formula, to_csv


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("x")', "-", "=", "＝1", "＠x"]
)
def test_what_spreadsheets_run_is_written_as_text(text):
    table = pd.read_csv(io.StringIO(to_csv(pd.DataFrame({"name": [text, "ann"]}))), keep_default_na=False)
    assert table["name"].tolist() == ["'" + text.replace("\r", "\n"), "ann"]


@pytest.mark.parametrize("text", ["-5", "+5.5", "-1e-3", "-.5", "ann", "a=b", "", " =1", "'=1", "-inf", "5-3"])
def test_numbers_and_other_texts_stay_as_they_are(text):
    assert not is_formula(text)
    assert pd.read_csv(io.StringIO(to_csv(pd.DataFrame({"name": [text]}))), dtype=str, keep_default_na=False)[
        "name"
    ].tolist() == [text]


def test_names_of_columns_and_rows_are_texts_too():
    table = pd.DataFrame({"=1+1": [1.5]}, index=pd.Index(["@x"], name="method"))
    assert to_csv(table.reset_index()) == "method,'=1+1\n'@x,1.5\n"


def test_numbers_keep_their_type():
    table = pd.DataFrame({"a": [-1.5, np.nan], "b": [-1, 2], "c": pd.Categorical(["=x", "y"]), "d": ["=z", None]})
    assert to_csv(table) == "a,b,c,d\n-1.5,-1,'=x,'=z\n,2,y,\n"


@given(st.lists(st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_no_cell_starts_a_formula_and_the_apostrophe_is_all_that_changes(names):
    back = pd.read_csv(io.StringIO(to_csv(pd.DataFrame({"name": names}))), dtype=str, keep_default_na=False)["name"]
    assert len(back) == len(names)
    for name, cell in zip(names, back, strict=True):
        assert cell in (name, f"'{name}")
        assert not is_formula(cell)
