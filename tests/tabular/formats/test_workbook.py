import sys

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest

from lupi.tabular.formats import open_file


def test_the_first_sheet_is_read(tmp_path):
    path = tmp_path / "t.xlsx"
    table = pd.DataFrame({"id": ["007", "008"], "age": [20, None], "day": pd.to_datetime(["2024-05-01", "2024-05-02"])})
    with pd.ExcelWriter(path) as writer:
        table.to_excel(writer, sheet_name="labels", index=False)
        table.drop(columns="id").to_excel(writer, sheet_name="other", index=False)
    opened = open_file(path)
    assert opened.schema.names == ["id", "age", "day"]
    rows = opened.read(["id", "age"]).to_pylist()
    assert rows == [{"id": "007", "age": 20}, {"id": "008", "age": None}]
    assert pa.types.is_timestamp(opened.schema.field("day").type)
    assert opened.count_rows() == 2


def test_the_same_strings_are_missing_as_in_csv_files(tmp_path):
    labels = {"label": ["None", "NA", "n/a", None, "null", "?"], "row": [1, 2.5, "NA", "", 5, "nan"]}
    table = pd.DataFrame(labels)
    table.to_excel(tmp_path / "t.xlsx", index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    sheet, text = (open_file(tmp_path / f"t.{suffix}") for suffix in ("xlsx", "csv"))
    expected = labels | {"row": [1, 2.5, None, None, 5, None]}
    assert sheet.read(["label", "row"]).to_pydict() == text.read(["label", "row"]).to_pydict() == expected
    assert sheet.note == text.note
    assert sheet.note.startswith("Missing: 'NA' in 1 row of 'row', 'nan' in 1 row of 'row'. Not missing but a value:")


@pytest.mark.parametrize("number", [6.022e23, 1e20, -1e19, 2**63])
def test_large_numbers(tmp_path, number):
    """A workbook stores 1e20 as digits, which Python reads as an integer."""
    book = openpyxl.Workbook()
    for row in [["x", "label"], [number, "yes"], [1, "no"], [None, "no"]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert open_file(tmp_path / "t.xlsx").read(["x"]).to_pydict() == {"x": [float(number), 1, None]}


def test_names_may_be_numbers(tmp_path):
    book = openpyxl.Workbook()
    for row in [[2023, "label"], [1.5, "yes"]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert open_file(tmp_path / "t.xlsx").read(["2023", "label"]).to_pylist() == [{"2023": 1.5, "label": "yes"}]


def test_a_file_that_is_no_workbook(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"t\.xlsx to be a readable table, but got"):
        open_file(tmp_path / "t.xlsx")


def test_the_extra_is_missing(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"Expected the extra `excel` \(pip install 'lupi\[excel\]'\)"):
        open_file(tmp_path / "t.xlsx")


def test_numbers_beside_strings_are_texts_as_in_csv_files(tmp_path):
    table = pd.DataFrame({"code": [7, "x1", None, 2.5, "007"], "row": range(5)})
    table.to_excel(tmp_path / "t.xlsx", index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    sheet, text = (open_file(tmp_path / f"t.{suffix}").read(["code", "row"]).to_pydict() for suffix in ("xlsx", "csv"))
    assert sheet == text == {"code": ["7", "x1", None, "2.5", "007"], "row": [0, 1, 2, 3, 4]}


def test_columns_without_a_name_and_with_one_name(tmp_path):
    book = openpyxl.Workbook()
    for row in [["size", None, "label"], [1, 5, "yes"], [2, 6, "no"]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert open_file(tmp_path / "t.xlsx").read(["size", "Unnamed: 1"]).to_pydict() == {
        "size": [1, 2],
        "Unnamed: 1": [5, 6],
    }
    book.active["B1"] = "size"
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(ValueError, match=r"t\.xlsx to have distinct column names, but got 'size' twice\.$"):
        open_file(tmp_path / "t.xlsx")
