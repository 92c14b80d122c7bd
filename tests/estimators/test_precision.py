"""Estimators in double precision."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch import nn

from lupi import PrivilegedClassifier, PrivilegedRegressor, load, methods
from lupi.estimators import fit_together
from lupi.estimators.folder import save_model_folder
from lupi.estimators.storing import pack_model
from tests.estimators.helpers import A_NEW, IMAGES, LABELS, MULTI, REAL, X_NEW, A, Net, X, Y, classifier, regressor

CASES = [
    (method, labels)
    for labels, (_, _, likelihood) in LABELS.items()
    for method in methods.names()
    if likelihood in methods.kind(method).likelihoods
]


def types_of(network):
    """Return the floating-point types of a network."""
    return {tensor.dtype for tensor in network.state_dict().values() if tensor.is_floating_point()}


def predict(model, rows):
    return model.predict_proba(rows) if isinstance(model, PrivilegedClassifier) else model.predict(rows)


@pytest.mark.parametrize(("method", "labels"), CASES)
def test_every_method_trains_is_saved_and_loaded(method, labels, tmp_path):
    y = LABELS[labels][1]
    make = regressor if labels == "real" else classifier
    model = make(method, dtype="float64", epochs=1).fit(X, y, privileged=A)
    assert types_of(model.method_) | types_of(model.predictor_) == {torch.float64}
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.dtype == "float64"
    assert types_of(loaded.method_) == {torch.float64}
    np.testing.assert_array_equal(predict(loaded, X_NEW), predict(model, X_NEW))
    single = make(method, epochs=1).fit(X, y, privileged=A)
    assert types_of(single.method_) == {torch.float32}
    assert (predict(single, X_NEW) != predict(model, X_NEW)).any()


def test_a_linear_model_reaches_least_squares():
    rng = np.random.default_rng(0)
    rows = X * [1, 1e3, 1e-3] + [0, 5, 2]
    y, weight = X @ [1.0, -2.0, 0.5] + 7 + rng.normal(size=60), rng.uniform(0.5, 2, size=60)
    root = np.sqrt(weight)[:, np.newaxis]
    solution = np.linalg.lstsq(root * np.hstack([rows, np.ones((60, 1))]), root[:, 0] * y)[0]
    how = {"hidden": (), "epochs": 300, "batch_size": 60, "learning_rate": 0.5, "random_state": 0}
    how["training"] = {"optimizer": "sgd", "momentum": 0.0}
    errors = []
    for dtype in ("float32", "float64"):
        model = PrivilegedRegressor("no-pi", dtype=dtype, **how).fit(rows, y, sample_weight=weight)
        errors.append(np.abs(model.predict(rows) - np.hstack([rows, np.ones((60, 1))]) @ solution).max())
    assert errors[1] < 1e-11 < 1e-9 < errors[0] < 1e-4


@pytest.mark.parametrize("precision", ["bfloat16", "tfloat32"])
def test_the_precision_of_matrix_products_has_no_effect(precision):
    models = [classifier(dtype="float64", training={"precision": name}) for name in ("float32", precision)]
    one, other = (model.fit(X, Y, privileged=A).predict_proba(X_NEW) for model in models)
    np.testing.assert_array_equal(one, other)


def test_nothing_is_rounded_before_training():
    """Numbers among categories, standardized privileged numbers, soft labels, true labels and held-out data."""
    table = pd.DataFrame(X / 3, columns=list("abc")).assign(d=A["annotator"].fillna("?"))
    p = (MULTI + 1) / (MULTI + 1).sum(1, keepdims=True)
    model = classifier(dtype="float64", soft=True, numbers="standardize")
    data, held_out, *_ = model._prepare(table, p, privileged=A, gold=Y.clip(0, 1), eval_set=(table, p, A))
    numbers = (X / 3 - (X / 3).mean(0)) / (X / 3).std(0)
    np.testing.assert_allclose(data.x[:, :3].numpy(), numbers, rtol=1e-13, atol=1e-13)
    seconds = A["seconds"].to_numpy()
    expected = (seconds - seconds.mean()) / seconds.std()
    np.testing.assert_allclose(data.a.dense()[:, -1].numpy(), expected, rtol=1e-13, atol=1e-13)
    for part in (data, held_out):
        assert (part.x.dtype, part.a.dtype, part.dtype) == (torch.float64,) * 3
        np.testing.assert_array_equal(part.y.numpy(), p)
    without = classifier("no-pi", dtype="float64")._prepare(X, Y, eval_set=(X, Y))
    assert [part.a.dtype for part in without[:2]] == [torch.float64] * 2


def test_trunks_of_your_own_are_converted():
    model = classifier(trunk=Net(), dtype="float64", members=2).fit(IMAGES, Y, privileged=A)
    assert types_of(model.method_) == {torch.float64}
    np.testing.assert_array_equal(model.predict_proba(torch.from_numpy(IMAGES)), model.predict_proba(IMAGES))
    words = nn.Sequential(nn.Embedding(20, 4), nn.Flatten())
    tokens = np.arange(120).reshape(60, 2) % 20
    assert types_of(classifier(trunk=words, dtype="float64").fit(tokens, Y, privileged=A).method_) == {torch.float64}
    assert types_of(words) == {torch.float32}  # a copy was converted


def test_models_that_train_together_and_go_on():
    one = {"X": X, "y": Y, "privileged": A}
    models = [classifier(dtype="float64", random_state=seed, warm_start=True) for seed in range(2)]
    fit_together(models, [one, one])
    assert types_of(models[1].fit(**one).method_) == {torch.float64}
    given = models[1].predict_proba_given(X_NEW, A_NEW)
    assert (given != given.astype(np.float32)).any()


def test_a_model_without_privileged_information_is_saved_and_loaded(tmp_path):
    model = regressor(dtype="float64").fit(X, REAL, privileged=A)
    model.save(tmp_path / "model", privileged=False)
    loaded = load(tmp_path / "model")
    assert types_of(loaded.predictor_) == {torch.float64}
    np.testing.assert_array_equal(loaded.predict(X_NEW), model.predict(X_NEW))


def test_a_folder_without_a_dtype_is_float32(tmp_path):
    """Models that were saved before the parameter existed."""
    stored = pack_model(classifier().fit(X, Y, privileged=A))
    assert stored.facts["parameters"].pop("dtype") == "float32"
    save_model_folder(tmp_path / "model", stored)
    assert load(tmp_path / "model").dtype == "float32"


@pytest.mark.parametrize("labels", LABELS)
def test_onnx_files_are_in_double_precision(labels, tmp_path):
    make = regressor if labels == "real" else classifier
    rows = X_NEW * [1, 100, 1e-3] + [1.7e9, -500, 2]
    model = make(dtype="float64").fit(X * [1, 100, 1e-3] + [1.7e9, -500, 2], LABELS[labels][1], privileged=A)
    model.export_onnx(tmp_path / "model.onnx")
    (found,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"x": rows})
    np.testing.assert_allclose(found, predict(model, rows), rtol=0, atol=1e-12)


def test_layers_that_onnxruntime_lacks_in_double_precision_are_refused(tmp_path):
    model = classifier("het-tram", dtype="float64").fit(X, Y, privileged=A)
    with pytest.raises(ValueError, match=r"^Expected layers that onnxruntime can run on float64, but .* Softplus.*\.$"):
        model.export_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_the_parameter_is_one_of_scikit_learn():
    model = clone(PrivilegedRegressor(dtype="float64"))
    assert model.get_params()["dtype"] == "float64"
    assert PrivilegedClassifier().dtype == "float32"
    assert clone(model).set_params(dtype="float32").dtype == "float32"


def test_double_precision_continues_from_single_precision():
    model = regressor(warm_start=True).fit(X, REAL, privileged=A)
    before = model.method_.state_dict()
    model.set_params(dtype="float64", learning_rate=1e-12).fit(X, REAL, privileged=A)
    assert types_of(model.method_) == {torch.float64}
    for name, weight in model.method_.state_dict().items():
        torch.testing.assert_close(weight, before[name].to(weight.dtype), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", ["double", np.float64, np.dtype("float64"), torch.float64, None])
def test_another_dtype_is_an_error(dtype):
    with pytest.raises(ValueError, match=r"^Expected `dtype` to be 'float32' or 'float64', but got .*\.$"):
        classifier(dtype=dtype).fit(X, Y, privileged=A)
