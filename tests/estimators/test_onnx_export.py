import json
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
from lupi.tabular.kinds.number import Boolean
from tests.estimators.helpers import IMAGES, LABELS, QUICK, RNG, A, Net, X, Y

X_NEW = RNG.normal(size=(1000, 3))


@pytest.fixture(autouse=True)
def _forget_exports():
    torch.compiler.reset()  # torch 2.6 allows few per process


@pytest.fixture(scope="module")
def model():
    return PrivilegedClassifier("tram", **QUICK).fit(X, Y, privileged=A)


def run(path, x):
    """Return the last output: probabilities, or predictions."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[-1]


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
    predict = model.predict if labels == "real" else model.predict_proba
    expected = predict(NUMBERS)
    np.testing.assert_allclose(run(file, NUMBERS), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(run(file, NUMBERS[:1]), expected[:1], rtol=1e-6, atol=1e-6)


def test_a_trunk_of_your_own_is_exported(tmp_path):
    images = PrivilegedClassifier("tram", trunk=Net(), **QUICK).fit(IMAGES, Y, privileged=A)
    with pytest.raises(ValueError, match=r"`X`.* None"):
        images.export_onnx(tmp_path / "images.onnx")
    images.export_onnx(tmp_path / "images.onnx", X=IMAGES[:5].astype(np.float64))
    np.testing.assert_allclose(run(tmp_path / "images.onnx", IMAGES), images.predict_proba(IMAGES), rtol=0, atol=1e-6)
    tokens = RNG.integers(20, size=(60, 5))
    texts = PrivilegedClassifier("tram", trunk=Words(), **QUICK).fit(tokens, Y, privileged=A)
    texts.export_onnx(tmp_path / "texts.onnx", X=tokens[:1])
    np.testing.assert_allclose(run(tmp_path / "texts.onnx", tokens), texts.predict_proba(tokens), rtol=0, atol=1e-6)


class Words(nn.Embedding):
    def __init__(self):
        super().__init__(20, 4)

    def forward(self, tokens):
        return super().forward(tokens).mean(1)


def test_large_numbers_keep_their_precision(tmp_path):
    """Dates in seconds as inputs and prices as outputs, from a frame that is also what the export checks with."""
    table = pd.DataFrame({"time": 1.7e9 + 1e4 * X_NEW[:200, 0], "rooms": RNG.integers(1, 9, 200)})
    y = 3e5 + 1e5 * X_NEW[:200, 0] + 1e4 * table["rooms"]
    model = PrivilegedRegressor("no-pi", epochs=20, random_state=0).fit(table, y)
    model.export_onnx(tmp_path / "model.onnx", X=table[:20])
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (result,) = session.run(["prediction"], {name: table[name].to_numpy(np.float64) for name in table})
    np.testing.assert_allclose(result, model.predict(table), rtol=1e-6)


@pytest.mark.parametrize(
    "classes",
    [["no", "so", "yes"], [3, 50, 700], [1.0, 2.0, 4.0], [False, True], np.array([3, 50], np.uint8)],
    ids=["str", "int", "float", "bool", "uint8"],
)
def test_labels_have_the_type_of_classes(classes, tmp_path):
    y = np.array(classes)[np.arange(60) % len(classes)]
    model = PrivilegedClassifier("no-pi", **QUICK).fit(X, y)
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (label,) = session.run(["label"], {"x": X})
    np.testing.assert_array_equal(label, model.predict(X))
    assert label.dtype == (object if y.dtype.kind == "U" else y.dtype)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == y[: len(classes)].tolist()


def test_columns_may_have_the_names_of_operators_but_not_of_outputs(tmp_path):
    table = pd.DataFrame(X, columns=["x", "linear", "lupi/constant"])
    PrivilegedClassifier("no-pi", **QUICK).fit(table, Y).export_onnx(tmp_path / "model.onnx")
    model = PrivilegedClassifier("no-pi", **QUICK).fit(table.rename(columns={"linear": "label"}), Y)
    with pytest.raises(ValueError, match=r"the name of an output .*'label'"):
        model.export_onnx(tmp_path / "model.onnx")


def test_a_kind_that_measures_otherwise_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Boolean, "measure", lambda _, numbers: numbers + 1)
    model = PrivilegedClassifier("no-pi", **QUICK).fit(pd.DataFrame({"open": X[:, 0] > 0}), Y)
    with pytest.raises(ValueError, match="column 'open' is of kind 'boolean'"):
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
