import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import lupi
from lupi.serving import TableModel, prediction, train
from lupi.serving.prediction import predict_table
from lupi.tabular import TableSpec

PROGRAM = Path(__file__).parent / "programs" / "predict_and_measure.py"
FAR = pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 reads no dates before 1677 or after 2262")


def test_predictions_do_not_depend_on_the_batches(model, table, tmp_path, monkeypatch):
    predict_table(model, table, tmp_path / "one.parquet")
    monkeypatch.setattr("lupi.tabular.formats.base.ROWS_AT_ONCE", 7)
    assert predict_table(model, table, tmp_path / "two.parquet") == 90
    one, two = (pd.read_parquet(tmp_path / name) for name in ("one.parquet", "two.parquet"))
    pd.testing.assert_frame_equal(one, two, atol=1e-6)
    assert pq.ParquetFile(tmp_path / "two.parquet").metadata.num_row_groups == 13


@pytest.mark.parametrize("name", ["t.parquet", "link.parquet", "hard.parquet", "folder/../t.parquet"])
def test_the_table_itself_is_never_replaced(name, model, frame, tmp_path):
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    before = path.read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.parquet").symlink_to(path)
    (tmp_path / "hard.parquet").hardlink_to(path)
    with pytest.raises(FileExistsError, match="`output` to be another file than the input"):
        predict_table(model, path, tmp_path / name, overwrite=True)
    assert path.read_bytes() == before
    path.rename(tmp_path / "folder" / "t.parquet")
    with pytest.raises(FileExistsError, match="`output` to be another file than the input"):
        predict_table(model, tmp_path / "folder", tmp_path / "folder" / "p.parquet")


def test_an_existing_file_is_replaced_only_if_asked(model, table, tmp_path):
    (tmp_path / "p.csv").write_text("mine")
    with pytest.raises(FileExistsError, match=r"`output`.*`overwrite=True`"):
        predict_table(model, table, tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "mine"


def save_estimator(X, folder, y=None, **options):
    """Fit an estimator in Python, save it and return it."""
    y = np.arange(len(X)) % 3 if y is None else y
    estimator = lupi.PrivilegedClassifier("no-pi", epochs=1, random_state=0, **options).fit(X, y)
    estimator.save(folder / "model")
    return estimator


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx", "jsonl"])
def test_a_folder_saved_in_python_predicts_tables(suffix, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=60), "code": rng.choice(["007", "7", "NA"], 60)})
    X = X.assign(
        open=rng.random(60) < 0.5,
        day=pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(100, size=60), "D"),
        note=[" ".join(rng.choice(["good", "bad", "dull", "bright"], 5)) for _ in range(60)],
    )
    expected = save_estimator(X, tmp_path).predict_proba(X)
    shuffled = X[["note", "day", "size", "open", "code"]].assign(worker="ann")
    path = tmp_path / f"t.{suffix}"
    write = {
        "csv": partial(shuffled.to_csv, index=False),
        "parquet": shuffled.to_parquet,
        "xlsx": partial(shuffled.to_excel, index=False),
        "jsonl": partial(shuffled.to_json, orient="records", lines=True, date_format="iso", double_precision=15),
    }
    write[suffix](path)
    assert predict_table(lupi.load(tmp_path / "model"), path, tmp_path / "p.parquet", keep=["worker"]) == 60
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert list(found) == ["worker", "prediction", "probability_0", "probability_1", "probability_2"]
    np.testing.assert_allclose(found.filter(like="probability"), expected, atol=1e-6)


def train_from_csv(X, folder):
    """Write a CSV file of inputs with a label, and train on it."""
    X.assign(label=np.arange(len(X)) % 3).to_csv(folder / "t.csv", index=False)
    spec = TableSpec(table=folder / "t.csv", target=["label"], ignore=[name for name in X if name == "key"])
    return train(spec, method="no-pi", settings={"epochs": 1, "hidden": (8,)})


@pytest.mark.parametrize(
    "values",
    [
        ["2026-01-01T10:00:00Z", "2026-01-02T11:30:00Z"],
        ["2026-01-01T10:00:00Z", "2026-01-02T11:30:00+02:00"],
        pytest.param(["1500-01-01", "9999-12-31"], marks=FAR),
        ["0x1F", "12"],
    ],
    ids=["UTC", "zones", "far", "hexadecimal"],
)
def test_the_csv_file_of_training_is_predicted(values, tmp_path):
    X = pd.DataFrame({"size": np.arange(30.0), "when": values * 15})
    model = train_from_csv(X, tmp_path)
    assert predict_table(model, tmp_path / "t.csv", tmp_path / "p.parquet") == 30


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_kept_names_of_missing_values_stay_as_they_are(suffix, tmp_path):
    key = ["NA", "N/A", "NULL", "nan", "x"]
    model = train_from_csv(pd.DataFrame({"size": np.arange(30.0), "key": key * 6}), tmp_path)
    predict_table(model, tmp_path / "t.csv", tmp_path / f"p.{suffix}", keep=["key"])
    read = {"csv": partial(pd.read_csv, keep_default_na=False), "parquet": pd.read_parquet}[suffix]
    assert read(tmp_path / f"p.{suffix}")["key"].tolist() == key * 6


def test_a_number_saved_in_python_is_predicted(tmp_path):
    X = pd.DataFrame({"size": np.arange(20.0)})
    lupi.PrivilegedRegressor("no-pi", epochs=1).fit(X, X["size"]).save(tmp_path / "model")
    X.to_csv(tmp_path / "t.csv", index=False)
    model = lupi.load(tmp_path / "model")
    predict_table(model, tmp_path / "t.csv", tmp_path / "p.parquet")
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "p.parquet")["prediction"], model.predict(X))


def test_an_estimator_of_arrays_takes_columns_in_their_order_with_a_warning(frame, tmp_path):
    X = frame[["size", "worker"]].assign(height=frame["size"] ** 2)
    expected = save_estimator(X.to_numpy(), tmp_path).predict_proba(X.to_numpy())
    X.to_csv(tmp_path / "t.csv", index=False)
    model = lupi.load(tmp_path / "model")
    with pytest.warns(UserWarning, match=r"fitted on an array, .* in their order: size, worker, height\.") as warned:
        predict_table(model, tmp_path / "t.csv", tmp_path / "p.parquet")
    assert len(warned) == 1
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "p.parquet").filter(like="probability"), expected, atol=1e-6)
    X.assign(id=1).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(
        ValueError, match=r"t\.csv to have 3 columns, as the array .*, but it has 4: fitted on a DataFrame"
    ):
        predict_table(model, tmp_path / "t.csv", tmp_path / "p.parquet", overwrite=True)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            pd.DataFrame({"code": ["a"], "open": [True]}),
            r"t\.parquet to have the model's input columns, .* no 'size'\.",
        ),
        (
            pd.DataFrame({"size": ["large"], "code": ["a"], "open": [True]}),
            "'size' to be finite numbers, .*'large' in row",
        ),
        (pd.DataFrame({"size": [1.0], "code": [[1, 2]], "open": [True]}), "'code' .* to be a number .* is a vector"),
        (pd.DataFrame({"size": [1.0], "code": ["a"], "open": ["no"]}), "'open' .* to be a boolean .* is a string"),
    ],
    ids=["missing", "no numbers", "a vector", "no booleans"],
)
def test_columns_that_do_not_fit_an_estimator_are_named(table, message, tmp_path):
    X = pd.DataFrame({"size": np.arange(30.0), "code": list("abc") * 10, "open": [True, False] * 15})
    estimator = save_estimator(X, tmp_path)
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=message):
        predict_table(estimator, tmp_path / "t.parquet", tmp_path / "p.csv")


def test_a_trunk_of_ones_own_takes_no_table(table, tmp_path):
    estimator = save_estimator(np.ones((9, 2), np.float32), tmp_path, trunk=torch.nn.Linear(2, 4))
    with pytest.raises(ValueError, match=r"`model` .* trunk of its own"):
        predict_table(estimator, table, tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("name", "keep", "message"),
    [
        ("p.xlsx", [], r"`output`.*p\.xlsx"),
        ("p.csv", ["colour"], "`keep`.* 'colour'"),
        ("p.csv", ["prediction"], "`keep`.* 'prediction'"),
        ("p.csv", ["pair"], r"\.csv file"),
    ],
    ids=["format", "unknown column", "column of the output", "lists in CSV"],
)
def test_outputs_that_cannot_be_written_are_refused(name, keep, message, model, frame, tmp_path):
    frame.assign(prediction=1, pair=[[1, 2]] * len(frame)).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=message):
        predict_table(model, tmp_path / "t.parquet", tmp_path / name, keep=keep)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_a_full_disk_is_named_and_leaves_nothing(name, model, table, tmp_path, monkeypatch):
    find = prediction.find_writer
    monkeypatch.setattr(prediction, "find_writer", lambda path: lambda _, schema: find(path)("/dev/full", schema))
    with pytest.raises(OSError, match=rf"`output`.*{name}: No space left on device"):
        predict_table(model, table, tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_an_interrupt_leaves_nothing(model, table, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(TableModel, "predict", interrupt)
    with pytest.raises(KeyboardInterrupt):
        predict_table(model, table, tmp_path / "p.csv")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_does_not_grow_with_the_table(tmp_path):
    """The larger table is one row group of 128 MB, of which only a part is in memory."""
    rng = np.random.default_rng(0)

    def write(rows, **more):
        columns = {f"x{i}": rng.normal(size=rows) for i in range(16)} | more
        pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=rows)

    write(90, label=np.arange(90) % 3)
    spec = TableSpec(table=tmp_path / "t.parquet", target=["label"])
    train(spec, method="no-pi", settings={"epochs": 1, "hidden": (8,)}, output=tmp_path / "model")
    peak = {}
    for rows in (200_000, 1_000_000):
        write(rows)
        arguments = [tmp_path / "model", tmp_path / "t.parquet", tmp_path / "p.parquet"]
        output = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=True)
        peak[rows] = int(output.stdout) * 1024
    assert peak[1_000_000] - peak[200_000] < 50e6, peak
    assert peak[1_000_000] < 1e9


def test_cells_that_spreadsheets_run_stay_as_they_are_and_are_warned_of(model, frame, tmp_path):
    """Programs find rows by their ids."""
    ids = [f"=cmd{i}" for i in range(len(frame))]
    frame.assign(key=ids).to_parquet(tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match=r"'key'.* formulas, such as '=cmd0'"):
        predict_table(model, tmp_path / "t.parquet", tmp_path / "p.csv", keep=["key"])
    assert pd.read_csv(tmp_path / "p.csv")["key"].tolist() == ids


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_ids_are_no_formulas(model, frame, tmp_path):
    frame.assign(key=[f"-{i}" for i in range(len(frame))]).to_parquet(tmp_path / "t.parquet")
    predict_table(model, tmp_path / "t.parquet", tmp_path / "p.csv", keep=["key"])
    predict_table(model, tmp_path / "t.parquet", tmp_path / "p.parquet", keep=["key"])


@pytest.mark.skipif(sys.platform != "linux", reason="paths are bytes on Linux alone")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_path_that_is_not_utf8_is_written(suffix, model, table, tmp_path):
    output = tmp_path / os.fsdecode(b"p\xff." + suffix.encode())
    predict_table(model, table, output)
    assert os.listdir(tmp_path) == [output.name]
