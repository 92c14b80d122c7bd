import logging
import os
import sys
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from torch import nn

from lupi import PrivilegedClassifier, PrivilegedRegressor, methods
from lupi.estimators import onnx_export
from lupi.nn import MLP, Parts
from tests.estimators.helpers import IMAGES, LABELS, QUICK, RNG, A, Net, X, Y

X_NEW = RNG.normal(size=(1000, 3))


@pytest.fixture(scope="module")
def model():
    return PrivilegedClassifier("tram", **QUICK).fit(X, Y, privileged=A)


def run(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(["y"], {"x": x})
    return y


NUMBERS = X_NEW * [1, 100, 1e-3] + [0, -500, 2]


@pytest.mark.parametrize(
    ("method", "labels"), [("tram", "classes"), ("full-marginalization", "multi-label"), ("het-tram", "real")]
)
def test_onnx_equals_torch(method, labels, tmp_path, capfd, caplog):
    kind, y, _ = LABELS[labels]
    model = kind(method, **QUICK).fit(NUMBERS[:60], y, privileged=A)
    file = tmp_path / "folder" / "model.onnx"
    with warnings.catch_warnings(record=True, action="always") as warned:
        model.export_onnx(file)
    assert capfd.readouterr() == ("", "")
    assert not warned
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert os.listdir(file.parent) == ["model.onnx"]
    rows = NUMBERS.astype(np.float32)
    predict = model.predict if labels == "real" else model.predict_proba
    expected = predict(rows.astype(np.float64))
    np.testing.assert_allclose(run(file, rows), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(run(file, rows[:1]), expected[:1], rtol=0, atol=1e-5)


def test_a_trunk_of_your_own_is_exported(tmp_path):
    images = PrivilegedClassifier("tram", trunk=Net(), **QUICK).fit(IMAGES, Y, privileged=A)
    with pytest.raises(ValueError, match=r"`X`.* None"):
        images.export_onnx(tmp_path / "images.onnx")
    images.export_onnx(tmp_path / "images.onnx", X=IMAGES[:5].astype(np.float64))
    np.testing.assert_allclose(run(tmp_path / "images.onnx", IMAGES), images.predict_proba(IMAGES), rtol=0, atol=1e-5)
    tokens = RNG.integers(20, size=(60, 5))
    texts = PrivilegedClassifier("tram", trunk=Words(), **QUICK).fit(tokens, Y, privileged=A)
    texts.export_onnx(tmp_path / "texts.onnx", X=tokens[:1])
    np.testing.assert_allclose(run(tmp_path / "texts.onnx", tokens), texts.predict_proba(tokens), rtol=0, atol=1e-5)


class Words(nn.Embedding):
    def __init__(self):
        super().__init__(20, 4)

    def forward(self, tokens):
        return super().forward(tokens).mean(1)


def test_large_numbers_keep_their_precision(tmp_path):
    """Dates in seconds as inputs and prices as outputs, from a frame that is also what the export checks with."""
    table = pd.DataFrame({"time": 1.7e9 + 1e4 * X_NEW[:200, 0], "rooms": RNG.integers(1, 9, 200)}).astype(np.float32)
    y = 3e5 + 1e5 * X_NEW[:200, 0] + 1e4 * table["rooms"]
    model = PrivilegedRegressor("no-pi", epochs=20, random_state=0).fit(table, y)
    model.export_onnx(tmp_path / "model.onnx", X=table[:20])
    result = run(tmp_path / "model.onnx", table.to_numpy())
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, model.predict(table), rtol=1e-5)


def test_categories_cannot_be_exported(tmp_path):
    table = pd.DataFrame({"size": X[:, 0], "city": RNG.choice(["Bern", "Rome"], 60)})
    model = PrivilegedClassifier("tram", **QUICK).fit(table, Y, privileged=A)
    with pytest.raises(ValueError, match="'city' is a category"):
        model.export_onnx(tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())


def test_an_onnx_file_that_differs_is_not_left(model, tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_bytes(b"old")
    monkeypatch.setitem(onnx_export.export_onnx.__kwdefaults__, "tolerance", -1.0)
    with pytest.raises(ValueError, match="differs by"):
        model.export_onnx(tmp_path / "model.onnx")
    assert os.listdir(tmp_path) == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_bytes() == b"old"


def test_export_needs_an_extra(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="extra `export`"):
        model.export_onnx(tmp_path / "model.onnx")


def test_loggers_are_silenced_for_a_while():
    logger = logging.getLogger("lupi.test")
    logger.setLevel(logging.INFO)
    with onnx_export.silence("lupi.test"):
        assert logger.level == logging.ERROR
        warnings.warn("silenced", stacklevel=1)
    assert logger.level == logging.INFO


@pytest.mark.parametrize(
    ("trunk", "features", "x"),
    [(lambda: MLP(3, (8, 8)), 8, torch.ones(4, 3)), (Net, 4, torch.ones(4, 1, 8, 8))],
    ids=["MLP", "convolutions"],
)
@pytest.mark.parametrize("labels", LABELS)
def test_tram_costs_what_no_pi_costs(trunk, features, x, labels):
    """The two predictors are the same list of operators on tensors of the same shapes."""
    parts = Parts(
        trunk,
        features=features,
        privileged=5,
        outputs=1 if labels == "real" else 3,
        likelihood=LABELS[labels][2](),
    )

    def operators(name):
        program = torch.export.export(
            methods.build(name, parts).predictor().eval(), (x,), dynamic_shapes=({0: torch.export.Dim("rows")},)
        )
        calls = [node for node in program.graph.nodes if node.op == "call_function"]
        return [(node.target, str(node.meta["val"].shape)) for node in calls], {
            name: tuple(value.shape) for name, value in program.state_dict.items()
        }

    assert operators("tram") == operators("no-pi")
    assert len(operators("tram")[0]) > 3
