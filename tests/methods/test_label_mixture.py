import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from lupi import PrivilegedClassifier, PrivilegedRegressor
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.label_mixture import mix_by_labels

RNG = np.random.default_rng(0)
EXAMPLES, LABELS = 30, 80
ROW = np.concatenate([np.arange(EXAMPLES), RNG.integers(EXAMPLES, size=LABELS - EXAMPLES)])
WEIGHT = RNG.uniform(0.5, 2, LABELS)
ANNOTATOR = torch.from_numpy(RNG.integers(4, size=LABELS))


def annotate(y):
    a, x = torch.zeros(LABELS, 1), torch.zeros(EXAMPLES, 2)
    return Annotations(x, torch.from_numpy(ROW), a, torch.as_tensor(y), ANNOTATOR, torch.from_numpy(WEIGHT))


def best_weights(loss, members=3):
    """The weights with the lowest loss, by a general optimizer."""
    found = minimize(
        loss,
        np.full(members, 1 / members),
        bounds=[(0, 1)] * members,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return found.x


@pytest.mark.parametrize("soft", [False, True])
def test_classes_are_mixed_by_the_likelihood_of_the_labels(soft):
    p = RNG.dirichlet(np.ones(3), (3, EXAMPLES))
    share = RNG.dirichlet(np.ones(3), LABELS) if soft else np.eye(3)[RNG.integers(3, size=LABELS)]
    found = mix_by_labels(annotate(share if soft else share.argmax(1)), list(p), Categorical())

    def loss(w):
        return -sum(WEIGHT[n] * share[n] @ np.log(w @ p[:, ROW[n]]) for n in range(LABELS))

    np.testing.assert_allclose(found.weights, best_weights(loss), atol=2e-3)
    np.testing.assert_allclose(found.target, np.tensordot(found.weights, p, 1))


def test_several_labels_are_mixed_by_their_likelihood():
    p, y = RNG.uniform(size=(3, EXAMPLES, 2)), RNG.integers(2, size=(LABELS, 2))
    found = mix_by_labels(annotate(y.astype(np.float32)), list(p), Bernoulli())

    def loss(w):
        mixed = np.tensordot(w, p, 1)[ROW]
        return -(WEIGHT[:, None] * np.log(np.where(y == 1, mixed, 1 - mixed))).sum()

    np.testing.assert_allclose(found.weights, best_weights(loss), atol=2e-3)
    assert found.target.shape == (EXAMPLES, 2)


def test_numbers_are_mixed_by_least_squares():
    p, y = RNG.normal(size=(3, EXAMPLES, 1)), RNG.normal(size=LABELS)
    found = mix_by_labels(annotate(y), list(p), Gaussian())
    expected = best_weights(lambda w: WEIGHT @ np.square(w @ p[:, ROW, 0] - y))
    np.testing.assert_allclose(found.weights, expected, atol=1e-3)
    np.testing.assert_array_equal(found.adjust(y), y)


def ask(n=400, each=3):
    """A subjective question: nobody errs, and everybody draws an answer from the same p(y | x)."""
    x = RNG.uniform(-1, 1, n)
    p = 1 / (1 + np.exp(-2 * x))
    example = np.arange(n).repeat(each)
    y = (RNG.random(n * each) < p[example]).astype(int)
    return x[:, None], example, y, RNG.choice(["ann", "bob", "cem", "dan"], n * each), p


def test_opinions_are_not_sharpened():
    """If true labels are inferred, disagreement passes for errors, and the answer of most people becomes certain."""
    x, example, y, who, p = ask()
    error = {}
    for predicts in ("truth", "labels"):
        model = PrivilegedClassifier(epochs=10, predicts=predicts, learning_rate=0.01, random_state=0)
        model.fit(x[example], y, privileged=who[:, None], example=example)
        error[predicts] = np.abs(model.predict_proba(x)[:, 1] - p).mean()
    assert error["labels"] < 0.05
    assert error["labels"] < error["truth"]
    assert {name for name, weight in model.mixture_.items() if weight} <= {"no-pi", "tram", "mean-imputation"}


@pytest.mark.parametrize("method", ["label-posterior", "stack"])
def test_other_methods_that_can_predict_either(method):
    x, example, y, who, _ = ask(40)
    model = PrivilegedClassifier(method, epochs=1, predicts="labels", random_state=0)
    assert model.fit(x[example], y, privileged=who[:, None], example=example).predict_proba(x).shape == (40, 2)


def test_numbers_and_several_labels_can_be_predicted_as_people_give_them():
    x, example, y, who, _ = ask(40)
    how = {"epochs": 1, "predicts": "labels", "random_state": 0}
    rows = {"privileged": who[:, None], "example": example}
    assert PrivilegedRegressor(**how).fit(x[example], y * 1.0, **rows).predict(x).shape == (40,)
    several = np.stack([y, 1 - y], 1)
    assert PrivilegedClassifier(**how).fit(x[example], several, **rows).predict_proba(x).shape == (40, 2)


@pytest.mark.parametrize("method", ["pi-transition", "pi-dual", "majority-vote", "dawid-skene"])
def test_methods_that_predict_only_true_labels_say_so(method):
    with pytest.raises(ValueError, match=f"`predicts` to be 'truth' for method '{method}'"):
        PrivilegedClassifier(method, predicts="labels").fit(np.zeros((4, 1)), [0, 1, 0, 1])


def test_true_labels_are_no_answers():
    x, example, y, who, _ = ask(40)
    with pytest.raises(ValueError, match="`gold` to be None with predicts='labels'"):
        PrivilegedClassifier(predicts="labels").fit(x[example], y, privileged=who[:, None], gold=y)
    with pytest.raises(ValueError, match="`predicts` to be 'truth' or 'labels', but got 'both'"):
        PrivilegedClassifier(predicts="both").fit(x[example], y)
    with pytest.raises(ValueError, match="`methods` to be among no-pi, tram, mean-imputation, but got 'pi-dual'"):
        PrivilegedClassifier(predicts="labels", method_options={"methods": ["pi-dual"]}).fit(x[example], y)
