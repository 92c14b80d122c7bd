from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lupi.tabular.dataset import fingerprint, read_annotations
from lupi.tabular.features import encode_columns, fit_encoders

from lupi.tabular import InputEncoder, TableSpec, read_dataset
from lupi.tabular import reading as module
from lupi.tabular.schema import InputColumn

TABLE = pd.DataFrame(
    {
        "id": ["007", "007", "008", "009"] * 6,
        "size": [0.5, 0.5, 1.5, 2.5] * 6,
        "annotator": ["ann", "bob", None, "ann"] * 6,
        "seconds": [3, 4, 5, 6] * 6,
        "label": ["no", "yes", "yes", "no"] * 6,
        "truth": ["no", "no", "yes", None] * 6,
    }
)


@pytest.fixture
def spec_of(tmp_path):
    def make(table=TABLE, name="table.csv", **options):
        table.to_csv(tmp_path / name, index=False)
        given = {"target": ["label"], "privileged": ["annotator,seconds"], "example": "id", "ignore": ["truth"]}
        return TableSpec(**{"table": tmp_path / name, **given, **options})

    return make


def test_a_table_becomes_arrays(spec_of):
    data = read_dataset(spec_of())
    assert (data.task, data.classes) == ("classification", ("no", "yes"))
    assert data.train.y[:4].tolist() == [0, 1, 1, 0]
    assert data.train.example[:4].tolist() == [0, 0, 1, 2]
    assert list(data.train.X) == ["size"]
    assert list(data.privileged) == ["annotator", "seconds"]
    assert data.ids[:3].tolist() == ["007", "007", "008"]
    assert data.test is None
    assert data.gold is None


def test_a_column_without_a_name_is_an_input(spec_of):
    assert list(read_dataset(spec_of(TABLE.rename(columns={"size": ""}))).train.X) == [""]


def test_the_table_is_read_once_with_gold_and_annotators(spec_of, monkeypatch):
    spec = spec_of(gold="truth", annotator="annotator")
    reads = []
    monkeypatch.setattr(
        "lupi.tabular.dataset.open_columns", lambda *a, **k: reads.append(a) or module.open_columns(*a, **k)
    )
    data = read_dataset(spec)
    assert len(reads) == 1
    assert data.annotators[:4].tolist() == ["ann", "bob", "(missing)", "ann"]
    assert data.gold[:3].tolist() == ["no", "no", "yes"]
    assert "truth" in data.schema.roles.ignored


def test_an_annotator_may_be_ignored_as_privileged_information(spec_of):
    data = read_dataset(spec_of(privileged=["seconds"], annotator="annotator", ignore=["truth", "annotator"]))
    assert list(data.privileged) == ["seconds"]
    assert data.annotators[0] == "ann"


def test_an_annotator_among_the_inputs_is_pointed_out(tmp_path):
    table = pd.DataFrame({"x": np.arange(8.0), "worker": list("abab") * 2, "s": np.arange(8.0), "y": list("no") * 4})
    table.to_csv(tmp_path / "t.csv", index=False)
    spec = TableSpec(table=tmp_path / "t.csv", target=["y"], privileged=["s"])
    (line,) = [line for line in read_dataset(spec).choices if line.startswith("Annotators")]
    assert "Input column 'worker' has such a name; if you do not know it" in line
    (line,) = [line for line in read_dataset(replace(spec, ignore=["worker"])).choices if line.startswith("Annotators")]
    assert "Input column" not in line


def test_classes_that_differ_in_spelling_are_noted(tmp_path):
    table = pd.DataFrame({"x": np.arange(8.0), "y": ["ja", "nein", "Ja", "nein"] * 2})
    table.to_csv(tmp_path / "t.csv", index=False)
    spec = TableSpec(table=tmp_path / "t.csv", target=["y"])
    assert any("Classes 'Ja' and 'ja' differ only in case or spaces" in note for note in read_dataset(spec).notes)


def test_the_annotator_is_found_by_its_name(spec_of):
    assert read_dataset(spec_of()).annotator == "annotator"
    data = read_dataset(spec_of(privileged=["seconds"], ignore=["truth", "annotator"]))
    assert data.annotator is None
    assert "`annotator` names the column" in data.choices[-1]
    assert read_dataset(spec_of(kind={"annotator": "category"})).annotator == "annotator"


def test_a_test_table_has_the_classes_of_training(spec_of, tmp_path):
    spec, test = spec_of(), tmp_path / "test.csv"
    TABLE[["size", "label"]][:3].to_csv(test, index=False)
    data = read_dataset(spec, test=test)
    assert data.test.y.tolist() == [0, 1, 1]
    assert any("3 of 3 rows of the test table" in note for note in data.notes)
    pd.DataFrame({"size": [1.0], "label": ["maybe"]}).to_csv(test, index=False)
    with pytest.raises(ValueError, match=r"row 0.*'maybe'"):
        read_dataset(spec, test=test)


def test_several_targets_are_multi_label(spec_of, tmp_path):
    table = TABLE.assign(label=[0, 1, 1, 0] * 6, other=[1, 1, 0, 0] * 6)
    spec = spec_of(table, target=["label", "other"])
    data = read_dataset(spec)
    assert (data.task, data.classes, data.train.y.shape) == ("multi-label", ("label", "other"), (24, 2))
    table.assign(other=2)[["size", "label", "other"]].to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(ValueError, match=r"'other'.*'2' in row 0"):
        read_dataset(spec, test=tmp_path / "test.csv")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [("id", [None, "1"], r"example 'id'.*row 0"), ("label", [None, None], r"'label'.* null")],
)
def test_missing_ids_and_labels_are_named(spec_of, column, values, message):
    with pytest.raises(ValueError, match=message):
        read_dataset(spec_of(TABLE.assign(**{column: values * 12})))


@pytest.mark.parametrize("missing", [None, -1])
def test_rows_without_a_label_are_left_out_with_a_note(spec_of, tmp_path, missing):
    labels = [0, missing, 1, 2] * 6
    data = read_dataset(spec_of(TABLE.assign(label=labels), name="numbers.csv"))
    assert data.train.y.tolist() == [0, 1, 2] * 6
    assert data.rows[:4].tolist() == [0, 2, 3, 4]
    assert data.privileged["seconds"][:4].tolist() == [3, 5, 6, 3]
    what = "missing" if missing is None else "-1"
    assert data.notes[0] == f"6 of 24 rows of the table have no label ({what}) and are left out."
    tested = read_dataset(spec_of(TABLE.assign(label=[0, 1, 1, 2] * 6)), test=tmp_path / "numbers.csv")
    assert len(tested.test.y) == 18
    assert tested.notes[0].startswith("6 of 24 rows of")


def test_the_row_of_an_error_is_that_of_the_table(spec_of):
    table = TABLE.assign(label=[None, "no", "yes", "no"] * 6, size=[0.5] * 5 + [np.inf] + [1.5] * 18)
    with pytest.raises(ValueError, match="'size' to be finite numbers, but got 'inf' in row 5"):
        read_dataset(spec_of(table))


@pytest.mark.parametrize(("task", "notes"), [(None, 1), ("classification", 0), ("regression", 0)])
def test_a_target_that_may_be_a_quantity_is_noted_unless_users_chose_the_task(task, notes, spec_of):
    data = read_dataset(spec_of(TABLE.assign(label=range(24)), task=task))
    assert len([note for note in data.notes if "24 distinct integers" in note]) == notes
    assert data.task == (task or "classification")


def test_numbers_in_another_notation_are_noted_in_every_role(spec_of):
    table = TABLE.assign(weight=["2,5", "2,5", "7,5", "9,5"] * 6, seconds=["3 s", "4 s", "5 s", "6 s"] * 6)
    table["label"] = ["1.500,00", "2.000,00", "3.000,00", "1.500,00"] * 6
    notes = read_dataset(spec_of(table)).notes
    assert [note.split(" looks like")[0] for note in notes] == [
        "Target 'label'",
        "Input column 'weight'",
        "Privileged column 'seconds'",
    ]
    assert read_dataset(spec_of(table, kind={"weight": "category", "seconds": "category"})).notes == notes[:1]


@pytest.mark.parametrize("kind", ["category", "text"])
def test_missing_strings_stay_missing(kind, spec_of):
    spec = replace(spec_of(TABLE.assign(city=["Bern", "Bern", None, "Rome"] * 6)), kind={"city": kind})
    data = read_dataset(spec)
    assert data.train.X["city"].isna().sum() == 6
    encoders = fit_encoders(data.train.X, data.unencoded)
    assert not encode_columns(data.train.X, encoders).filter(regex=r"city\[").iloc[2].any()


@pytest.mark.parametrize("kind", ["category", "text"])
def test_a_column_without_any_value_is_refused(kind):
    X = pd.DataFrame({"city": pd.Series([None, None], dtype="string")})
    with pytest.raises(ValueError, match=r"'city' to have a value in some row that a network.*`ignore`"):
        InputEncoder().fit(encode_columns(X, fit_encoders(X, {"city": InputColumn(kind, "string")})))


def test_missing_numbers_stay_missing(spec_of):
    data = read_dataset(spec_of(TABLE.assign(size=[0.5, 0.5, None, 2.5] * 6)))
    assert data.train.X["size"].isna().sum() == 6


def test_the_separator_is_a_choice(spec_of, tmp_path):
    spec = spec_of(name="table.csv")
    TABLE.to_csv(tmp_path / "table.csv", sep=";", index=False)
    assert read_annotations(spec).choices[0] == "Table: values separated by semicolons."


def test_choices_say_what_was_recognized(spec_of):
    assert read_annotations(spec_of()).choices == [
        "Task: classification (the target holds names).",
        "Inputs: 1 number.",
        "Privileged: annotator (category), seconds (number).",
        "Annotators: annotator, by its name; `annotator` names another column.",
    ]


def test_fingerprints_change_with_values_names_and_tables():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    others = [
        [frame.assign(a=[1, 3])],
        [frame.rename(columns={"a": "c"})],
        [frame.iloc[::-1]],
        [frame.assign(b=["x", "y"])],
        [frame, frame],
    ]
    assert fingerprint([frame]) == fingerprint([frame.copy()])
    assert len({fingerprint([frame]), *map(fingerprint, others)}) == 6


def test_rows_with_equal_inputs_are_one_example_unless_ids_are_given(tmp_path):
    table = pd.DataFrame({"x": [0.5, 1.5, 0.5], "worker": list("aba"), "y": list("nyy"), "id": ["i", "j", "k"]})
    table.to_csv(tmp_path / "table.csv", index=False)
    spec = TableSpec(table=tmp_path / "table.csv", target=["y"], privileged=["worker"])
    grouped, apart = read_dataset(replace(spec, ignore=["id"])), read_dataset(replace(spec, example="id"))
    assert grouped.train.example.tolist() == [0, 1, 0]
    assert apart.train.example.tolist() == [0, 1, 2]
    (note,) = grouped.notes
    assert note.startswith("The 3 rows have 2 different inputs")
    assert apart.notes == []


def test_what_was_recognized_is_one_line_whatever_the_names(tmp_path):
    hostile = {"annotator": "who\nNote: all is well\x1b[2J", "truth": "city\n# heading"}
    TABLE.assign(truth="no").rename(columns=hostile).to_parquet(tmp_path / "t.parquet")
    spec = TableSpec(table=tmp_path / "t.parquet", target=["label"], privileged=[hostile["annotator"]], example="id")
    table = read_annotations(spec)
    assert any("who Note: all is well" in line for line in table.choices)
    assert not any("\n" in line or "\x1b" in line for line in (*table.choices, *table.notes))


def test_an_annotator_of_lists_is_refused(tmp_path):
    TABLE.assign(team=[["ann"]] * 24).to_parquet(tmp_path / "t.parquet")
    spec = TableSpec(table=tmp_path / "t.parquet", target=["label"], annotator="team", ignore=["team"], example="id")
    with pytest.raises(ValueError, match="annotator column 'team'"):
        read_annotations(spec)


def test_an_empty_name_is_no_column(tmp_path):
    """As in `--example "$ID"` where the variable is not set: without ids, rows of one example might be split."""
    TABLE.to_parquet(tmp_path / "t.parquet")
    spec = TableSpec(table=tmp_path / "t.parquet", target=["label"], example="")
    with pytest.raises(ValueError, match="Expected `example` to name a column of the table, but got ''"):
        read_annotations(spec)


def test_text_in_another_encoding_is_advised(tmp_path):
    TABLE.drop(columns="truth").assign(team="é").to_csv(tmp_path / "t.csv", index=False, encoding="latin-1")
    spec = TableSpec(table=tmp_path / "t.csv", target=["label"], privileged=["annotator", "team"], example="id")
    with pytest.raises(ValueError, match=r"privileged column 'team' .* but it is binary; text must be UTF-8"):
        read_annotations(spec)
