from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lupi.tabular import TableSpec, table_data
from lupi.tabular.frames import Columns
from lupi.tabular.recognizing import (
    PYTHON_ADVICE,
    TABLE_ADVICE,
    check_kinds,
    check_types,
    find_annotator,
    find_notation,
    note_ids,
    recognize_inputs,
    recognize_privileged,
)
from lupi.tabular.spec import Roles


def kinds(frame, given=None, example=None):
    """Kinds of the columns of a file, and notes on them; a DataFrame has the same kinds."""
    inputs = tuple(name for name in frame if name != example)
    spec = TableSpec(table=Path("t"), target=["y"], kind=given or {}, example=example)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    roles = Roles(target=("y",), inputs=inputs, example=example)
    found, notes = table_data.describe_inputs(spec, Columns.of(table), table.schema, roles)
    of_file = {name: column.kind for name, column in found.items()}
    if example is None:
        assert recognize_inputs(frame, given or {}, PYTHON_ADVICE)[0] == of_file
    return of_file, notes


def privileged_kinds(frame, given=None, **others):
    return recognize_privileged(frame, given or {}, TABLE_ADVICE, **others)


@pytest.mark.parametrize(("column", "kind"), [("age", ""), ("age", "numbr"), ("agee", "text")])
def test_kinds_that_cannot_be_chosen(column, kind):
    with pytest.raises(ValueError, match=f"`kind`.*{column!r}"):
        check_kinds({column: kind}, ["age", "label"], "the table")


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"seconds": [1, 2, 1, 2], "worker": list("abab"), "rater": list("abba")}, "worker"),  # the first
        ({"workers": list("abab")}, None),  # not so named
        ({"worker": list("abcd")}, None),  # each value once
        ({"worker": list("aaaa")}, None),  # one value
        ({"worker": [1, 2, 1, 2]}, "worker"),
        ({"worker": [0.5, 2, 0.5, 2]}, None),  # a quantity
        ({"last_seen_by_user": pd.to_datetime(["2020-01-01", "2021-01-01"] * 2)}, None),
        ({"worker": [True, False, True, False]}, "worker"),
    ],
)
def test_annotators_are_found_by_name_and_values(columns, found):
    frame = pd.DataFrame(columns)
    assert find_annotator(frame, {}) == found
    assert find_annotator(frame, dict.fromkeys(frame, "number")) is None
    assert find_annotator(frame.iloc[:, ::-1], {"rater": "number"}) == found


def test_kinds_are_recognized():
    n = 60
    frame = pd.DataFrame(
        {
            "size": np.linspace(0, 1, n),
            "count": np.arange(n) % 7,
            "open": np.arange(n) % 2 == 0,
            "city": np.array(["Bern", "Rome", "New York"])[np.arange(n) % 3],
            "review": [f"this is the review of number {i}" for i in range(n)],
            "day": pd.date_range("2020-01-01", periods=n),
            "date": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
        }
    )
    expected = {
        "size": "number",
        "count": "number",
        "open": "boolean",
        "city": "category",
        "review": "text",
        "day": "number",
        "date": "number",
    }
    assert kinds(frame) == (expected, [])
    assert kinds(frame, {"count": "category", "review": "category"})[0] == expected | {
        "count": "category",
        "review": "category",
    }


@pytest.mark.parametrize("values", [[f"q{i}" for i in range(100)], ["q0", "q0", *(f"q{i}" for i in range(98))]])
def test_strings_that_are_identifiers(values):
    frame = pd.DataFrame({"key": values})
    with pytest.raises(ValueError, match=r"'key'.*distinct strings"):
        kinds(frame)
    assert kinds(frame, {"key": "category"})[0] == {"key": "category"}


def test_numbers_in_another_notation_are_not_called_identifiers():
    amounts = pd.DataFrame({"amount": [f"{i:,}" for i in range(5000, 5100)]})
    wanted = r"'amount' to be plain numbers.* '5,000': write them like 1234\.5 .* or, if .* identifier, name it in `ex"
    with pytest.raises(ValueError, match=wanted):
        kinds(amounts)
    assert kinds(amounts, {"amount": "category"}) == ({"amount": "category"}, [])
    with pytest.raises(ValueError, match=r"privileged column 'amount' to be plain numbers.* '5,000'.*`ignore`"):
        privileged_kinds(amounts)


def test_identifiers_are_counted_by_example():
    """Ten annotations each: one row in ten is distinct, but every example is."""
    frame = pd.DataFrame({"file": np.repeat([f"f{i}" for i in range(50)], 10), "example": np.repeat(range(50), 10)})
    assert kinds(frame[["file"]])[0] == {"file": "category"}
    with pytest.raises(ValueError, match=r"'file' has 50 distinct strings in 50 examples.*`ignore`"):
        kinds(frame, example="example")


def test_many_strings_are_no_category():
    names = [f"w{i % 1500}" for i in range(6000)]
    with pytest.raises(ValueError, match=r"'name' has 1,500 distinct strings in 6,000 examples"):
        kinds(pd.DataFrame({"name": names}))


def test_numbers_that_are_identifiers():
    frame = pd.DataFrame({"worker_id": [3, 4, 3]})
    with pytest.raises(ValueError, match=r"`kind=\{'worker_id': 'number'\}`"):
        kinds(frame)
    assert kinds(frame, {"worker_id": "number"})[0] == {"worker_id": "number"}


def test_notes_for_a_second_look():
    frame = pd.DataFrame({"sentence": np.repeat(range(30), 3), "x": np.repeat(np.linspace(0, 1, 30), 3)})
    _, notes = kinds(frame)
    assert [note.split("'")[1] for note in notes] == ["sentence"]
    assert kinds(frame[["x"]])[1] == []


def test_an_id_of_letters_that_was_not_named_is_noted():
    x = np.repeat(np.linspace(0, 1, 30), 3)
    frame = pd.DataFrame({"photo": np.repeat([f"p{i}" for i in range(30)], 3), "x": x})
    (note,) = kinds(frame)[1]
    assert "'photo' has a different value in nearly every example" in note
    assert "`example`" in note
    assert kinds(frame[["photo"]])[1] == [], "the only input may be a category"
    assert kinds(frame.assign(x=np.arange(90.0)))[1] == [], "a category of several examples"


@pytest.mark.parametrize("name", ["gold", "Gold", "gold_label", "truth", "ground_truth", "GroundTruth", "true_label"])
def test_true_labels_are_no_inputs(name):
    frame = pd.DataFrame({"x": [0.5, 1.5], name: [0, 1]})
    with pytest.raises(
        ValueError, match=rf"without true labels, but '{name}' .* `ignore`.*`kind=\{{'{name}': 'number'"
    ):
        kinds(frame)
    assert kinds(frame, {name: "number"})[0][name] == "number"


@pytest.mark.parametrize("name", ["golden_retriever", "goldfish", "truthful", "label_count"])
def test_names_that_only_contain_the_word(name):
    assert kinds(pd.DataFrame({name: [0.5, 1.5]}))[0] == {name: "number"}


@pytest.mark.parametrize("values", [[f"[{i}.5, 1.5]" for i in range(40)], [f"[{i}.5 1.5]" for i in range(40)]])
def test_strings_of_lists_are_vectors_if_users_say_so(values):
    with pytest.raises(ValueError, match=r"input column 'v'.*list.*; pass `kind=\{'v': 'vector'\}`") as caught:
        kinds(pd.DataFrame({"v": values}))
    assert "ignore" not in str(caught.value)
    assert kinds(pd.DataFrame({"v": values}), {"v": "vector"})[0] == {"v": "vector"}


def test_lists_of_numbers_are_recognized_and_lists_of_strings_are_no_inputs():
    assert kinds(pd.DataFrame({"v": [[0.5, 1.5], [2.5, 3.5]]}))[0] == {"v": "vector"}
    with pytest.raises(ValueError, match=r"input column 'v'.*list.* to a column of its own\.$"):
        kinds(pd.DataFrame({"v": [["a", "b"]] * 20}))


def test_types_that_kinds_cannot_read():
    with pytest.raises(ValueError, match=r"'n'.*text.*number"):
        kinds(pd.DataFrame({"n": [1, 2]}), {"n": "text"})
    schema = pa.schema({"v": pa.list_(pa.int64())})
    with pytest.raises(ValueError, match=r"target column 'v'.*it is vector"):
        check_types(schema, ["v"], "target", ("number", "string"))


def test_privileged_kinds():
    frame = pd.DataFrame(
        {
            "annotator": [1, 2, None],
            "seconds": [3, 4, 5],
            "day": pd.date_range("2020", periods=3),
            "sure": [True, False, True],
            "name": list("abc"),
            "rater": [0.5, 1, 2],
        }
    )
    found, notes = privileged_kinds(frame)
    assert found == {
        "annotator": "category",
        "seconds": "number",
        "day": "number",
        "sure": "boolean",
        "name": "category",
        "rater": "number",
    }
    assert notes == []
    (note,) = note_ids(frame, found, [])
    assert note.startswith("Privileged column 'annotator' holds integers that look like ids")
    chosen = {"annotator": "number", "seconds": "category"}
    changed, notes = privileged_kinds(frame, chosen)
    assert (changed["annotator"], changed["seconds"], notes) == ("number", "category", [])
    assert note_ids(frame, changed, chosen) == []
    assert privileged_kinds(frame, {"name": "text"})[0]["name"] == "text"
    with pytest.raises(ValueError, match=r"'seconds' to be strings to be read as text, but it is number"):
        privileged_kinds(frame, {"seconds": "text"})
    with pytest.raises(ValueError, match=r"privileged column 'name' to be of another kind, but got `kind=.*'image'"):
        privileged_kinds(frame, {"name": "image"})


PRIVILEGED = pd.DataFrame(
    {
        "comment": [f"this is comment {i}" for i in range(50)],
        "reason": ["I am not sure", "it is quite clear"] * 25,
        "worker": [f"Ann Mary Smith {i}" for i in range(25)] * 2,
        "assignment": [f"A{i:03}" for i in range(50)],
        "session_id": range(50),
    }
)


@pytest.mark.parametrize(("column", "kind"), [("comment", "text"), ("reason", "category"), ("worker", "category")])
def test_comments_are_text_but_names_are_not(column, kind):
    assert privileged_kinds(PRIVILEGED[[column]])[0] == {column: kind}


@pytest.mark.parametrize("column", ["assignment", "session_id"])
def test_privileged_identifiers_are_refused(column):
    frame = PRIVILEGED[[column]]
    message = rf"privileged columns without identifiers, but '{column}' has 50 distinct values in 50 rows: .*`ignore`"
    with pytest.raises(ValueError, match=message):
        privileged_kinds(frame)
    assert privileged_kinds(frame, {column: "category"})[0] == {column: "category"}
    assert privileged_kinds(frame, annotator=column)[0] == {column: "category"}


def test_categories_of_several_examples_are_not_noted_as_ids():
    product = np.repeat([f"p{i}" for i in range(50)], 20)
    frame = pd.DataFrame({"product": product, "price": np.repeat(np.arange(50.0), 20), "id": np.arange(1000)})
    assert kinds(frame, example="id")[1] == []
    assert len(kinds(frame[["product", "price"]])[1]) == 1, "without an id, it may be one"


# -------------------------------------------------------------------------------- other notations


def looks_like_numbers(values, name="x"):
    return find_notation(pd.Series(values, name=name, dtype=object)) is not None


@pytest.mark.parametrize(
    "values",
    [
        ["1,234", "5", "10,000"],
        ["1.500,00", "2.000,00", "3.000,00"],
        ["12 kg", "7.5 kg", None, "80 kg"],
        ["35 %", "40 %", "1%"],
        ["€9.90", "€1.00", "€2.50"],
        ["31.12.2026", "1.1.2026", "2.1.2026"],
        ["12/31/2026", "1/13/2026", "2/1/2026"],
        ["2026/12/31", "2026/1/1", "2026/1/2"],
        ["31.12.2026 10:30", "1.1.2026 9:00", "2.1.2026 17:45"],
        ["n.a.", *(f"{i} kg" for i in range(30))],
    ],
    ids=lambda values: values[0],
)
def test_numbers_and_dates(values):
    assert looks_like_numbers(values)
    assert not looks_like_numbers(values, "worker_id")


@pytest.mark.parametrize(
    "values",
    [
        ["ann", "bob", "eve"],
        ["1", "2.5", "-3e4"],
        ["12a", "12b", "13", "14c"],  # numbers of houses
        ["8001 Bern", "3011 Rome", "1000 Oslo"],
        ["1.2.3", "1.2.4", "2.0.0"],
        ["192.168.0.1", "10.0.0.1", "10.0.0.2"],
        ["18-24", "25-34", "35-44"],
        ["079 123 45 67", "079 765 43 21", "078 111 22 33"],
        ["13.12.2026", "12.13.2026", "1.2.2026", "14.12.2026"],  # no order is valid for all
        ["12 kg", "7 kg", "unknown", "heavy", "light"],
        ["5 kg", "10 kg"],  # too few to tell
    ],
    ids=lambda values: values[0],
)
def test_names_and_codes(values):
    assert not looks_like_numbers(values)
