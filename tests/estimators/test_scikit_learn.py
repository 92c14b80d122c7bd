"""The contract with scikit-learn: its own checks, metadata routing, parameters, copies and refits."""

import copy
import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from lupi import PrivilegedClassifier, PrivilegedRegressor, methods
from tests.estimators.helpers import RNG, X_NEW, A, X, Y, classifier, crowd

# -------------------------------------------------------------------------------- scikit-learn's checks


@pytest.mark.filterwarnings("ignore:.*got no `privileged` information:UserWarning")
@parametrize_with_checks(
    [PrivilegedClassifier(epochs=5, learning_rate=5e-3), PrivilegedRegressor(epochs=5, learning_rate=5e-3)],
    expected_failed_checks=lambda estimator: {  # noqa: ARG005 - as for scikit-learn's own networks
        "check_sample_weight_equivalence_on_dense_data": "batches of weighted and of repeated rows differ"
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------- metadata routing


class Spy(methods.NoPI):
    """Checks that every batch has the privileged information of its rows: a column that is linear in x."""

    uses_privileged = True
    batches = 0

    def losses(self, batch):
        pair = torch.stack([batch.x[batch.row, 0], batch.a[:, 0]])
        assert torch.corrcoef(pair)[0, 1] > 0.9999
        Spy.batches += 1
        return super().losses(batch)


def spy(parts):
    return Spy(parts.trunk(), parts.head(), likelihood=parts.likelihood)


def pipeline(**parameters):
    model = classifier(**{"method": spy, "kind": {"a0": "standardized"}, "epochs": 1, "batch_size": 15} | parameters)
    return Pipeline([("scale", StandardScaler()), ("model", model)])


def routed(routing, **metadata):
    return metadata if routing else {f"model__{name}": value for name, value in metadata.items()}


def grid_search(model, X, y, groups, parameters):
    search = GridSearchCV(model, {"model__learning_rate": [1e-3, 1e-2]}, cv=GroupKFold(3), error_score="raise")
    return search.fit(X, y, groups=groups, **parameters)


def grouped(groups, parameters):
    """Arguments of the functions of cross-validation, which take groups as metadata where routing is on."""
    if get_config()["enable_metadata_routing"]:
        return {"cv": GroupKFold(3), "params": {"groups": groups} | parameters}
    return {"cv": GroupKFold(3), "groups": groups, "params": parameters}


TOOLS = {
    "Pipeline": (lambda m, X, y, _, p: m.fit(X, y, **p), 1),
    "GridSearchCV": (grid_search, 7),
    "cross_validate": (lambda m, X, y, g, p: cross_validate(m, X, y, error_score="raise", **grouped(g, p)), 3),
    "cross_val_predict": (lambda m, X, y, g, p: cross_val_predict(m, X, y, **grouped(g, p)), 3),
    "CalibratedClassifierCV": (lambda m, X, y, _, p: CalibratedClassifierCV(m, cv=3).fit(X, y, **p), 3),
    "FixedThresholdClassifier": (lambda m, X, y, _, p: FixedThresholdClassifier(m).fit(X, y, **p), 1),
    "TunedThresholdClassifierCV": (lambda m, X, y, _, p: TunedThresholdClassifierCV(m, cv=3).fit(X, y, **p), 4),
}


@pytest.mark.parametrize("with_example", [False, True], ids=["rows", "examples"])
@pytest.mark.parametrize("routing", [False, True], ids=["routing off", "routing on"])
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_route_the_privileged_rows_of_each_fold(tool, routing, with_example, monkeypatch):
    monkeypatch.setattr(Spy, "batches", 0)
    X, y, privileged, ids = crowd()
    metadata = {"privileged": privileged, "example": ids} if with_example else {"privileged": privileged}
    run, fits = TOOLS[tool]
    if "Threshold" in tool and not routing:
        with pytest.raises(ValueError, match="only supported if enable_metadata_routing=True"):
            run(pipeline(), X, y, ids, routed(routing, **metadata))
        return
    with config_context(enable_metadata_routing=routing):
        run(pipeline(), X, y, ids, routed(routing, **metadata))
    assert Spy.batches >= 4 * fits  # 60 rows of a fold in batches of 15


@pytest.mark.parametrize("routing", [False, True], ids=["routing off", "routing on"])
def test_cross_validated_predictions_are_those_of_fits_on_the_folds(routing):
    X, y, privileged, ids = crowd()
    model = pipeline(method="tram")
    with config_context(enable_metadata_routing=routing):
        parameters = routed(routing, privileged=privileged, example=ids)
        result = cross_val_predict(model, X, y, **grouped(ids, parameters))
        search = grid_search(model, X, y, ids, parameters)
    for train, test in GroupKFold(3).split(X, y, ids):
        scaler = StandardScaler().fit(X[train])
        manual = clone(model["model"]).fit(
            scaler.transform(X[train]), y[train], privileged=privileged[train], example=ids[train]
        )
        np.testing.assert_array_equal(result[test], manual.predict(scaler.transform(X[test])))
    refitted = clone(model).set_params(**search.best_params_)
    refitted.fit(X, y, model__privileged=privileged, model__example=ids)
    np.testing.assert_array_equal(search.predict_proba(X), refitted.predict_proba(X))


@pytest.mark.parametrize("routing", [False, True], ids=["routing off", "routing on"])
def test_frames_keep_their_index_in_the_folds(routing):
    X, y, privileged, ids = crowd()
    index = pd.Index(RNG.permutation(len(ids)), name="annotation")
    table = pd.DataFrame(X, columns=list("uvw"), index=index)
    column = pd.DataFrame(privileged, columns=["a0"], index=index)
    model = pipeline(method="tram").set_output(transform="pandas")
    with config_context(enable_metadata_routing=routing):
        frames = cross_val_predict(model, table, y, **grouped(ids, routed(routing, privileged=column)))
        arrays = cross_val_predict(model, X, y, **grouped(ids, routed(routing, privileged=privileged)))
        np.testing.assert_array_equal(frames, arrays)
        with pytest.raises(ValueError, match="the same index"):
            model.fit(table, y, **routed(routing, privileged=column[::-1]))


def test_a_search_may_set_numpy_numbers():
    search = GridSearchCV(classifier("no-pi"), {"epochs": np.arange(1, 3), "l2": np.logspace(-3, -2, 2)}, cv=2)
    assert search.fit(X, Y).best_params_["epochs"] in (1, 2)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "score"])
def test_predictions_never_take_privileged_information(name):
    assert "privileged" not in inspect.signature(getattr(PrivilegedClassifier, name)).parameters
    model = classifier().fit(X, Y, privileged=A)
    with pytest.raises(TypeError, match="privileged"):
        getattr(model, name)(X, *([Y] if name == "score" else []), privileged=A)


def test_fit_takes_metadata_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        classifier().fit(X, Y, A)


# -------------------------------------------------------------------------------- estimator's life


def test_clones_have_the_same_parameters():
    model = classifier("tram", trunk=nn.Linear(3, 4), training={"optimizer": "sgd"})
    copied = clone(model)
    assert copied.get_params().keys() == model.get_params().keys()
    assert copied.training == model.training
    assert copied.set_params(method="no-pi", epochs=3).get_params()["method"] == "no-pi"
    assert model.get_params()["method"] == "tram"
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


@pytest.mark.parametrize("method", ["no-pi", "two-step-tram", "full-marginalization", "auto"])
def test_copies_predict_the_same(method):
    model = classifier(method).fit(X, Y, privileged=A)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(copied.predict_proba(X_NEW), model.predict_proba(X_NEW))


def test_refitting_forgets():
    model = classifier(method="no-pi").fit(pd.DataFrame(X, columns=list("uvw")), Y)
    model.fit(X[:, :2], Y > 0)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X[:, :2]).dtype == bool


def test_a_fit_that_failed_is_no_fit():
    model = classifier()
    with pytest.raises(ValueError, match="options"):
        model.set_params(method_options={"gamma": 1}).fit(X, Y, privileged=A)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("call", ["predict", "predict_proba", "predict_proba_given", "save", "export_onnx"])
def test_methods_need_a_fit(call, tmp_path):
    arguments = {"predict_proba_given": (X, A), "save": (tmp_path / "m",), "export_onnx": (tmp_path / "m",)}
    with pytest.raises(NotFittedError):
        getattr(PrivilegedClassifier(), call)(*arguments.get(call, (X,)))


def test_a_fit_that_fails_leaves_no_model():
    model = PrivilegedClassifier("no-pi", epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="`privileged`"):
        model.fit(X, np.where(Y > 0, "a", "z"), privileged=[[1], [2]])
    with pytest.raises(NotFittedError):
        model.predict(X)
