"""A model that is saved without privileged information holds none, and predicts as before."""

import json

import numpy as np
import pandas as pd
import pytest
from torch import nn

import lupi
from lupi import methods
from tests.estimators.helpers import IMAGES, LABELS, QUICK, RNG, X_NEW, Net, X, Y
from tests.privacy import find_traces

NAMES = ["Ann Smith", "Bob Jones", "Eve Adams"]
A = pd.DataFrame(
    {"annotator": RNG.choice(NAMES, 60), "seconds": RNG.exponential(size=60), "age": RNG.integers(9, size=60)}
)
SECONDS = A["seconds"].tolist()


def fitted(method="tram", labels="classes", **parameters):
    kind, y, _ = LABELS[labels]
    return kind(method, **QUICK | parameters).fit(X, y, privileged=A)


def possible():
    """Methods whose predictors contain no privileged information, with the kinds of labels that they take."""
    return [
        (method, labels)
        for method in ("no-pi", "tram", "two-step-tram", "auto")
        for labels, (_, _, likelihood) in LABELS.items()
        if likelihood in methods.kind(method).likelihoods
    ]


def test_a_whole_model_holds_names_and_values(tmp_path):
    """So the search finds them."""
    fitted().save(tmp_path / "model")
    found = find_traces(tmp_path / "model", NAMES, SECONDS)
    assert found >= set(NAMES)
    assert len(found) > len(NAMES)


@pytest.mark.parametrize(("method", "labels"), possible())
def test_a_model_without_privileged_information_holds_none_and_predicts(method, labels, tmp_path):
    model = fitted(method, labels)
    model.save(tmp_path / "model", privileged=False)
    assert find_traces(tmp_path / "model", NAMES, SECONDS) == set()
    loaded = lupi.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X_NEW), model.predict(X_NEW))
    if labels != "real":
        np.testing.assert_array_equal(loaded.predict_proba(X_NEW), model.predict_proba(X_NEW))
    given = loaded.predict_given if labels == "real" else loaded.predict_proba_given
    with pytest.raises(ValueError, match="saved without privileged information"):
        given(X, A)


def test_only_the_predictor_is_there(tmp_path):
    model = fitted()
    model.save(tmp_path / "whole")
    model.save(tmp_path / "model", privileged=False)
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("whole", "model")]
    assert sizes[1] < sizes[0]
    facts = json.loads((tmp_path / "model" / "model.json").read_text())
    assert facts["privileged"] is False
    assert "privileged" not in facts["widths"]


@pytest.mark.parametrize("method", ["mean-imputation", "full-marginalization", "stack"])
def test_a_predictor_that_contains_privileged_information_is_not_saved_without_it(method, tmp_path):
    with pytest.raises(ValueError, match=f"`privileged=False`.*'{method}' contains"):
        fitted(method).save(tmp_path / "model", privileged=False)
    assert not any(tmp_path.iterdir())


def test_a_model_that_was_loaded_without_is_saved_without(tmp_path):
    model = fitted("zero-imputation", members=2)
    model.save(tmp_path / "first", privileged=False)
    lupi.load(tmp_path / "first").save(tmp_path / "second")
    one, other = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("first", "second"))
    assert one == other
    np.testing.assert_array_equal(lupi.load(tmp_path / "second").predict_proba(X), model.predict_proba(X))


def test_the_mixture_is_kept(tmp_path):
    """Weights of methods say nothing about annotators."""
    model = fitted("auto", method_options={"methods": ["no-pi", "tram"], "folds": 2})
    model.save(tmp_path / "model", privileged=False)
    assert lupi.load(tmp_path / "model").mixture_ == model.mixture_


def own_method(parts):
    return methods.TRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head())


def test_parts_of_your_own_come_back(tmp_path):
    model = lupi.PrivilegedClassifier(own_method, trunk=Net, **QUICK).fit(IMAGES, Y, privileged=A)
    model.save(tmp_path / "model", privileged=False)
    loaded = lupi.load(tmp_path / "model", method=own_method, trunk=Net)
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), model.predict_proba(IMAGES))


def test_an_onnx_file_holds_no_privileged_information_and_no_paths(tmp_path):
    folder = tmp_path / "folder of the user"
    fitted().export_onnx(folder / "model.onnx")
    trunk = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    lupi.PrivilegedClassifier("tram", trunk=trunk, **QUICK).fit(IMAGES, Y, privileged=A).export_onnx(
        folder / "own.onnx", X=IMAGES
    )
    words = [*NAMES, "site-packages", ".py", "stack_trace", str(tmp_path), "folder of the user"]
    assert find_traces(folder, words, SECONDS) == set()
