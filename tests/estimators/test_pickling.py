"""Fitted estimators go through pickle, joblib, copy and skops, and load on machines without a GPU."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
import skops.io
import torch

import lupi
from lupi import methods
from tests.estimators.helpers import A_NEW, IMAGES, LABELS, QUICK, X_NEW, A, Net, X, Y


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file, compress=True)
    file.seek(0)
    return joblib.load(file)


def through_skops(model):
    content = skops.io.dumps(model)
    types = skops.io.get_untrusted_types(data=content)
    assert all(name.startswith("lupi.") for name in types)
    return skops.io.loads(content, trusted=types)


WAYS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "joblib": through_joblib,
    "copy": copy.deepcopy,
    "skops": through_skops,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("labels", LABELS)
def test_a_fitted_model_comes_back(way, labels):
    kind, y, _ = LABELS[labels]
    model = kind("tram", **QUICK).fit(X, y, privileged=A)
    other = WAYS[way](model)
    np.testing.assert_array_equal(other.predict(X_NEW), model.predict(X_NEW))
    given = "predict_given" if labels == "real" else "predict_proba_given"
    np.testing.assert_array_equal(getattr(other, given)(X_NEW, A_NEW), getattr(model, given)(X_NEW, A_NEW))
    assert other.get_params() == model.get_params()
    assert other.history_ == model.history_
    other.fit(X, y, privileged=A)
    np.testing.assert_array_equal(other.predict(X_NEW), model.predict(X_NEW))


@pytest.mark.parametrize("way", WAYS)
def test_a_mixture_and_a_part_of_a_model_come_back(way, tmp_path):
    auto = lupi.PrivilegedClassifier(**QUICK).fit(X, Y, privileged=A)
    auto.save(tmp_path / "model", privileged=False)
    for model in (auto, lupi.load(tmp_path / "model")):
        other = WAYS[way](model)
        np.testing.assert_array_equal(other.predict_proba(X_NEW), model.predict_proba(X_NEW))
        assert other.mixture_ == model.mixture_


def own_method(parts):
    return methods.TRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head())


@pytest.mark.parametrize("way", ["pickle", "joblib", "copy"])
def test_parts_of_your_own_come_back_and_share_their_weights(way):
    model = lupi.PrivilegedClassifier(own_method, trunk=Net(), **QUICK).fit(IMAGES, Y, privileged=A)
    other = WAYS[way](model)
    np.testing.assert_array_equal(other.predict_proba(IMAGES), model.predict_proba(IMAGES))
    with torch.no_grad():
        for parameter in other.method_.parameters():
            parameter.zero_()
    assert np.ptp(other.predict_proba(IMAGES)) == 0
    assert np.ptp(model.predict_proba(IMAGES)) > 0


class WithoutTensors(pickle.Pickler):
    """Refuses tensors, which remember their device."""

    def persistent_id(self, value):
        assert not isinstance(value, torch.Tensor | torch.nn.Module)


def test_a_machine_without_a_gpu_can_load_it():
    model = lupi.PrivilegedClassifier("tram", **QUICK).fit(X, Y, privileged=A)
    expected = model.predict_proba(X_NEW)
    if torch.cuda.is_available():
        model.method_.cuda()
    model.device = "cuda:7"  # no machine of the tests has it
    file = io.BytesIO()
    WithoutTensors(file).dump(model)
    other = pickle.loads(file.getvalue())
    np.testing.assert_allclose(other.predict_proba(X_NEW), expected, atol=1e-6)
    assert next(other.predictor_.parameters()).device.type == "cpu"


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_is_not_fitted_comes_back(way):
    assert WAYS[way](lupi.PrivilegedClassifier("tram", epochs=3)).epochs == 3
