import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lupi.tabular import TableSpec
from lupi.tabular.columns import InputColumn, Schema, check_matches, clean_inputs
from lupi.tabular.containers import to_pandas
from lupi.tabular.recognizing import check_kinds, check_types, find_annotator, recognise_inputs, recognise_privileged
from lupi.tabular.roles import Roles
from lupi.tabular.targets import choose_task, find_unlabelled


def spec_of(**options):
    return TableSpec(**{"table": Path("t.csv"), "target": ["label"]} | options)


def roles_of(inputs, **others):
    return Roles(**{"target": ("y",), "inputs": tuple(inputs)} | others)


def kinds(frame, given=None, **others):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    found, notes = recognise_inputs(to_pandas(table), table.schema, roles_of(frame, **others), given or {})
    return {name: column.kind for name, column in found.items()}, notes


def test_what_is_not_named_is_input():
    names = ["id", "age", "worker", "label", "gold", "city"]
    roles = Roles.of(spec_of(target=["label"], privileged=["worker"], example="id", ignore=["gold"]), names)
    assert roles.inputs == ("age", "city")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": []}, "`target`.*none"),
        ({"target": ["labl"]}, "`target`.*'labl'.*'label'"),
        ({"privileged": ["?"]}, r"`privileged`.*'\?'.*age, worker, label"),
        ({"example": "label"}, "'label'.*`target` and `example`"),
        ({"privileged": ["worker", "worker"]}, "'worker'.*`privileged` and `privileged`"),
        ({"gold": "label"}, "'label'.*`target` and `gold`"),
        ({"gold": "worker", "annotator": "worker"}, "'worker'.*`gold` and `annotator`"),
        ({"annotator": "label"}, "'label'.*`target` and `annotator`"),
        ({"gold": "?"}, r"`gold`.*'\?'"),
        ({"annotator": "?"}, r"`annotator`.*'\?'"),
        ({"ignore": ["age", "worker"]}, "to be inputs"),
    ],
)
def test_roles_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        Roles.of(spec_of(**{"target": ["label"]} | options), ["age", "worker", "label"])


def test_an_annotator_is_privileged_and_gold_is_ignored():
    names = ["age", "worker", "label", "truth"]
    roles = Roles.of(spec_of(annotator="worker", gold="truth"), names)
    assert (roles.privileged, roles.ignored, roles.inputs) == (("worker",), ("truth",), ("age",))
    assert Roles.of(spec_of(annotator="worker", ignore=["worker", "truth"], gold="truth"), names).privileged == ()


@pytest.mark.parametrize(("column", "kind"), [("age", ""), ("age", "boolean"), ("label", "text"), ("agee", "text")])
def test_kinds_that_cannot_be_chosen(column, kind):
    with pytest.raises(ValueError, match=f"`kind`.*{column!r}"):
        check_kinds({column: kind}, ["age", "label"], Roles(target=("label",), inputs=("age",)))


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


def test_kinds_are_recognised():
    n = 60
    frame = pd.DataFrame(
        {
            "size": np.linspace(0, 1, n),
            "count": np.arange(n) % 7,
            "open": np.arange(n) % 2 == 0,
            "city": np.array(["Bern", "Rome", "New York"])[np.arange(n) % 3],
            "review": [f"this is the review of number {i}" for i in range(n)],
            "day": pd.date_range("2020-01-01", periods=n),
        }
    )
    expected = {
        "size": "number",
        "count": "number",
        "open": "boolean",
        "city": "category",
        "review": "text",
        "day": "number",
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


def test_identifiers_are_counted_by_example():
    """Ten annotations each: one row in ten is distinct, but every example is."""
    frame = pd.DataFrame({"file": np.repeat([f"f{i}" for i in range(50)], 10), "example": np.repeat(range(50), 10)})
    assert kinds(frame[["file"]])[0] == {"file": "category"}
    table = pa.Table.from_pandas(frame)
    with pytest.raises(ValueError, match=r"'file' has 50 distinct strings in 50 examples.*`ignore`"):
        recognise_inputs(frame, table.schema, roles_of(["file"], example="example"), {})


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


def test_lists_of_numbers_are_recognised_and_lists_of_strings_are_no_inputs():
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
    roles = roles_of(["x"], privileged=tuple(frame))
    found, notes = recognise_privileged(frame, pa.Schema.from_pandas(frame), roles, {})
    assert found == {
        "annotator": "category",
        "seconds": "number",
        "day": "number",
        "sure": "category",
        "name": "category",
        "rater": "number",
    }
    (note,) = notes
    assert note.startswith("Privileged column 'annotator' holds integers that look like ids")
    changed, notes = recognise_privileged(
        frame, pa.Schema.from_pandas(frame), roles, {"annotator": "number", "seconds": "category"}
    )
    assert (changed["annotator"], changed["seconds"], notes) == ("number", "category", [])
    assert recognise_privileged(frame, pa.Schema.from_pandas(frame), roles, {"name": "text"})[0]["name"] == "text"
    with pytest.raises(ValueError, match=r"'seconds' to be strings to be read as text, but it is number"):
        recognise_privileged(frame, pa.Schema.from_pandas(frame), roles, {"seconds": "text"})


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
    frame = PRIVILEGED[[column]]
    roles = roles_of(["x"], privileged=(column,))
    assert recognise_privileged(frame, pa.Schema.from_pandas(frame), roles, {})[0] == {column: kind}


@pytest.mark.parametrize("column", ["assignment", "session_id"])
def test_privileged_identifiers_are_refused(column):
    frame = PRIVILEGED[[column]]
    schema, roles = pa.Schema.from_pandas(frame), roles_of(["x"], privileged=(column,))
    message = rf"privileged columns without identifiers, but '{column}' has 50 distinct values in 50 rows: .*`ignore`"
    with pytest.raises(ValueError, match=message):
        recognise_privileged(frame, schema, roles, {})
    assert recognise_privileged(frame, schema, roles, {column: "category"})[0] == {column: "category"}
    assert recognise_privileged(frame, schema, roles, {}, annotator=column)[0] == {column: "category"}


def test_values_get_the_types_of_their_kinds():
    frame = pd.DataFrame({"zip": [8001.0, 3011.0], "price": ["1.5", "2"], "open": [True, False]})
    inputs = {
        "zip": InputColumn("category", "number"),
        "price": InputColumn("number", "string"),
        "open": InputColumn("boolean", "boolean"),
    }
    prepared = clean_inputs(frame, inputs)
    assert prepared["zip"].tolist() == ["8001", "3011"]
    assert prepared["price"].tolist() == [1.5, 2.0]
    assert prepared["open"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "kind", "stored", "message"),
    [
        (["x", None], "category", "string", "^Expected input column 'a' to have a value in every row, but row 101 has"),
        (
            ["x", None],
            "text",
            "string",
            "^Expected input column 'a' to have a value in every row, but row 101 has none",
        ),
        (["1", "x"], "number", "string", "^Expected input column 'a' to be finite numbers, but got 'x' in row 101.$"),
        ([1.0, np.inf], "number", "number", "'a'.*'inf' in row 101"),
    ],
)
def test_values_that_are_missing_or_no_numbers(values, kind, stored, message):
    with pytest.raises(ValueError, match=message):
        clean_inputs(pd.DataFrame({"a": values}), {"a": InputColumn(kind, stored)}, range(100, 102))


@pytest.mark.parametrize(
    ("values", "stored"),
    [([1.5, None], "number"), (["1.5", None], "string"), (pd.array([2, None], "Int64"), "number")],
)
def test_numbers_may_be_missing(values, stored):
    column = clean_inputs(pd.DataFrame({"a": values}), {"a": InputColumn("number", stored)})["a"]
    assert column.isna().tolist() == [False, True]
    assert column.iloc[0] == float(values[0])


@pytest.mark.parametrize(
    ("labels", "classes", "unlabelled"),
    [
        ([0, 1, -1, 2], True, [2]),
        ([0, 1, -1, 2], False, []),  # real numbers
        ([0.0, 1.0, -1.0, np.nan], True, [2, 3]),
        ([-1, 1, 1, -1], True, []),
        ([-1, 0, 0, -1], True, []),  # nothing would be left to tell apart
        ([-2, -1, 0, 1], True, []),  # a scale
        ([-1, 0.5, 1, 2], True, []),
        (["-1", "a", "b", None], True, [3]),
        ([True, False, None, True], True, [2]),
        (pd.array([0, 1, -1, None], "Int64"), True, [2, 3]),
    ],
)
def test_rows_without_a_label(labels, classes, unlabelled):
    found = find_unlabelled(pd.DataFrame({"y": labels}), classes=classes)
    assert np.flatnonzero(found).tolist() == unlabelled


def test_several_targets_are_missing_together():
    labels = pd.DataFrame({"a": [0, 1, None, None], "b": [-1, 1, None, 0]})
    assert find_unlabelled(labels, classes=True).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("kind", "stored", "now", "good"),
    [
        ("number", "number", pa.int32(), True),
        ("number", "number", pa.bool_(), True),
        ("boolean", "boolean", pa.int64(), True),
        ("number", "number", pa.string(), False),
        ("number", "date", pa.int64(), False),
        ("category", "string", pa.dictionary(pa.int32(), pa.string()), True),
        ("category", "number", pa.string(), True),
        ("category", "string", pa.int64(), False),
        ("category", "boolean", pa.int64(), False),
        ("text", "string", pa.large_string(), True),
        ("number", "number", pa.null(), True),  # empty in the beginning of a CSV file
        ("text", "string", pa.int64(), False),
    ],
)
def test_types_as_in_training(kind, stored, now, good):
    schema, inputs = pa.schema({"a": now}), {"a": InputColumn(kind, stored)}
    if good:
        check_matches(schema, inputs, "t.parquet")
    else:
        with pytest.raises(
            ValueError, match=f"^Expected column 'a' of t.parquet to be a {stored} as in training, but "
        ):
            check_matches(schema, inputs, "t.parquet")
    if stored == "string":  # digits in a CSV file can be strings
        check_matches(schema, inputs, "t.csv")


def test_columns_as_in_training():
    inputs = dict.fromkeys(["a", "b", "c"], InputColumn("number", "number"))
    with pytest.raises(
        ValueError, match=r"^Expected t to have the model's input columns, but it has no 'b' and 1 more\.$"
    ):
        check_matches(pa.schema({"a": pa.int64()}), inputs, "t")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        ([0, 1], "classification"),
        ([1.0, 3.0], "classification"),
        ([0.5, 1.0], "regression"),
        (range(101), "regression"),
        (range(100), "classification"),
    ],
    ids=str,
)
def test_the_task_follows_the_target(values, task):
    frame = pd.DataFrame({"y": values})
    assert choose_task(frame, ["y"], None)[0] == task
    assert choose_task(frame, ["y"], "classification") == ("classification", "as `task` says")
    if not isinstance(values[0], str):
        assert choose_task(frame, ["y"], "regression")[0] == "regression"


@pytest.mark.parametrize(
    ("columns", "task", "message"),
    [
        ({"y": [0.5, np.inf]}, None, "'y' to be finite, but row 1 is infinite"),
        ({"y": ["a", None]}, None, "^Expected target 'y' to have a value in every row, but row 1 has none.$"),
        ({"y": [3.0, 3.0]}, None, "^Expected target 'y' to have at least two values, but all are '3'.$"),
        ({"y": [0, 1], "z": [0, 2]}, None, "^Expected several targets to be 0 or 1, but 'z' has '2' in row 1.$"),
        ({"y": [0, 1], "z": [1, 0]}, "regression", "^Expected one target for regression, but got 2.$"),
        ({"y": ["a", "b"]}, "regression", "^Expected target 'y' to be numbers for regression, but got 'a'.$"),
        ({"y": [0, 1]}, "ranking", "`task`.*'ranking'"),
    ],
)
def test_targets_that_make_no_sense(columns, task, message):
    with pytest.raises(ValueError, match=message):
        choose_task(pd.DataFrame(columns), list(columns), task)


def test_several_targets():
    frame = pd.DataFrame({"y": [0, 1], "z": [True, False]})
    assert choose_task(frame, ["y", "z"], None) == ("classification", "2 targets of 0 and 1")


def test_a_schema_comes_back_from_json():
    roles = Roles(target=("y",), privileged=("worker",), example="id", ignored=("gold",), inputs=("age", "city"))
    inputs = {"age": InputColumn("number", "number"), "city": InputColumn("category", "string")}
    schema = Schema(roles, "classification", inputs, {"worker": "category"})
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert schema.csv_types(["id"]) == {"id": pa.string(), "age": pa.float64(), "city": pa.string()}
