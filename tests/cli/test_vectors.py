"""Columns of vectors, in every command that reads a table."""

import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import lupi
from tests.cli.helpers import refused, run

N = 60
RNG = np.random.default_rng(0)
E = RNG.normal(size=(N, 4)).astype(np.float32)
FRAME = pd.DataFrame({"age": RNG.normal(size=N), "judge": RNG.choice(["a", "b", "c"], N)})
FRAME["label"] = np.where(E[:, 0] + FRAME["age"] > 0, "yes", "no")
ROLES = ["--target", "label", "--privileged", "judge"]


def good(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def write(path, vectors, frame=FRAME):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(table.append_column("embedding", lists), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table, with its vectors stored in two ways."""
    folder = tmp_path_factory.mktemp("tables")
    write(folder / "lists.parquet", E)
    FRAME.assign(embedding=[str(row) for row in E.tolist()]).to_csv(folder / "strings.csv", index=False)
    return folder


WAYS = {
    "lists.parquet": [],
    "strings.csv": ["--kind", "embedding=vector"],
}


@pytest.fixture(scope="module")
def models(folder):
    for name, kind in WAYS.items():
        options = [*ROLES, "--method", "tram", "--epochs", 1, "-o", folder / f"model-{name}"]
        assert "1 vector (embedding)" in good("train", folder / name, *kind, *options).stdout
    return folder


def test_it_does_not_matter_how_vectors_are_stored(models, tmp_path):
    p = []
    for name in WAYS:
        file = tmp_path / f"{name}.parquet"
        good("predict", models / f"model-{name}", models / name, "-o", file)
        p.append(pd.read_parquet(file)["probability_yes"])
    for other in p[1:]:
        np.testing.assert_allclose(other, p[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("vectors", "part"),
    [(E[:, :3], "to have 4 numbers as in training, but row 0 has 3"), (E * [[np.nan, 1, 1, 1]], "nan in row 0")],
)
def test_vectors_of_another_kind(models, tmp_path, vectors, part):
    table = write(tmp_path / "new.parquet", np.asarray(vectors))
    refused(run("predict", models / "model-lists.parquet", table, "-o", tmp_path / "p.csv"), "'embedding'", part)


def test_onnx(models, tmp_path):
    stdout = good("export", models / "model-lists.parquet", "--onnx", tmp_path / "m.onnx").stdout
    assert "Input: embedding (float64 [rows, 4])" in stdout
    inputs = {"age": FRAME["age"].to_numpy(np.float64), "embedding": E.astype(np.float64)}
    (y,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(["probabilities"], inputs)
    expected = lupi.load(models / "model-lists.parquet").predict(pd.read_parquet(models / "lists.parquet"))
    np.testing.assert_allclose(y[:, 1], expected["probability_yes"], atol=1e-6)


def test_privileged_vectors_reach_every_command(folder, tmp_path):
    roles = ["--target", "label", "--privileged", "judge,embedding", "--epochs", 1]
    table = folder / "lists.parquet"
    shown = good("train", table, *roles, "--method", "tram", "-o", tmp_path / "model").stdout
    assert "embedding (vector)" in shown
    assert list(lupi.load(tmp_path / "model").schema.inputs) == ["age"]
    compare = ["--methods", "tram", "--controls", "--seeds", 2, "--jobs", 1]
    good("compare", table, *roles, *compare, "-o", tmp_path / "compare")
    good("diagnose", table, *roles, "--folds", 2, "--jobs", 1, "-o", tmp_path / "diagnose")
    assert "embedding" in pd.read_csv(tmp_path / "diagnose" / "information.csv")["column"].tolist()


def test_vectors_as_inputs_of_comparisons_and_diagnoses(folder, tmp_path):
    few = ["--epochs", 1, "--jobs", 1]
    options = ["--methods", "tram", "--seeds", 2, "--test", folder / "strings.csv"]
    good("compare", folder / "strings.csv", *WAYS["strings.csv"], *ROLES, *few, *options, "-o", tmp_path / "compare")
    good("diagnose", folder / "lists.parquet", *ROLES, *few, "--folds", 2, "-o", tmp_path / "diagnose")
    assert list(pd.read_csv(tmp_path / "diagnose" / "labels.csv"))[-1] == "age"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--kind", "embedding=number"], ["'embedding'", "vector"]),
        (["--kind", "age=vector"], ["'age'", "lists of numbers", "number"]),
        (["--target", "embedding", "--ignore", "label"], ["'embedding'", "vector"]),
    ],
)
def test_vectors_where_they_do_not_belong(folder, tmp_path, options, parts):
    roles = ROLES if "--target" not in options else ["--privileged", "judge"]
    refused(run("train", folder / "lists.parquet", *roles, *options, "-o", tmp_path / "model"), *parts)
