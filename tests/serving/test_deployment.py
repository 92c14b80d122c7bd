from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import lupi
from lupi.serving import export_onnx, train
from lupi.tabular import TableSpec

RNG = np.random.default_rng(0)
SETTINGS = {"epochs": 1, "hidden": (8,)}
FRAME = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["size", "weight"]).assign(
    big=RNG.integers(2, size=60), many=RNG.integers(2, size=60), price=RNG.normal(size=60)
)


def fit(folder, target, ignore=()):
    FRAME.to_parquet(folder / "t.parquet")
    spec = TableSpec(table=folder / "t.parquet", target=target, ignore=ignore)
    return train(spec, method="no-pi", settings=SETTINGS)


@pytest.mark.parametrize(
    ("target", "ignore", "output"),
    [
        (["big"], ["many", "price"], "probabilities, [rows, 2]: 0, 1"),
        (["big", "many"], ["price"], "probabilities, [rows, 2]: big, many"),
        (["price"], ["big", "many"], "real numbers, [rows]"),
    ],
    ids=["classes", "multi-label", "real"],
)
def test_the_graph_is_described_and_gives_the_predictions(target, ignore, output, tmp_path):
    model = fit(tmp_path, target, ignore)
    x, y = export_onnx(model, tmp_path / "model.onnx")
    assert x == "x: unscaled float32 numbers, [rows, 2]: size, weight"
    assert y == f"y: float32 {output}"
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = FRAME[["size", "weight"]]
    (got,) = session.run(["y"], {"x": inputs.to_numpy(np.float32)})
    expected = model.predict(inputs).filter(regex="^probability" if target != ["price"] else "^prediction")
    np.testing.assert_allclose(got.reshape(len(FRAME), -1), expected, atol=1e-5)


def test_an_estimator_is_exported(tmp_path):
    estimator = lupi.PrivilegedClassifier("no-pi", epochs=1).fit(FRAME[["size"]].to_numpy(), FRAME["big"])
    assert export_onnx(estimator, tmp_path / "model.onnx")[0].endswith("[rows, 1]: x0")


def test_text_cannot_be_exported(model, tmp_path):
    with pytest.raises(ValueError, match="'note' is text"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())


def test_an_existing_file_is_replaced_only_if_asked(tmp_path):
    model = fit(tmp_path, ["big"])
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(FileExistsError, match=r"`onnx`.*`overwrite=True`"):
        export_onnx(model, tmp_path / "model.onnx")
    export_onnx(model, tmp_path / "model.onnx", overwrite=True)


def test_each_file_of_a_model_is_read_once_to_export_it(tmp_path, monkeypatch):
    fit(tmp_path, ["big"]).save(tmp_path / "model")
    read, reads = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path.name) or read(path))
    export_onnx(lupi.load(tmp_path / "model"), tmp_path / "model.onnx")
    assert sorted(reads) == ["encoders.skops", "model.json", "weights.safetensors"]
