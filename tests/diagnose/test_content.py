import pandas as pd

from lupi.diagnose.content import add_content, choose_content
from lupi.tabular import TableSpec
from lupi.tabular.columns import InputColumn

TEXT, NUMBER = InputColumn("text", "string"), InputColumn("number", "number")


def test_content_is_that_of_the_rows_of_the_file(tmp_path):
    pd.DataFrame({"x": [1, 2, 3], "given": ["a b", "c d", "e f"], "y": [0, 1, 0]}).to_csv(tmp_path / "t.csv")
    labels = pd.DataFrame({"row": [2, 0], "given": [0, 0], "wrong": [0.9, 0.1]})
    found = add_content(labels, TableSpec(table=tmp_path / "t.csv", target=["y"]), {"x": NUMBER, "given": TEXT})
    assert found["input_given"].tolist() == ["e f", "a b"]  # a name that the table of labels has is told apart
    assert found["x"].tolist() == ["3", "1"]
    assert found["given"].tolist() == [0, 0]


def test_tables_of_labels_without_inputs_stay_as_they_are():
    assert choose_content({}) == []
    assert choose_content({f"x{i}": NUMBER for i in range(9)}) == ["x0", "x1", "x2"]
