"""Predictions of the conditional head, given privileged information."""

import numpy as np
import pandas as pd
import pytest
import torch

from lupi import methods
from lupi.data import Batch
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from tests.estimators.helpers import A_NEW, MULTI, REAL, X_NEW, A, X, Y, classifier, regressor


@pytest.mark.parametrize(
    ("method", "labels"),
    [
        (method, labels)
        for method in ("tram", "full-marginalization", "pi-dual")
        for labels, likelihood in (("classes", Categorical), ("multi-label", Bernoulli), ("real", Gaussian))
        if likelihood in methods.kind(method).likelihoods
    ],
)
def test_given_is_the_conditional_head(method, labels):
    make, y = {"classes": (classifier, Y), "multi-label": (classifier, MULTI), "real": (regressor, REAL)}[labels]
    model = make(method).fit(X, y, privileged=A)
    encoded = torch.from_numpy(model.privileged_encoder_.transform(A_NEW).toarray())
    random = {"tram-plus-plus": 16, "pi-dual": 16}.get(method, 0)
    a = torch.cat([encoded, torch.zeros(25, random)], 1)  # random features of new labels are zero
    x = torch.from_numpy(((X_NEW - X.mean(0)) / X.std(0)).astype(np.float32))
    with torch.no_grad():
        output = model.method_.conditional_output(Batch(x, torch.arange(25), a, torch.zeros(25)))
    if labels == "real":
        expected = output[:, 0].numpy() * REAL.std() + REAL.mean()
        result = model.predict_given(X_NEW, A_NEW)
    else:
        expected = torch.softmax(output, 1) if labels == "classes" else torch.sigmoid(output)
        result = model.predict_proba_given(X_NEW, A_NEW)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_the_transition_matrix_is_a_softmax_over_columns():
    model = classifier("pi-transition").fit(X, Y, privileged=A)
    a = torch.from_numpy(model.privileged_encoder_.transform(A_NEW).toarray())
    with torch.no_grad():
        logits = model.method_.transition(a).numpy().reshape(25, 3, 3)
    matrix = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = np.stack([t @ p for t, p in zip(matrix, model.predict_proba(X_NEW), strict=True)])
    np.testing.assert_allclose(model.predict_proba_given(X_NEW, A_NEW), expected, atol=1e-5)


@pytest.mark.parametrize("names", [["annotator", "seconds"], ["a0", "a1"]])
def test_privileged_columns_may_come_in_another_order(names):
    """Also those with the names that columns without a name get."""
    privileged = pd.DataFrame({names[0]: np.arange(60) % 3, names[1]: np.arange(60) % 5})
    model = classifier(epochs=5).fit(X, Y, privileged=privileged)
    expected = model.predict_proba_given(X, privileged)
    np.testing.assert_array_equal(model.predict_proba_given(X, privileged[names[::-1]]), expected)
    swapped = privileged.set_axis(names[::-1], axis="columns")
    assert np.abs(model.predict_proba_given(X, swapped) - expected).max() > 1e-3


def test_an_annotator_that_training_did_not_see_is_zeros():
    annotator = A[["annotator"]].fillna("ann")
    model = classifier("zero-imputation", epochs=10).fit(X, Y, privileged=annotator)
    strange = annotator.assign(annotator=["zoe", None] * 30)
    np.testing.assert_allclose(model.predict_proba_given(X, strange), model.predict_proba(X), atol=1e-6)
    assert np.abs(model.predict_proba_given(X, annotator) - model.predict_proba(X)).max() > 1e-4


def test_privileged_values_may_be_missing_at_prediction():
    model = classifier().fit(X, Y, privileged=A)
    nothing = pd.DataFrame({"annotator": [None] * 60, "seconds": np.nan})
    np.testing.assert_allclose(model.predict_proba_given(X, nothing).sum(1), 1)


@pytest.mark.parametrize("method", ["no-pi", "distillation", "auto"])
def test_methods_without_a_conditional_head_are_named(method):
    message = f"conditional head.* '{method}'"
    with pytest.raises(ValueError, match=message):
        classifier(method).fit(X, Y, privileged=A).predict_proba_given(X, A)
    if Gaussian in methods.kind(method).likelihoods:
        with pytest.raises(ValueError, match=message):
            regressor(method).fit(X, REAL, privileged=A).predict_given(X, A)


@pytest.mark.filterwarnings("ignore:.*got no `privileged` information:UserWarning")
def test_given_needs_a_fit_with_privileged_information():
    with pytest.raises(ValueError, match="fitted with `privileged`"):
        classifier().fit(X, Y).predict_proba_given(X, A)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda A: A.assign(age=3), "'age'"),
        (lambda A: A.rename(columns={"seconds": "time"}), "'time'"),
        (lambda A: np.zeros((len(A), 3)), "2 columns.* 3"),
        (lambda A: A[:50], "`privileged`.* 60 .*50"),
        (lambda A: A.assign(seconds="soon"), "'seconds'.* 'soon' in row 0"),
    ],
    ids=["another column", "a renamed column", "an array", "fewer rows", "strings"],
)
def test_privileged_columns_are_those_of_training(change, message):
    model = classifier().fit(X, Y, privileged=A)
    with pytest.raises(ValueError, match=message):
        model.predict_proba_given(X, change(A))
