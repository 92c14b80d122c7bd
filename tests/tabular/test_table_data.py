from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lupi.tabular import TableEncoder, TableSpec, table_data
from lupi.tabular.table_data import read_data, read_test

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
    data = read_data(spec_of())
    assert (data.schema.task, data.classes) == ("classification", ("no", "yes"))
    assert data.y[:4].tolist() == [0, 1, 1, 0]
    assert data.example[:4].tolist() == [0, 0, 1, 2]
    assert (len(data), data.examples) == (24, 3)
    assert data.inputs.columns == ["size"]
    assert data.privileged.columns == ["annotator", "seconds"]
    assert data.ids[:3].tolist() == ["007", "007", "008"]
    assert data.true_labels is None


def test_a_column_without_a_name_is_an_input(spec_of):
    assert read_data(spec_of(TABLE.rename(columns={"size": ""}))).inputs.columns == [""]


def test_the_table_is_read_once_with_gold_and_annotators(spec_of, monkeypatch):
    spec = spec_of(gold="truth", annotator="annotator")
    reads = []
    original = table_data.open_columns
    monkeypatch.setattr(table_data, "open_columns", lambda *a, **k: reads.append(a) or original(*a, **k))
    data = read_data(spec)
    assert len(reads) == 1
    assert data.annotators[:4].tolist() == ["ann", "bob", "(missing)", "ann"]
    assert data.true_labels[:4].tolist() == [0, 0, 1, -1]
    assert "truth" in data.schema.roles.ignored


def test_an_annotator_may_be_ignored_as_privileged_information(spec_of):
    data = read_data(spec_of(privileged=["seconds"], annotator="annotator", ignore=["truth", "annotator"]))
    assert data.privileged.columns == ["seconds"]
    assert data.annotators[0] == "ann"


def test_an_annotator_among_the_inputs_is_pointed_out(tmp_path):
    table = pd.DataFrame({"x": np.arange(8.0), "worker": list("abab") * 2, "s": np.arange(8.0), "y": list("no") * 4})
    table.to_csv(tmp_path / "t.csv", index=False)
    spec = TableSpec(table=tmp_path / "t.csv", target=["y"], privileged=["s"])
    (line,) = [line for line in read_data(spec).choices if line.startswith("Annotators")]
    assert "Input column 'worker' has such a name; if you do not know it" in line
    (line,) = [line for line in read_data(replace(spec, ignore=["worker"])).choices if line.startswith("Annotators")]
    assert "Input column" not in line


def test_classes_that_differ_in_spelling_are_noted(tmp_path):
    table = pd.DataFrame({"x": np.arange(8.0), "y": ["ja", "nein", "Ja", "nein"] * 2})
    table.to_csv(tmp_path / "t.csv", index=False)
    spec = TableSpec(table=tmp_path / "t.csv", target=["y"])
    assert any("Classes 'Ja' and 'ja' differ only in case or spaces" in note for note in read_data(spec).notes)


def test_the_annotator_is_found_by_its_name(spec_of):
    assert read_data(spec_of()).schema.annotator == "annotator"
    data = read_data(spec_of(privileged=["seconds"], ignore=["truth", "annotator"]))
    assert data.schema.annotator is None
    assert "`annotator` names the column" in data.choices[-1]
    assert read_data(spec_of(kind={"annotator": "category"})).schema.annotator == "annotator"


def test_a_test_table_has_the_classes_of_training(spec_of, tmp_path):
    spec, test = spec_of(), tmp_path / "test.csv"
    TABLE[["size", "label"]][:3].to_csv(test, index=False)
    data = read_data(spec)
    found = read_test(test, data)
    assert found.y.tolist() == [0, 1, 1]
    assert any("3 of 3 rows of the test table" in note for note in found.notes)
    pd.DataFrame({"size": [1.0], "label": ["maybe"]}).to_csv(test, index=False)
    with pytest.raises(ValueError, match=r"row 0.*'maybe'"):
        read_test(test, data)


def test_several_targets_are_multi_label(spec_of, tmp_path):
    table = TABLE.assign(label=[0, 1, 1, 0] * 6, other=[1, 1, 0, 0] * 6)
    spec = spec_of(table, target=["label", "other"])
    data = read_data(spec)
    assert data.schema.several
    assert (data.classes, data.y.shape) == (("label", "other"), (24, 2))
    table.assign(other=2)[["size", "label", "other"]].to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(ValueError, match=r"'other'.*'2' in row 0"):
        read_test(tmp_path / "test.csv", data)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("id", [None, "1"], "`example` to have an id in every row, but row 0"),
        ("label", [None, None], r"'label'.* null"),
    ],
)
def test_missing_ids_and_labels_are_named(spec_of, column, values, message):
    with pytest.raises(ValueError, match=message):
        read_data(spec_of(TABLE.assign(**{column: values * 12})))


def test_a_test_table_needs_an_id_in_every_row(spec_of, tmp_path):
    data = read_data(spec_of(TABLE))
    TABLE.assign(id=[None, "1"] * 12).to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(ValueError, match="'id' to have an id in every row, but row 0 has none"):
        read_test(tmp_path / "test.csv", data)


def test_trust_needs_annotators_and_true_labels_that_are_no_labels_are_noted(spec_of):
    with pytest.raises(ValueError, match="a column of annotators for `trust`"):
        read_data(spec_of(TABLE.rename(columns={"annotator": "who"}), privileged=["who"], trust={"a": 0.9}))
    first = TABLE["label"].iloc[0]
    data = read_data(spec_of(TABLE.assign(truth=[first, "strange"] * 12), gold="truth"))
    assert any("such as 'strange', are no labels of the target" in note for note in data.notes)


@pytest.mark.parametrize("missing", [None, -1])
def test_rows_without_a_label_are_left_out_with_a_note(spec_of, tmp_path, missing):
    labels = [0, missing, 1, 2] * 6
    data = read_data(spec_of(TABLE.assign(label=labels), name="numbers.csv")).load()
    assert data.y.tolist() == [0, 1, 2] * 6
    assert data.rows[:4].tolist() == [0, 2, 3, 4]
    assert data.privileged["seconds"][:4].tolist() == [3, 5, 6, 3]
    what = "missing" if missing is None else "-1"
    assert data.notes[0] == f"6 of 24 rows of the table have no label ({what}) and are left out."
    tested = read_test(tmp_path / "numbers.csv", read_data(spec_of(TABLE.assign(label=[0, 1, 1, 2] * 6))))
    assert len(tested.y) == 18
    assert tested.notes[0].startswith("6 of 24 rows of")


@pytest.mark.parametrize("kind", ["int64", "float64", "Int64"])
def test_integer_classes_stay_integers_beside_missing_labels(kind, tmp_path):
    table = TABLE.assign(label=pd.array([0, None, 1, 2] * 6, "Int64").astype("Int64"))
    table["label"] = table["label"].fillna(1).astype(kind) if kind == "int64" else table["label"].astype(kind)
    table.to_parquet(tmp_path / "t.parquet")
    spec = TableSpec(
        table=tmp_path / "t.parquet", target=["label"], privileged=["annotator,seconds"], ignore=["truth,id"]
    )
    data = read_data(spec)
    assert list(map(repr, np.asarray(data.classes).tolist())) == ["0", "1", "2"]
    assert data.labels.dtype == np.int64


def test_the_row_of_an_error_is_that_of_the_table(spec_of):
    table = TABLE.assign(label=[None, "no", "yes", "no"] * 6, size=[0.5] * 5 + [np.inf] + [1.5] * 18)
    with pytest.raises(ValueError, match="'size' to be finite numbers, but got 'inf' in row 5"):
        read_data(spec_of(table))


@pytest.mark.parametrize(("task", "notes"), [(None, 1), ("classification", 0), ("regression", 0)])
def test_a_target_that_may_be_a_quantity_is_noted_unless_users_chose_the_task(task, notes, spec_of):
    data = read_data(spec_of(TABLE.assign(label=range(24)), task=task))
    assert len([note for note in data.notes if "24 distinct integers" in note]) == notes
    assert data.schema.task == (task or "classification")


def test_numbers_in_another_notation_are_noted_in_every_role(spec_of):
    table = TABLE.assign(weight=["2,5", "2,5", "7,5", "9,5"] * 6, seconds=["3 s", "4 s", "5 s", "6 s"] * 6)
    table["label"] = ["1.500,00", "2.000,00", "3.000,00", "1.500,00"] * 6
    *notes, _ = read_data(spec_of(table)).notes
    assert [note.split(" looks like")[0] for note in notes] == [
        "Target 'label'",
        "Input column 'weight'",
        "Privileged column 'seconds'",
    ]
    assert read_data(spec_of(table, kind={"weight": "category", "seconds": "category"})).notes[:-1] == notes[:1]


@pytest.mark.parametrize("kind", ["category", "text"])
def test_missing_strings_stay_missing(kind, spec_of):
    spec = replace(spec_of(TABLE.assign(city=["Bern", "Bern", None, "Rome"] * 6)), kind={"city": kind})
    data = read_data(spec)
    assert data.inputs["city"].isna().sum() == 6
    encoder = TableEncoder({"city": kind}).fit(data.inputs)
    features = pd.DataFrame(encoder.transform(data.inputs), columns=encoder.get_feature_names_out())
    missing = {name for name in features if name.startswith("city") and features[name][2] == 1}
    assert missing == ({"city=missing"} if kind == "category" else set())


@pytest.mark.parametrize("kind", ["category", "text"])
def test_a_column_without_any_value_is_refused(kind):
    X = pd.DataFrame({"city": pd.Series([None, None], dtype="string")})
    with pytest.raises(ValueError, match=r"'city' to have a value in some row that a network.*`ignore`"):
        TableEncoder({"city": kind}).fit(X)


def test_missing_numbers_stay_missing(spec_of):
    data = read_data(spec_of(TABLE.assign(size=[0.5, 0.5, None, 2.5] * 6)))
    assert data.inputs["size"].isna().sum() == 6


def test_the_separator_is_a_choice(spec_of, tmp_path):
    spec = spec_of(name="table.csv")
    TABLE.to_csv(tmp_path / "table.csv", sep=";", index=False)
    assert read_data(spec).choices[0] == "Table: values separated by semicolons."


def test_choices_say_what_was_recognized(spec_of):
    assert read_data(spec_of()).choices == [
        "Task: classification (the target holds names).",
        "Inputs: 1 number.",
        "Privileged: annotator (category), seconds (number).",
        "Annotators: annotator, by its name; `annotator` names another column.",
    ]


def test_digests_change_with_values_names_and_order(spec_of):
    data = read_data(spec_of()).load()
    frame = data.columns
    others = [
        frame.assign(size=frame["size"] + 1),
        frame.rename(columns={"seconds": "time"}),
        frame.iloc[::-1],
        frame.assign(annotator=frame["annotator"].fillna("eve")),
    ]
    assert replace(data, columns=frame.copy()).digest == data.digest
    assert len({data.digest, *(replace(data, columns=other).digest for other in others)}) == 5


def test_rows_with_equal_inputs_are_one_example_unless_ids_are_given(tmp_path):
    table = pd.DataFrame({"x": [0.5, 1.5, 0.5], "worker": list("aba"), "y": list("nyy"), "id": ["i", "j", "k"]})
    table.to_csv(tmp_path / "table.csv", index=False)
    spec = TableSpec(table=tmp_path / "table.csv", target=["y"], privileged=["worker"])
    grouped, apart = read_data(replace(spec, ignore=["id"])), read_data(replace(spec, example="id"))
    assert grouped.example.tolist() == [0, 1, 0]
    assert apart.example.tolist() == [0, 1, 2]
    (note,) = grouped.notes
    assert note.startswith("The 3 rows have 2 different inputs")
    assert apart.notes == []


def test_what_was_recognized_is_one_line_whatever_the_names(tmp_path):
    hostile = {"annotator": "who\nNote: all is well\x1b[2J", "truth": "city\n# heading"}
    TABLE.assign(truth="no").rename(columns=hostile).to_parquet(tmp_path / "t.parquet")
    spec = TableSpec(
        table=tmp_path / "t.parquet", target=["label"], privileged=[hostile["annotator"]], ignore=["seconds"]
    )
    table = read_data(spec)
    assert any("who Note: all is well" in line for line in table.choices)
    assert not any("\n" in line or "\x1b" in line for line in (*table.choices, *table.notes))


def test_an_annotator_of_lists_is_refused(tmp_path):
    TABLE.assign(team=[["ann"]] * 24).to_parquet(tmp_path / "t.parquet")
    spec = TableSpec(table=tmp_path / "t.parquet", target=["label"], annotator="team", ignore=["team"], example="id")
    with pytest.raises(ValueError, match="annotator column 'team'"):
        read_data(spec)


def test_an_empty_name_is_no_column(tmp_path):
    """As in `--example "$ID"` where the variable is not set: without ids, rows of one example might be split."""
    TABLE.to_parquet(tmp_path / "t.parquet")
    spec = TableSpec(table=tmp_path / "t.parquet", target=["label"], example="")
    with pytest.raises(ValueError, match="Expected `example` to name a column of the table, but got ''"):
        read_data(spec)


def test_text_in_another_encoding_is_advised(tmp_path):
    TABLE.drop(columns="truth").assign(team="é").to_csv(tmp_path / "t.csv", index=False, encoding="latin-1")
    spec = TableSpec(table=tmp_path / "t.csv", target=["label"], privileged=["annotator", "team"], example="id")
    with pytest.raises(ValueError, match=r"privileged column 'team' .* but it is binary; text must be UTF-8"):
        read_data(spec)


FAR = pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 reads no dates before 1677 or after 2262")


@pytest.mark.parametrize(
    "values",
    [
        ["2026-01-01T10:00:00Z", "2026-01-02T11:30:00+02:00"],
        pytest.param(["1500-01-01", "1600-06-15"], marks=FAR),
        pytest.param(["2500-01-01", "9999-12-31"], marks=FAR),
        pytest.param(["1500-01-01T10:00:00", "2500-01-01 12:00"], marks=FAR),
        ["2026-01-01T10:00:00.123456", "2026-01-02"],
        ["0x1F", "12"],
        ["0x1F", "0xFFFFFFFF"],
    ],
    ids=lambda values: values[0],
)
def test_a_csv_file_can_be_read_again_with_the_types_of_training(values, spec_of):
    spec = spec_of(TABLE.assign(when=[values[0], values[0], *values] * 6, id=list("aabc") * 6))
    data = read_data(spec)
    again = read_test(spec.table, data)
    pd.testing.assert_series_equal(again.inputs["when"], data.inputs["when"], check_dtype=False)
    assert data.inputs["when"].nunique() == 2


def test_repeated_votes_are_counted(spec_of):
    table = pd.DataFrame({"id": list("aabbcc"), "size": list("112233"), "label": list("nynnyy"), "truth": "n"})
    apart, twice = ["ann", "bob"] * 3, ["ann", "ann", "bob", None, None, None]
    assert read_data(spec_of(table.assign(annotator=apart, seconds=range(6)))).notes == []
    (note,) = read_data(spec_of(table.assign(annotator=twice, seconds=range(6)), annotator="annotator")).notes
    assert note.startswith("1 of 6 labels is by an annotator who had labelled the same example before")


def test_a_value_that_is_missing_in_some_rows_of_an_example_is_that_of_the_others(spec_of):
    size = [0.5, None, 1.5, None] + [0.5, 0.5, None, None] + [None, 0.5, 1.5, None] * 4
    names = [f"city {name}" for name in "aabc"] * 6
    names[0] = None
    data = read_data(spec_of(TABLE.assign(size=size, city=names)))
    assert data.inputs["size"].tolist()[:3] == [0.5, 0.5, 1.5]
    assert data.inputs["size"].isna().tolist() == [False, False, False, True] * 6, "nothing is known of the last"
    assert data.inputs["city"].tolist() == [f"city {name}" for name in "aabc"] * 6
    assert data.notes[:-1] == [
        "In 6 rows without 'size', the value of another row of the same example is used.",
        "In 1 row without 'city', the value of another row of the same example is used.",
    ]
    with pytest.raises(ValueError, match="rows 0 and 5 of example '007' differ in 'size'"):
        read_data(spec_of(TABLE.assign(size=[*size[:5], 0.75, *size[6:]])))


# -------------------------------------------------------------------------------- samples

RNG = np.random.default_rng(0)
ROWS = 400
RANDOM = pd.DataFrame({"id": RNG.integers(120, size=ROWS)})
RANDOM["size"] = RANDOM["id"] * 1.0
RANDOM["who"] = RNG.choice(list("abc"), ROWS)
RANDOM["count"] = np.arange(ROWS)
RANDOM["gold"] = np.where(RANDOM["size"] > 60, "yes", "no")
RANDOM["label"] = RANDOM["gold"]
RANDOM.loc[::17, "label"] = None  # rows that are left out


@pytest.fixture
def random(tmp_path):
    RANDOM.to_parquet(tmp_path / "table.parquet")
    spec = TableSpec(
        table=tmp_path / "table.parquet",
        target=["label"],
        privileged=["who", "count"],
        example="id",
        annotator="who",
        gold="gold",
    )
    return read_data(spec).load()


def test_a_sample_has_whole_examples_and_the_rows_of_the_table(random):
    found = random.sample(100)
    table = RANDOM.loc[found.rows]
    assert 90 < len(found.rows) <= 100
    assert (np.diff(found.rows) > 0).all()
    labelled = RANDOM[RANDOM["label"].notna()]
    assert set(labelled.index[labelled["id"].isin(table["id"])]) == set(found.rows)
    for values, name in ((found.privileged["count"], "count"), (found.annotators, "who"), (found.ids, "id")):
        assert list(map(str, values)) == list(map(str, table[name])), name
    assert [found.classes[code] for code in found.true_labels] == table["gold"].tolist()
    assert found.inputs["size"].tolist() == table["size"].tolist()
    assert [found.classes[code] for code in found.y] == table["label"].tolist()
    assert found.example.tolist() == pd.factorize(table["id"])[0].tolist()
    assert found.notes[0] == (
        f"A random sample of {len(table)} of {len(labelled)} annotations was used, "
        f"all those of {table['id'].nunique()} examples."
    )


def test_the_seed_and_the_size_determine_a_sample(random):
    one, again, other = (random.sample(100, seed).rows.tolist() for seed in (0, 0, 1))
    assert one == again != other
    assert random.sample(len(random)) is random
