"""A table model as an ONNX file, run by onnxruntime and numpy alone."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import lupi
from lupi.serving import train
from lupi.serving.model import export_onnx
from lupi.serving.prediction import predict_table
from lupi.tabular import TableSpec
from tests.test_dependencies import closure

EXAMPLE = Path(__file__).parents[2] / "examples" / "predict_onnx.py"
ALONE = Path(__file__).parent / "programs" / "run_alone.py"
WORDS = ["Gut", "Große", "naïve", "dull", "BRIGHT", "x_1", "don't", "北京", "a", "plot", "cast"]


def draw(rows, seed):
    """Return a table with all kinds of columns that a CSV file can hold, some of them missing."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("1999-12-30") + pd.to_timedelta(rng.integers(0, 10**9, rows), unit="s")
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, rows),
            "count": rng.integers(0, 9, rows),
            "city": rng.choice(["Bern", "Rome", "Zürich", "new"] if seed else ["Bern", "Rome", "Zürich"], rows),
            "zip": rng.choice([8000, 3000, 99], rows),
            "open": rng.random(rows) > 0.5,
            "day": days.strftime("%Y-%m-%d"),
            "time": days.strftime("%Y-%m-%dT%H:%M:%S+02:00"),
            "note": [" ".join(rng.choice(WORDS, 6)) + rng.choice([".", "!", ""]) for _ in range(rows)],
        }
    )
    for name in ("age", "city", "day", "note"):
        table.loc[rng.random(rows) < 0.1, name] = None
    return table.assign(label=np.where(table["count"] + rng.normal(size=rows) > 4, "yes", "no"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, its ONNX file and a thousand new rows with unseen categories."""
    folder = tmp_path_factory.mktemp("onnx")
    draw(300, 0).to_csv(folder / "train.csv", index=False)
    draw(1000, 1).drop(columns="label").to_csv(folder / "new.csv", index=False)
    spec = TableSpec(table=folder / "train.csv", target=["label"], kind={"zip": "category"})
    model = train(spec, method="no-pi", settings={"epochs": 30}, output=folder / "model")
    kinds = {name: column.kind for name, column in model.schema.inputs.items()}
    assert kinds["note"] == "text"
    assert kinds["day"] == kinds["time"] == "number"
    export_onnx(lupi.load(folder / "model"), folder / "model.onnx")
    return folder


def test_onnxruntime_and_numpy_are_enough(folder, tmp_path):
    """The example runs without torch, pandas and lupi, and gives the predictions of `lupi predict`."""
    with pytest.warns(UserWarning, match="'city' has categories that were not in the training table"):
        predict_table(lupi.load(folder / "model"), folder / "new.csv", tmp_path / "expected.csv")
    for distribution in (*closure(metadata.distribution("onnxruntime"), ()), metadata.distribution("onnxruntime")):
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = tmp_path / "packages" / top
            link.parent.mkdir(exist_ok=True)
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
    assert not {"torch", "pandas", "lupi", "onnx"} & {path.name for path in (tmp_path / "packages").iterdir()}
    arguments = [tmp_path / "packages", EXAMPLE, "model.onnx", "new.csv", tmp_path / "got.csv"]
    subprocess.run([sys.executable, "-I", "-S", ALONE, *arguments], cwd=folder, check=True)
    got, expected = pd.read_csv(tmp_path / "got.csv"), pd.read_csv(tmp_path / "expected.csv")
    assert got["prediction"].tolist() == expected["prediction"].tolist()
    assert list(got) == list(expected)
    np.testing.assert_allclose(got.filter(like="prob"), expected.filter(like="prob"), rtol=0, atol=1e-6)
    assert 0.1 < (got["prediction"] == "yes").mean() < 0.9


def test_metadata_describe_inputs_and_classes(folder):
    facts = onnxruntime.InferenceSession(folder / "model.onnx").get_modelmeta()
    known = {name: json.loads(text) for name, text in facts.custom_metadata_map.items()}
    assert (facts.producer_name, known["classes"]) == ("lupi", ["no", "yes"])
    assert known["versions"]["lupi"] == lupi.__version__
    assert known["inputs"] == {
        "age": {"kind": "number", "type": "float64", "missing": "NaN"},
        "count": {"kind": "number", "type": "float64", "missing": "NaN"},
        "city": {"kind": "category", "type": "string", "missing": ""},
        "zip": {"kind": "category", "type": "string", "missing": ""},
        "open": {"kind": "boolean", "type": "float64", "missing": "NaN"},
        "day": {"kind": "number", "type": "string", "missing": ""},
        "time": {"kind": "number", "type": "string", "missing": ""},
        "note": {"kind": "text", "type": "string", "missing": ""},
    }


def test_a_frame_of_any_types_is_exported(tmp_path):
    """Dates of pandas are seconds, an empty string may be a category, and categories may be numbers or booleans."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**8, 80), unit="s"),
            "day": pd.Series(pd.date_range("1890-01-01", periods=80)).dt.strftime("%Y-%m-%d"),
            "name": rng.choice(["", "ann", None], 80),
            "level": rng.choice([1.0, 2.5, np.nan], 80),
            "vector": list(rng.normal(size=(80, 3))),
        }
    )
    model = lupi.PrivilegedClassifier("no-pi", kind={"level": "category"}, epochs=3, random_state=0)
    model.fit(table, rng.integers(2, size=80))
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = {
        "when": (table["when"] - pd.Timestamp(0)).dt.total_seconds().to_numpy(),
        "day": table["day"].to_numpy(object),
        "name": table["name"].fillna("(missing)").to_numpy(object),
        "level": table["level"].map({1.0: "1", 2.5: "2.5"}).fillna("").to_numpy(object),
        "vector": np.stack(table["vector"]),
    }
    (p,) = session.run(["probabilities"], inputs)
    np.testing.assert_allclose(p, model.predict_proba(table), rtol=0, atol=1e-6)
