import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lupi
from lupi.serving import train
from lupi.serving.prediction import predict_table
from lupi.tabular import TableSpec
from lupi.tabular.table_data import read_data

PROGRAM = Path(__file__).parent / "programs" / "train_and_measure.py"


def test_choices_and_notes_are_said_before_training(quick_train):
    lines = []
    model = quick_train(notify=lines.append)
    assert lines[:4] == [
        "Task: classification (the target holds 3 distinct integers).",
        "Inputs: 1 number, 1 text (note).",
        "Privileged: worker (category).",
        "Annotators: worker, by its name; `annotator` names another column.",
    ]
    assert lines[4:] == [f"Note: {note}" for note in model.record["notes"]]
    assert len(lines) == 6


def test_rows_with_equal_inputs_are_one_example_and_noted(tmp_path):
    """Without ids, the model is the one with an id for each distinct input, not the one with an id for each row."""
    table = pd.DataFrame({"x": np.repeat(np.arange(20.0) / 3, 3), "worker": list("abc") * 20, "y": list("nyynyy") * 10})
    table = table.assign(id=np.repeat(np.arange(20), 3), row=np.arange(60))
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "t.csv", index=False)
    spec = TableSpec(table=tmp_path / "t.csv", target=["y"], privileged=["worker"])
    lines, settings = [], {"method": "label-posterior", "settings": {"epochs": 2}}
    named = train(replace(spec, example="id", ignore=["row"]), **settings)
    apart = train(replace(spec, example="row", ignore=["id"]), **settings)
    model = train(replace(spec, ignore=["id", "row"]), notify=lines.append, **settings)
    assert [each.record["examples"] for each in (named, apart, model)] == [20, 60, 20]
    assert named.record["notes"] == apart.record["notes"] == []
    (note,) = model.record["notes"]
    assert f"Note: {note}" in lines
    assert note.startswith("The 60 rows have 20 different inputs, and without `example` rows with equal inputs count")
    predicted = [each.predict(table[["x"]])["probability_y"] for each in (named, apart, model)]
    pd.testing.assert_series_equal(predicted[0], predicted[2])
    assert not np.allclose(predicted[0], predicted[1])


def test_auto_says_what_it_mixed(table, tmp_path):
    lines = []
    spec = TableSpec(table=table, target=["label"], privileged=["worker"])
    model = train(spec, settings={"epochs": 1, "hidden": (8,)}, output=tmp_path / "model", notify=lines.append)
    assert model.estimator.method == "auto"
    assert lines[-1].startswith("Mixture: ")
    assert lines[-1] in (tmp_path / "model" / "README.md").read_text()
    losses = pd.read_csv(tmp_path / "model" / "results.csv").filter(like="train_")
    assert all(dtype.kind == "f" for dtype in losses.dtypes)  # also where several networks train together
    assert lupi.load(tmp_path / "model").estimator.mixture_ == model.estimator.mixture_


@pytest.mark.parametrize(
    ("method", "roles", "of_table", "of_model"),
    [
        ("tram", {"privileged": ["worker", "size"]}, "worker", "worker"),
        ("tram", {"privileged": ["worker"], "annotator": "size"}, "size", "size"),
        ("tram", {"annotator": "worker"}, "worker", "worker"),
        ("tram", {"privileged": ["size"], "annotator": "worker", "ignore": ["worker"]}, "worker", None),
        ("tram", {"privileged": ["size"], "ignore": ["worker"]}, None, None),
        ("no-pi", {"privileged": ["worker", "size"]}, "worker", None),  # which trains without privileged columns
    ],
)
def test_the_model_learns_from_the_annotators_that_are_diagnosed(method, roles, of_table, of_model, table, tmp_path):
    spec = TableSpec(table=table, target=["label"], **roles)
    model = train(spec, method=method, settings={"epochs": 1, "hidden": (8,)}, output=tmp_path / "model")
    assert (read_data(spec).schema.annotator, model.estimator.annotator) == (of_table, of_model)
    assert lupi.load(tmp_path / "model").estimator.annotator == of_model


def test_nothing_is_printed(quick_train, capfd):
    quick_train()
    assert capfd.readouterr() == ("", "")


def test_text_becomes_numbers_that_the_trunk_sees(model):
    assert model.estimator.feature_names_in_.tolist() == ["size", "note"]
    names = model.estimator.input_encoder_.get_feature_names_out().tolist()
    assert names == ["size", *(f"note[{i}]" for i in range(6))]


def test_kinds_reach_the_encoders(model, quick_train):
    assert "worker=0" in model.estimator.privileged_encoder_.get_feature_names_out()
    other = quick_train(kind={"worker": "standardized", "note": "category"}).estimator
    assert other.privileged_encoder_.get_feature_names_out().tolist() == ["worker"]
    assert other.input_encoder_.get_feature_names_out()[1].startswith("note=")


def test_output_is_a_model_folder_with_its_record(quick_train, frame, tmp_path):
    model = quick_train(output=tmp_path / "model", command="lupi train", seed=3)
    record = json.loads((tmp_path / "model" / "results.json").read_text())
    assert (record["rows"], record["seed"], record["command"]) == (90, 3, "lupi train")
    assert {"lupi", "torch"} <= set(record["versions"])
    assert list(pd.read_csv(tmp_path / "model" / "results.csv")["epoch"]) == [1]
    assert "lupi train" in (tmp_path / "model" / "README.md").read_text()
    pd.testing.assert_frame_equal(lupi.load(tmp_path / "model").predict(frame), model.predict(frame))


def test_an_existing_model_is_replaced_only_if_asked(quick_train, tmp_path):
    quick_train(output=tmp_path / "model")
    with pytest.raises(FileExistsError, match=r"`output`.*`overwrite=True`"):
        quick_train(output=tmp_path / "model")
    quick_train(output=tmp_path / "model", overwrite=True, seed=1)
    assert lupi.load(tmp_path / "model").record["seed"] == 1


def test_a_folder_of_other_files_is_never_replaced(quick_train, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="`output` to be new or a model"):
        quick_train(output=tmp_path, overwrite=True)


def test_the_root_folder_is_no_model(quick_train):
    with pytest.raises(FileExistsError, match="`output` to be a folder of its own, but / is a mount point"):
        quick_train(output="/", overwrite=True)


def test_a_method_that_learns_from_privileged_columns_needs_some(table):
    with pytest.raises(ValueError, match=r"`privileged`.* 'tram'"):
        train(TableSpec(table=table, target=["label"]), method="tram")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from /proc")
def test_a_row_takes_the_memory_of_its_codes(tmp_path):
    """A row of 10 numbers, 2 names, an annotator and a label takes 64 bytes of codes, and a kilobyte as strings."""
    sizes, peaks = (50_000, 350_000), []
    for rows in sizes:
        rng = np.random.default_rng(0)
        numbers = {f"number{i}": pa.array(rng.normal(size=rows)) for i in range(10)}
        counts = {"city": 50, "shop": 200, "worker": 2000, "label": 3}
        names = {
            name: pa.array([f"{name}-{i}" for i in range(count)]).take(pa.array(rng.integers(count, size=rows)))
            for name, count in counts.items()
        }
        pq.write_table(pa.table(numbers | names | {"seconds": rng.gamma(2, 3, rows)}), tmp_path / "t.parquet")
        program = [sys.executable, PROGRAM, tmp_path / "t.parquet"]
        peaks.append(int(subprocess.run(program, capture_output=True, check=True, text=True).stdout))
    assert (peaks[1] - peaks[0]) * 1024 / (sizes[1] - sizes[0]) < 250


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_booleans_may_be_missing_and_dates_may_be_texts(suffix, tmp_path):
    """The table of training is predicted, and so is another one that stores its dates otherwise."""
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(40) % 7, "D")
    table = pd.DataFrame({"size": np.arange(40.0), "open": [True, False, None, True] * 10, "day": days})
    table["y"] = list("nyyn") * 10
    table.to_parquet(tmp_path / "dates.parquet")
    texts = table.assign(day=table["day"].dt.strftime("%Y-%m-%d"))
    if suffix == "parquet":
        texts.to_parquet(tmp_path / "t.parquet")
    elif suffix == "csv":
        texts.to_csv(tmp_path / "t.csv", index=False)
    else:
        texts.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    paths = [tmp_path / f"t.{suffix}", tmp_path / "dates.parquet"]
    for path in paths:
        spec = TableSpec(table=path, target=["y"])
        model = train(spec, method="no-pi", settings={"epochs": 1, "hidden": (8,)})
        assert model.schema.inputs["open"].kind == "boolean"
        outputs = [tmp_path / f"{one.name}.out.parquet" for one in paths]
        for one, output in zip(paths, outputs, strict=True):
            assert predict_table(model, one, output, overwrite=True) == 40
        pd.testing.assert_frame_equal(*map(pd.read_parquet, outputs))
