"""`lupi train`, `lupi predict` and `lupi export`, as users meet them."""

import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import lupi
from lupi import PrivilegedClassifier
from lupi._internal import files
from lupi.serving import prediction, training
from lupi.tabular.formats import base
from lupi.training import Checkpoint
from tests.cli.helpers import refused, run

N = 240
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "id": np.repeat([f"i{i}" for i in range(N // 2)], 2),
        "size": np.repeat(RNG.normal(size=N // 2), 2),
        "count": np.repeat(RNG.integers(9, size=N // 2), 2),
        "annotator": RNG.integers(5, size=N),
        "seconds": RNG.exponential(size=N),
    }
)
TABLE["label"] = np.where(TABLE["size"] + 0.1 * RNG.normal(size=N) > 0, "yes", "no")
TABLE["gold"] = np.where(TABLE["size"] > 0, "yes", "no")
TRAM = ["--method", "tram"]
ROLES = ["--target", "label", "--privileged", "annotator,seconds", "--example", "id", "--ignore", "gold"]


def good(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def table(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    TABLE.to_parquet(folder / "table.parquet")
    good("train", folder / "table.parquet", *ROLES, *TRAM, "--epochs", 5, "-o", folder / "model")
    return folder / "model"


def train(table, *options, roles=ROLES):
    return run("train", table, *roles, *TRAM, "--epochs", 1, "-o", table.parent / "model", *options)


# -------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("form", ["csv", "parquet", "folder"])
def test_from_a_table_to_predictions(form, tmp_path):
    path = tmp_path / {"csv": "t.csv", "parquet": "t.parquet", "folder": "t"}[form]
    if form == "csv":
        TABLE.to_csv(path, index=False)
    elif form == "parquet":
        TABLE.to_parquet(path)
    else:
        path.mkdir()
        for i in range(3):
            TABLE[80 * i : 80 * (i + 1)].to_parquet(path / f"{i}.parquet")
    result = good("train", path, *ROLES, *TRAM, "--epochs", 5, "--seed", 3, "-o", tmp_path / "model")
    assert "Task: classification (the target holds names)." in result.stdout
    assert "Inputs: 2 numbers." in result.stdout
    assert "Privileged: annotator (category), seconds (number)." in result.stdout
    assert "Annotators: annotator, by its name; `--annotator` names another column." in result.stdout
    assert "'annotator' holds integers that look like ids, so each value is a category" in result.stdout
    new = path
    if form != "folder":
        new = path.with_name("new" + path.suffix)
        inputs = TABLE[["count", "id", "size"]]  # in another order, and nothing privileged
        inputs.to_csv(new, index=False) if form == "csv" else inputs.to_parquet(new)
    good("predict", tmp_path / "model", new, "-o", tmp_path / "p.parquet")
    good("predict", tmp_path / "model", new, "--keep", "count", "-o", tmp_path / "p.csv")
    predicted = pd.read_parquet(tmp_path / "p.parquet")
    assert list(predicted) == ["id", "prediction", "probability_no", "probability_yes"]
    assert predicted["id"].tolist() == TABLE["id"].tolist()
    expected = PrivilegedClassifier("tram", epochs=5, random_state=3).fit(
        TABLE[["size", "count"]], TABLE["label"], privileged=TABLE[["annotator", "seconds"]], example=TABLE["id"]
    )
    p = expected.predict_proba(TABLE[["size", "count"]])
    np.testing.assert_allclose(predicted[["probability_no", "probability_yes"]], p, atol=1e-6)
    assert predicted["prediction"].tolist() == expected.predict(TABLE[["size", "count"]]).tolist()
    assert (predicted["prediction"] == TABLE["gold"]).mean() > 0.8
    as_csv = pd.read_csv(tmp_path / "p.csv")
    assert list(as_csv)[:2] == ["id", "count"]
    np.testing.assert_allclose(as_csv["probability_yes"], predicted["probability_yes"], atol=1e-6)
    assert sorted(os.listdir(tmp_path))[0] == "model"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(("model.", "p.parquet.", "p.csv."))]


def test_ids_keep_their_zeros(tmp_path):
    (tmp_path / "t.csv").write_text("id,x,w,y\n" + "".join(f"{i:03},{i % 7},{i % 3},{i % 2}\n" for i in range(30)))
    roles = ("--target", "y", "--privileged", "w", "--example", "id")
    good("train", tmp_path / "t.csv", *roles, *TRAM, "--epochs", 1, "-o", tmp_path / "m")
    good("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "p.parquet")
    predicted = pd.read_parquet(tmp_path / "p.parquet")
    assert predicted["id"].tolist()[:2] == ["000", "001"]
    assert predicted["prediction"].dtype == np.int64


def test_the_model_folder_explains_itself(model):
    card = (model / "README.md").read_text()
    for part in ("240 annotations of 120 examples", "`tram`", "`annotator`, `seconds`", "Not used: `gold`", "seed 0"):
        assert part in card
    assert "contains no values of the privileged information" in card
    assert "lupi 1." in card
    facts = json.loads((model / "results.json").read_text())
    assert facts["command"].startswith("lupi")
    assert {"torch", "lupi"} <= set(facts["versions"])
    assert len(pd.read_csv(model / "results.csv")) == 5
    assert json.loads((model / "model.json").read_text())["table"]["roles"]["ignored"] == ["gold"]


def test_columns_of_every_kind(tmp_path):
    words = np.array(["good", "bad", "dull", "bright", "long", "short"])
    frame = TABLE.assign(
        city=np.repeat(RNG.choice(["Bern", "Rome"], N // 2), 2),
        open=np.repeat(RNG.integers(2, size=N // 2) == 1, 2),
        note=np.repeat([" ".join(RNG.choice(words, 5)) for _ in range(N // 2)], 2),
        zip=np.repeat(RNG.integers(8001, 8004, size=N // 2), 2),
        day=np.repeat(pd.date_range("2020-01-01", periods=N // 2), 2),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    options = [*TRAM, "--kind", "zip=category", "--epochs", 1]
    result = good("train", tmp_path / "t.parquet", *ROLES, *options, "-o", tmp_path / "m")
    assert "Inputs: 3 numbers, 2 categories (city, zip), 1 boolean (open), 1 text (note)." in result.stdout
    good("predict", tmp_path / "m", tmp_path / "t.parquet", "-o", tmp_path / "p.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    good("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "p.csv")
    one, other = pd.read_parquet(tmp_path / "p.parquet"), pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(one["probability_yes"], other["probability_yes"], atol=1e-5)
    assert one["probability_yes"].nunique() > 100


def test_several_targets(tmp_path):
    frame = TABLE.assign(big=(TABLE["size"] > 0).astype(int), many=TABLE["count"] > 4)
    frame.to_parquet(tmp_path / "t.parquet")
    good(
        *("train", tmp_path / "t.parquet", "--target", "big,many", "--privileged", "annotator", "--ignore", "gold"),
        *("--ignore", "label,seconds", "--example", "id", *TRAM, "--epochs", 20, "-o", tmp_path / "m"),
    )
    good("predict", tmp_path / "m", tmp_path / "t.parquet", "-o", tmp_path / "p.parquet")
    predicted = pd.read_parquet(tmp_path / "p.parquet")
    assert list(predicted) == ["id", "prediction_big", "prediction_many", "probability_big", "probability_many"]
    assert (predicted["prediction_big"] == frame["big"]).mean() > 0.8
    assert ((predicted["probability_big"] > 0.5) == predicted["prediction_big"]).all()


@pytest.mark.parametrize("task", [None, "classification"])
def test_a_real_target(task, tmp_path):
    frame = TABLE.assign(label=np.round(TABLE["size"]) + (0 if task else 0.25))
    frame.to_parquet(tmp_path / "t.parquet")
    options = ["--task", task] if task else []
    result = good("train", tmp_path / "t.parquet", *ROLES, *TRAM, *options, "--epochs", 1, "-o", tmp_path / "m")
    assert ("Task: classification (as `--task` says)." if task else "Task: regression") in result.stdout
    good("predict", tmp_path / "m", tmp_path / "t.parquet", "-o", tmp_path / "p.parquet")
    predicted = pd.read_parquet(tmp_path / "p.parquet")
    assert list(predicted)[:2] == ["id", "prediction"]
    assert (len(list(predicted)) > 2) == bool(task)
    if not task:
        result = good("export", tmp_path / "m", "--onnx", tmp_path / "m.onnx")
        assert "Output: prediction (float64)" in result.stdout


def test_the_default_needs_no_privileged_information_and_says_what_it_mixed(table):
    roles = ["--target", "label", "--ignore", "gold,annotator,seconds", "--example", "id"]
    for names in (roles, ROLES):
        result = good("train", table, *names, "--epochs", 2, "--overwrite", "-o", table.parent / "model")
        mixture = next(line for line in result.stdout.splitlines() if line.startswith("Mixture: "))
        assert names is ROLES or not {"mean-imputation", "pi-transition"} & set(mixture.split())
        card = (table.parent / "model" / "README.md").read_text()
        assert "`auto`, 2 epochs" in card
        assert mixture in card
    good("predict", table.parent / "model", table, "-o", table.parent / "p.parquet")
    assert len(pd.read_parquet(table.parent / "p.parquet")) == N


def test_a_method_without_privileged_information(table):
    result = train(table, "--method", "no-pi")
    assert result.exit_code == 0, result.output
    assert "did not use privileged columns" in (table.parent / "model" / "README.md").read_text()
    assert b"annotator=" not in (table.parent / "model" / "encoders.json").read_bytes()


def test_a_method_that_ships_privileged_information_says_so(table):
    assert train(table, "--method", "mean-imputation").exit_code == 0
    assert "contains values of the privileged information" in (table.parent / "model" / "README.md").read_text()


def test_export(model, tmp_path):
    result = good("export", model, "--onnx", tmp_path / "model.onnx")
    assert "Inputs: size, count (float64, NaN if missing)" in result.stdout
    assert "Outputs: label, probabilities (float32) of no, yes" in result.stdout
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    x = pd.DataFrame(RNG.normal(size=(1000, 2)), columns=["size", "count"])
    label, p = session.run(["label", "probabilities"], {name: x[name].to_numpy() for name in x})
    expected = lupi.load(model).predict(x)
    np.testing.assert_allclose(p[:, 1], expected["probability_yes"], atol=1e-6)
    assert label.tolist() == expected["prediction"].tolist()


def test_a_training_that_diverges_saves_nothing(table):
    refused(train(table, "--epochs", 2, "--learning-rate", 1e6), "diverged", "`--learning-rate`")
    assert [path.name for path in table.parent.iterdir()] == ["table.parquet"]


def test_ctrl_c_says_how_to_go_on(table, monkeypatch):
    write = Checkpoint.write

    def save(self, state):
        write(self, state)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "INTERVAL", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", save)
        result = train(table)
    assert result.exit_code == 130
    assert "lupi: Training was interrupted: run it again, with the same options, to resume from " in result.stderr
    assert "Traceback" not in result.output
    result = train(table)
    assert (result.exit_code, "Resuming from " in result.stdout) == (0, True)
    assert sorted(path.name for path in table.parent.iterdir()) == ["model", "table.parquet"]


def test_overwriting(table):
    assert train(table).exit_code == 0
    model = table.parent / "model"
    before = (model / "weights.safetensors").read_bytes()
    refused(train(table, "--seed", 1), f"`--output` to be new, but {model} exists; pass `--overwrite`")
    assert (model / "weights.safetensors").read_bytes() == before
    (model / "mine.txt").write_text("mine")
    assert train(table, "--seed", 1, "--overwrite").exit_code == 0
    assert (model / "weights.safetensors").read_bytes() != before
    assert (model / "mine.txt").read_text() == "mine"
    assert "seed 1" in (model / "README.md").read_text()
    for command, option, name in (("predict", "-o", "p.csv"), ("export", "--onnx", "m.onnx")):
        arguments = [command, model, *([table] if command == "predict" else []), option, table.parent / name]
        good(*arguments)
        refused(run(*arguments), "to be new, but")
        good(*arguments, "--overwrite")


# -------------------------------------------------------------------------------- refusals


def test_no_table(tmp_path, model):
    refused(train(tmp_path / "none.csv"), "a table, but there is no")
    refused(run("predict", model, tmp_path / "none.csv", "-o", tmp_path / "p.csv"), "a table, but there is no")


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("t.parquet", b"PAR1nonsense", "to be a readable table"),
        ("t.csv", b"a,b\n1\n", "to be a readable table"),
        ("t.csv", b"", "to have rows, but it is empty"),
        ("t.csv", b"id,size,count,annotator,seconds,label,gold\n", "to have rows, but it is empty"),
    ],
    ids=["bad Parquet", "bad CSV", "empty", "no rows"],
)
def test_a_table_that_cannot_be_read(name, content, part, tmp_path, model):
    (tmp_path / name).write_bytes(content)
    refused(train(tmp_path / name), part)
    refused(run("predict", model, tmp_path / name, "-o", tmp_path / "p.csv"), "to ")
    assert os.listdir(tmp_path) == [name]


def test_a_column_that_is_not_there(table):
    refused(
        train(table, roles=["--target", "labels", "--privileged", "seconds"]),
        "`--target`",
        "'labels': did you mean 'label'?",
    )
    refused(train(table, roles=["--target", "label", "--privileged", "x"]), "`--privileged`", "'x'")
    refused(train(table, "--annotator", "anotator"), "`--annotator`", "'anotator': did you mean 'annotator'?")
    refused(train(table, "--kind", "x=text"), "`--kind`", "'x'")
    refused(train(table, "--kind", "gold=category"), "`--kind` to name an input or privileged column, but got 'gold'")


def test_a_column_in_two_roles(table):
    refused(
        train(table, "--ignore", "annotator"),
        "'annotator'",
        "`--privileged` and `--ignore`",
    )


def test_a_target_with_one_value(table):
    TABLE.assign(label="yes").to_parquet(table)
    refused(train(table), "target 'label' to have at least two values, but all are 'yes'")


def test_a_target_with_missing_values(table):
    TABLE.assign(label=TABLE["label"].where(TABLE.index != 7)).to_parquet(table)
    result = train(table, "--epochs", 1)
    assert result.exit_code == 0, result.output
    assert "Note: 1 of 240 rows of the table have no label (missing) and are left out." in result.stdout


@pytest.mark.filterwarnings("default")
def test_an_input_with_missing_values(table, model):
    """In training they are imputed; where they are missing for the first time, users are told."""
    TABLE.assign(size=TABLE["size"].where(~TABLE["id"].isin(["i3", "i4"]))).to_parquet(table)
    assert train(table, "--epochs", 1).exit_code == 0
    own = good("predict", table.parent / "model", table, "-o", table.parent / "own.csv")
    assert "has missing values" not in own.stderr
    other = good("predict", model, table, "-o", table.parent / "p.csv")
    assert "lupi: Input column 'size' has missing values, but had none in training" in other.stderr


@pytest.mark.filterwarnings("default")
def test_a_category_with_missing_values(table):
    """Missing is a category of its own; where it is missing for the first time, users are told."""
    whole = TABLE.assign(city=TABLE["id"].str[-1])
    part = whole.assign(city=whole["city"].where(whole["city"] != "3"))
    part.to_csv(table.with_suffix(".csv"), index=False)
    for trained, told in ((part, False), (whole, True)):
        trained.to_parquet(table)
        assert train(table, "--epochs", 1, "--overwrite").exit_code == 0
        result = good(
            "predict", table.parent / "model", table.with_suffix(".csv"), "-o", table.parent / "p.csv", "--overwrite"
        )
        assert ("'city' has missing values, but had none in training; they count as an unseen" in result.stderr) is told


def test_the_row_of_a_wrong_value_is_that_of_the_table(table, model, monkeypatch):
    monkeypatch.setattr(base, "ROWS_AT_ONCE", 50)
    TABLE.assign(size=TABLE["size"].where(TABLE.index != 207, np.inf)).to_parquet(table)
    refused(run("predict", model, table, "-o", table.parent / "p.csv"), "'inf' in row 207")


def test_predictions_without_the_columns_of_the_model(table, model):
    output = table.parent / "p.parquet"
    TABLE.drop(columns="size").to_parquet(table)
    refused(run("predict", model, table, "-o", output), "the model's input columns, but it has no 'size'")
    TABLE.assign(size="big").to_parquet(table)
    refused(run("predict", model, table, "-o", output), "column 'size'", "a number as in training, but it is a string")
    TABLE.assign(size="big").to_csv(table.with_suffix(".csv"))
    refused(run("predict", model, table.with_suffix(".csv"), "-o", output), "'size'", "but it is a string")
    TABLE.to_parquet(table)
    refused(run("predict", model, table, "--keep", "x", "-o", output), "`--keep` to name a column")
    TABLE.assign(prediction=1).to_parquet(table)
    refused(run("predict", model, table, "--keep", "prediction", "-o", output), "`--keep`", "'prediction'")
    assert not output.exists()


def test_a_number_that_is_none_far_down_a_csv(model, tmp_path):
    """Types are guessed by the beginning of a file."""
    lines = ["size,count", *["0.123456,1"] * 120_000, "big,1"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    refused(run("predict", model, tmp_path / "t.csv", "-o", tmp_path / "p.csv"), "t.csv", "invalid value 'big'")
    assert os.listdir(tmp_path) == ["t.csv"]


def test_a_line_that_is_cut_off(model, tmp_path):
    (tmp_path / "t.csv").write_text("size,count\n1,2\n3\n")
    refused(run("predict", model, tmp_path / "t.csv", "-o", tmp_path / "p.csv"), "to be a readable table", "t.csv")


def test_a_column_that_csv_cannot_hold(table, model):
    TABLE.assign(pair=[[1, 2]] * N).to_parquet(table)
    options = ("--keep", "pair", "-o")
    good("predict", model, table, *options, table.parent / "p.parquet")
    refused(
        run("predict", model, table, *options, table.parent / "p.csv"), "columns that a .csv file can hold, but got"
    )
    assert sorted(os.listdir(table.parent)) == ["p.parquet", table.name]


def test_what_is_no_model(table, tmp_path):
    refused(run("predict", tmp_path, table, "-o", tmp_path / "p.csv"), "to be a model folder, but it has no model.json")
    refused(run("export", tmp_path / "none", "--onnx", tmp_path / "m.onnx"), "a model folder, but it does not exist")


def test_a_model_that_was_saved_in_python(table, tmp_path):
    PrivilegedClassifier("no-pi", epochs=1).fit(TABLE[["size"]], TABLE["label"]).save(tmp_path / "model")
    good("predict", tmp_path / "model", table, "-o", tmp_path / "p.csv")
    assert len(pd.read_csv(tmp_path / "p.csv")) == len(TABLE)
    good("export", tmp_path / "model", "--onnx", tmp_path / "m.onnx")


def test_an_output_that_is_something_else(table, model):
    folder = table.parent / "thesis"
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    result = run("train", table, *ROLES, "-o", folder, "--overwrite")
    refused(result, "to be new or a model, but", "is something else")
    assert os.listdir(folder) == ["thesis.tex"]
    refused(run("predict", model, table, "-o", table.parent / "p.xlsx"), "to be a .parquet or .csv file, but got")
    (table.parent / "p.csv").mkdir()
    refused(run("predict", model, table, "-o", table.parent / "p.csv", "--overwrite"), "to be a file, but")


def test_a_million_identifiers(table):
    n = 1_000_000
    frame = pd.DataFrame({"key": [f"k{i}" for i in range(n)], "x": 1.0, "w": 1, "label": np.arange(n) % 2})
    frame.to_parquet(table)
    result = train(table, roles=["--target", "label", "--privileged", "w"])
    refused(result, "'key' has 1,000,000 distinct strings in 1,000,000 examples", "`--ignore`")


def test_an_unknown_method(table):
    refused(train(table, "--method", "trma"), "`--method`", "'trma'")


def test_an_unknown_device(table, model):
    refused(train(table, "--device", "toaster"), "`--device`", "'toaster'")
    refused(run("predict", model, table, "-o", table.parent / "p.csv", "--device", "toaster"), "'toaster'")


def test_a_method_that_needs_privileged_information(table):
    roles = ["--target", "label", "--ignore", "gold,annotator,seconds", "--example", "id"]
    refused(train(table, roles=roles), "`--privileged` to name columns, since method 'tram' learns from them")
    assert train(table, "--method", "no-pi", roles=roles).exit_code == 0


def test_an_example_with_two_inputs(table):
    TABLE.assign(size=RNG.normal(size=N)).to_parquet(table)
    refused(train(table), "`--example`", "rows 0 and 1 of example 'i0' differ in 'size'")


def test_the_text_extra_is_missing(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    TABLE.assign(note=[f"a note of number {i}" for i in range(N)], id=range(N)).to_parquet(table)
    refused(train(table, "--text-encoder", "some/model"), "the extra `text` (pip install 'lupi[text]'), but")


def test_the_export_extra_is_missing(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    refused(run("export", model, "--onnx", tmp_path / "m.onnx"), "the extra `export`")


# -------------------------------------------------------------------------------- disks


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, "no")


def test_a_folder_that_cannot_be_written(table, model, monkeypatch):
    def read_only(*_, **__):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(files.FileLock, "acquire", read_only)
    sentence = "to be writable, but got"
    refused(train(table), "`--output`", sentence, "Permission denied.")
    refused(run("predict", model, table, "-o", table.parent / "p.csv"), "`--output`", sentence, "Permission denied.")
    refused(run("export", model, "--onnx", table.parent / "m.onnx"), "`--onnx`", sentence, "Permission denied.")


def test_a_folder_below_a_file(table, model):
    refused(run("predict", model, table, "-o", table / "p.csv"), "`--output` to be writable, but got")


def test_a_full_disk_while_a_model_is_saved(table, monkeypatch):
    monkeypatch.setattr(Path, "write_bytes", no_space)
    refused(train(table), "`--output` to be writable, but got", "No space left on device.")
    assert os.listdir(table.parent) == [table.name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_a_full_disk_while_predictions_are_written(name, table, model, monkeypatch):
    """The writer gets a device without space."""
    find = prediction.find_writer
    monkeypatch.setattr(prediction, "find_writer", lambda path: lambda _, schema: find(path)("/dev/full", schema))
    monkeypatch.setattr(base, "ROWS_AT_ONCE", 10)
    TABLE.loc[TABLE.index.repeat(50)].to_parquet(table)
    refused(run("predict", model, table, "-o", table.parent / name), f"{name}: No space left on device.")
    assert os.listdir(table.parent) == [table.name]


def test_a_full_disk_while_a_model_is_exported(model, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "flush", no_space)
    refused(run("export", model, "--onnx", tmp_path / "m.onnx"), "`--onnx` to be writable", "No space left on device.")


# -------------------------------------------------------------------------------- the rest


def test_a_model_folder_holds_json_and_safetensors(model):
    assert sorted(os.listdir(model)) == sorted(
        ["README.md", "encoders.json", "model.json", "results.csv", "results.json", "weights.safetensors"]
    )


def test_seeds_repeat(table):
    weights = []
    for seed in (1, 1, 2):
        assert train(table, "--seed", seed, "--overwrite").exit_code == 0
        weights.append((table.parent / "model" / "weights.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


@pytest.mark.parametrize("method", ["no-pi", "two-step-tram", "full-marginalization", "auto"])
def test_a_method_trains_and_predicts(method, table):
    assert train(table, "--method", method).exit_code == 0
    good("predict", table.parent / "model", table, "-o", table.parent / "p.parquet")


def test_progress_is_plain_lines_in_a_log(table, model):
    result = train(table)
    assert "train epoch 1/1" in result.stderr
    result = good("predict", model, table, "-o", table.parent / "p.csv")
    assert result.stderr.splitlines() == ["predict rows (240/240)"]


def test_training_may_stop_early(tmp_path):
    TABLE.to_parquet(tmp_path / "t.parquet")
    options = [*TRAM, "--epochs", 40, "--patience", 1, "--learning-rate", 0.05]
    good("train", tmp_path / "t.parquet", *ROLES, *options, "-o", tmp_path / "m")
    history = pd.read_csv(tmp_path / "m" / "results.csv")
    assert 1 < len(history) < 40
    assert "validation_marginal" in history
