from pathlib import Path

import pandas as pd
import pytest

import lupi
from lupi.serving import TableModel, predict_table
from lupi.tabular import TransformerEncoder


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
    assert sorted(reads) == ["encoders.skops", "model.json", "weights.safetensors"]


def test_a_text_encoder_that_has_moved_is_found(model, tmp_path, monkeypatch):
    (tmp_path / "bert").mkdir()
    encoder = TransformerEncoder("elsewhere/bert")
    encoder.version_ = "1"
    moved = TableModel(estimator=model.estimator, schema=model.schema, encoders={"note": encoder}, record=model.record)
    moved.save(tmp_path / "model")
    assert lupi.load(tmp_path / "model").encoders["note"].name == "elsewhere/bert"
    monkeypatch.chdir(tmp_path)
    assert lupi.load("model", text_encoder="bert").encoders["note"].name == str(tmp_path / "bert")


def test_an_unknown_device_is_refused(folder):
    with pytest.raises(ValueError, match=r"`device`.* 'toaster'"):
        lupi.load(folder, device="toaster")
