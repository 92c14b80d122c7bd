"""True labels that are known for some rows, and annotators who are trusted."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lupi import PrivilegedClassifier, load
from tests.estimators.helpers import MULTI, REAL, A, X, Y, classifier, crowd, regressor


def prepare(model, *arguments, **named):
    return model._prepare(*arguments, **named)[0]


@pytest.mark.parametrize("missing", [None, np.nan, -1])
def test_true_labels_are_coded_like_labels(missing):
    gold = np.full(60, missing, dtype=object)
    gold[[3, 7]] = [2, 0]
    data = prepare(classifier("no-pi"), X, Y, gold=gold)
    assert data.gold[[3, 7]].tolist() == [2, 0]
    assert (data.gold >= 0).sum() == 2


def test_names_booleans_and_minus_one_as_a_class():
    names = np.array(["bad", "fair", "good"])[Y]
    gold = pd.Series([None] * 60, dtype="string")
    gold[5] = "good"
    assert prepare(classifier("no-pi"), X, names, gold=gold).gold[5] == 2
    signs = np.where(Y > 0, 1, -1)
    assert prepare(classifier("no-pi"), X, signs, gold=signs).gold.tolist() == (Y > 0).astype(int).tolist()
    some = np.where(np.arange(60) < 30, Y > 0, None)
    assert (prepare(classifier("no-pi"), X, Y > 0, gold=some).gold >= 0).sum() == 30


def test_true_labels_of_several_targets_and_of_real_numbers():
    gold = np.where(np.arange(60)[:, None] < 4, 1 - MULTI, np.nan)
    data = prepare(classifier("no-pi"), X, MULTI, gold=gold)
    assert torch.equal(data.gold[:4], torch.from_numpy(1.0 - MULTI[:4]).float())
    assert data.gold[4:].isnan().all()
    real = np.where(np.arange(60) < 4, REAL + 1, np.nan)
    model = regressor("no-pi")
    data = prepare(model, X, REAL, gold=real)
    np.testing.assert_allclose(data.gold[:4] * model.target_.scale + model.target_.mean, REAL[:4] + 1, rtol=1e-5)


def test_one_row_of_an_example_is_enough():
    X, y, A, ids = crowd()
    gold = np.full(len(y), -1)
    first = np.flatnonzero(ids == ids[10])[0]
    gold[first] = 1
    data = prepare(classifier("tram"), X, y, privileged=A, example=ids, gold=gold)
    assert data.has_gold.sum() == 1
    assert (data.with_gold().y[ids == ids[10]] == 1).all()


def test_rows_that_are_dropped_take_their_truth_along():
    weight, gold = np.ones(60), Y.astype(float)
    weight[::2] = 0
    gold[1] = np.nan
    data = prepare(classifier("no-pi"), X, Y, sample_weight=weight, gold=gold)
    assert data.gold.tolist() == [-1, *Y[3::2]]


def test_a_pipeline_routes_true_labels():
    labels, gold = np.zeros(60, int), Y.copy()
    labels[:3] = [0, 1, 2]
    model = make_pipeline(StandardScaler(), classifier("no-pi", epochs=60, learning_rate=0.02))
    with sklearn.config_context(enable_metadata_routing=True):
        assert model.fit(X, labels, gold=gold).score(X, Y) > 0.8


def test_trust_fixes_a_crowd_of_liars():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    truth = (X[:, 0] > 0).astype(int)
    row, who = np.arange(600) // 4, np.tile(["expert", "x", "y", "z"], 150)
    lies = (who != "expert") & (rng.random(600) < 0.8)
    label = np.where(lies, 1 - truth[row], truth[row])
    arguments = {"privileged": pd.DataFrame({"annotator": who}), "example": row}
    score = {}
    for trust in (None, {"expert": 0.98}):
        model = PrivilegedClassifier("dawid-skene", trust=trust, epochs=20, learning_rate=0.02, random_state=0)
        score[trust is None] = model.fit(X[row], label, **arguments).score(X, truth)
    assert score[True] < 0.4
    assert score[False] > 0.9


def test_a_folder_does_not_name_whom_users_trust(tmp_path):
    model = classifier("dawid-skene", trust={"eve": 0.9}).fit(X, Y, privileged=A)
    model.save(tmp_path / "model", privileged=False)
    assert not any(b"eve" in path.read_bytes() for path in (tmp_path / "model").iterdir())
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_trust_without_a_model_of_annotators_is_a_warning():
    with pytest.warns(UserWarning, match="'tram' has no model of annotators: `trust` has no effect"):
        classifier("tram", trust={"eve": 0.9}).fit(X, Y, privileged=A)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier("dawid-skene", trust={"eve": 0.9}).fit(X, Y, privileged=A)


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({}, {"gold": Y[:5]}, "`gold` to have 60 rows as X has, but got 5"),
        ({}, {"gold": Y + 1}, "`gold` to hold classes of y, such as 0, but got 3"),
        ({}, {"gold": Y, "example": np.zeros(60)}, "same in all rows of an example, but row . differs"),
        ({"trust": {"evi": 0.9}}, {"privileged": A}, "`trust` to name annotators, but got 'evi': did you mean 'eve'"),
        ({"trust": {"eve": 90}}, {"privileged": A}, "`trust` in 'eve' to be a number between 0 and 1, but got 90"),
        ({"trust": {"eve": 0.9}}, {"privileged": A[["seconds"]]}, "column of annotators for `trust`"),
        ({"trust": "eve"}, {"privileged": A}, "`trust` to be a dict"),
    ],
)
def test_wrong_truth_and_trust_are_explained(parameters, arguments, message):
    inputs = np.ones_like(X) if "example" in arguments else X
    with pytest.raises(ValueError, match=message):
        classifier("auto", **parameters).fit(inputs, Y, **arguments)
