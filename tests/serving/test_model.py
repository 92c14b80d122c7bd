import copy
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import lupi
from lupi.serving import TableModel, train
from lupi.serving.model import export_onnx, list_encoders
from lupi.serving.prediction import predict_table
from lupi.tabular import TableSpec, TransformerEncoder

# -------------------------------------------------------------------------------- save and load


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    model.save(folder)
    return folder


def test_a_table_model_comes_back(model, folder, frame):
    loaded = lupi.load(folder)
    assert isinstance(loaded, TableModel)
    assert (loaded.schema, loaded.record["notes"]) == (model.schema, model.record["notes"])
    new = frame[["note", "size"]].assign(other=1)
    pd.testing.assert_frame_equal(loaded.predict(new), model.predict(new))
    assert list(loaded.predict(new)) == ["prediction", "probability_0", "probability_1", "probability_2"]


def test_predictions_keep_the_index_of_a_table(model, frame):
    predicted = model.predict(frame)
    shuffled = frame.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(model.predict(shuffled).sort_index(), predicted)
    assert model.predict(shuffled).index.equals(shuffled.index)


def test_tables_of_other_libraries_are_predicted(model, frame):
    inputs = frame[["note", "size"]]
    expected = model.predict(inputs).reset_index(drop=True)
    for table in (pl.from_pandas(inputs), pa.Table.from_pandas(inputs, preserve_index=False)):
        pd.testing.assert_frame_equal(model.predict(table), expected)


def test_records_are_predicted_and_a_missing_column_is_named(model, frame):
    """By the model of a table and by its estimator."""
    inputs = frame[["size", "note"]]
    rows, columns = inputs.to_dict("records"), inputs.to_dict("list")
    expected = model.predict(inputs)
    for table in (rows, columns):
        pd.testing.assert_frame_equal(model.predict(table), expected)
        np.testing.assert_array_equal(model.estimator.predict(table), expected["prediction"])
    pd.testing.assert_frame_equal(model.predict(rows[0]), expected[:1])
    assert model.estimator.predict(rows[0]) == expected["prediction"][:1].to_numpy()
    for table in (frame[["size"]], {"size": 1.5}, [{"size": 1.5}]):
        with pytest.raises(ValueError, match="the table to have the model's input columns, but it has no 'note'"):
            model.predict(table)
        with pytest.raises(ValueError, match=r"now missing:\s- note"):
            model.estimator.predict(table)
    with pytest.raises(ValueError, match=r"columns of one length, but got {'size': 1, 'note': 2}"):
        model.predict({"size": [1.0], "note": ["good", "bad"]})


def test_a_probability_that_is_not_a_number_names_row_and_class(model, frame):
    broken = copy.deepcopy(model)
    broken.estimator.predictor_.register_forward_hook(lambda *given: given[-1] * torch.nan)
    with pytest.raises(FloatingPointError, match=r"Expected .*, but the probability of '0' is nan in row 40\."):
        broken.predict(frame, start=40)


def test_an_estimator_comes_back(frame, tmp_path):
    estimator = lupi.PrivilegedClassifier("no-pi", epochs=1).fit(frame[["size"]], frame["label"])
    estimator.save(tmp_path / "model")
    assert isinstance(lupi.load(tmp_path / "model"), lupi.PrivilegedClassifier)


def test_a_loaded_model_is_saved_again(folder, frame, tmp_path):
    loaded = lupi.load(folder)
    loaded.save(tmp_path / "again")
    pd.testing.assert_frame_equal(lupi.load(tmp_path / "again").predict(frame), loaded.predict(frame))
    assert (tmp_path / "again" / "README.md").read_text() == (folder / "README.md").read_text()


def test_each_file_of_a_model_is_read_once_to_predict_a_table(folder, table, tmp_path, monkeypatch):
    read, reads = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path.name) or read(path))
    monkeypatch.setattr(Path, "read_text", None)
    predict_table(lupi.load(folder), table, tmp_path / "p.csv")
    assert sorted(reads) == ["encoders.json", "model.json", "weights.safetensors"]


def test_a_text_encoder_is_loaded_only_from_where_the_user_says(model, tmp_path, monkeypatch):
    (tmp_path / "bert").mkdir()
    encoder = TransformerEncoder("elsewhere/bert")
    encoder.version_ = "1"
    moved = copy.deepcopy(model)
    moved.estimator.input_encoder_.encodings_[1].encoder = encoder
    moved.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"`text_encoder` to say where .* which was elsewhere/bert in training"):
        lupi.load(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    (loaded,) = list_encoders(lupi.load("model", text_encoder="bert").estimator)
    assert loaded.name == str(tmp_path / "bert")


def test_an_unknown_device_is_refused(folder):
    with pytest.raises(ValueError, match=r"`device`.* 'toaster'"):
        lupi.load(folder, device="toaster")


# -------------------------------------------------------------------------------- export

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
        (["big"], ["many", "price"], "Outputs: label, probabilities (float32) of 0, 1"),
        (["big", "many"], ["price"], "Outputs: label, probabilities (float32) of big, many"),
        (["price"], ["big", "many"], "Output: prediction (float64)"),
    ],
    ids=["classes", "multi-label", "real"],
)
def test_the_graph_is_described_and_gives_the_predictions(target, ignore, output, tmp_path):
    model = fit(tmp_path, target, ignore)
    described = export_onnx(model, tmp_path / "model.onnx")
    assert described == ["Inputs: size, weight (float64, NaN if missing)", output]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = FRAME[["size", "weight"]]
    first, *others = session.run(None, {name: inputs[name].to_numpy() for name in inputs})
    predicted = model.predict(inputs)
    if others:
        np.testing.assert_array_equal(first.reshape(len(FRAME), -1), predicted.filter(regex="^prediction"))
        np.testing.assert_allclose(others[0], predicted.filter(regex="^probability"), atol=1e-6)
    else:
        np.testing.assert_allclose(first, predicted["prediction"], atol=1e-6)


@pytest.mark.parametrize(
    ("target", "ignore", "columns"),
    [(["big"], ["many", "price"], [0, 1]), (["big", "many"], ["price"], ["big", "many"])],
    ids=["classes", "multi-label"],
)
def test_probabilities_are_those_of_the_estimator_and_of_predict(target, ignore, columns, tmp_path):
    model = fit(tmp_path, target, ignore)
    table = FRAME.sample(frac=1, random_state=0)
    p = model.predict_proba(table)
    assert (list(p.columns), p.index.equals(table.index)) == (columns, True)
    np.testing.assert_array_equal(p, model.estimator.predict_proba(table[["size", "weight"]]))
    expected = model.predict(table).filter(regex="^probability").set_axis(columns, axis="columns")
    pd.testing.assert_frame_equal(p.astype(np.float32), expected)
    pd.testing.assert_frame_equal(model.predict_proba(pl.from_pandas(table)), p.reset_index(drop=True))


def test_numbers_have_no_probabilities(tmp_path):
    with pytest.raises(ValueError, match="Expected a classifier for `predict_proba`"):
        fit(tmp_path, ["price"], ["big", "many"]).predict_proba(FRAME)


def test_an_estimator_is_exported(tmp_path):
    estimator = lupi.PrivilegedClassifier("no-pi", epochs=1).fit(FRAME[["size"]].to_numpy(), FRAME["big"])
    assert export_onnx(estimator, tmp_path / "model.onnx")[0] == "Input: x (float64 [rows, 1])"


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
    assert sorted(reads) == ["encoders.json", "model.json", "weights.safetensors"]
