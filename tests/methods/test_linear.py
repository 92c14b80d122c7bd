"""Logistic regressions of the true label: the objective, its optimum, out-of-fold fits and what auto gains by them."""

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad
from sklearn.linear_model import LogisticRegression

from lupi import PrivilegedClassifier
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical
from lupi.methods import linear
from lupi.methods.linear import cross_fit_linear, has_vectors, negative_log_likelihood
from lupi.nn.inference import over_examples

FOLDS = 4


def make_data(examples=120, inputs=3, seed=0):
    x = torch.randn(examples, inputs, generator=torch.Generator().manual_seed(seed))
    return Annotations(x, torch.arange(examples), torch.zeros(examples, 1), torch.zeros(examples, dtype=torch.int64))


def draw_classes(x, classes, seed=1):
    rng = np.random.default_rng(seed)
    logits = 2 * x @ rng.normal(size=(x.shape[1], classes)) + rng.gumbel(size=(len(x), classes))
    return logits.argmax(1)


def one_hot(z, classes):
    return np.log(np.eye(classes)[z].clip(1e-30))


def predict(networks, data, likelihood):
    return [likelihood.moments(over_examples(network.predictor(), data.x)).detach().numpy() for network in networks]


def by_sum(w, x, evidence):
    """The objective for one class per example, written out."""
    total = 0.0
    for row, own in zip(x, evidence, strict=True):
        score = np.exp(row @ w[:-1] + w[-1])
        total -= np.log(np.sum(score / score.sum() * np.exp(own)))
    return total


@pytest.mark.parametrize("binary", [False, True])
def test_the_objective_and_its_gradient(binary):
    rng = np.random.default_rng(0)
    x, evidence = rng.normal(size=(7, 2)), rng.normal(size=(7, 6))
    w = rng.normal(size=(3, 3 if binary else 6))
    value, _ = negative_log_likelihood(w, x, evidence, binary)
    if binary:  # three labels, each a regression of two classes
        columns = [np.stack([np.zeros(3), w[:, k]], 1) for k in range(3)]
        expected = sum(by_sum(columns[k], x, evidence[:, 2 * k : 2 * k + 2]) for k in range(3))
    else:
        expected = by_sum(w, x, evidence)
    assert value == pytest.approx(expected)

    def part(number):
        return lambda flat: np.ravel(negative_log_likelihood(flat.reshape(w.shape), x, evidence, binary)[number])

    assert check_grad(lambda flat: part(0)(flat)[0], part(1), w.ravel()) < 1e-5


def test_known_labels_give_the_logistic_regression_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(linear, "VARIANCES", np.array([0.5]))
    monkeypatch.setattr(linear, "STEPS", 500)
    data = make_data()
    x, z, fold = data.x.double().numpy(), draw_classes(data.x.numpy(), 3), torch.arange(120) % FOLDS
    networks = cross_fit_linear(data, fold, one_hot(z, 3), Categorical())
    standard = (x - x.mean(0)) / x.std(0)
    for number, p in enumerate(predict(networks, data, Categorical())):
        others = fold.numpy() != number
        reference = LogisticRegression(C=0.5, tol=1e-8, max_iter=1000).fit(standard[others], z[others])
        np.testing.assert_allclose(p, reference.predict_proba(standard), atol=2e-3)


def test_no_regression_sees_the_labels_that_it_predicts(monkeypatch):
    monkeypatch.setattr(linear, "VARIANCES", np.array([0.5]))  # else labels of all folds choose among variances
    data, fold = make_data(), torch.arange(120) % FOLDS
    evidence = one_hot(draw_classes(data.x.numpy(), 2), 2)
    changed = np.where(fold.numpy()[:, None] == 1, evidence[:, ::-1], evidence)
    before, after = (
        predict(cross_fit_linear(data, fold, e, Categorical()), data, Categorical()) for e in (evidence, changed)
    )
    np.testing.assert_array_equal(before[1], after[1])
    assert np.abs(before[0] - after[0]).max() > 0.05


def test_units_of_inputs_and_constant_inputs_do_not_matter():
    data, fold = make_data(), torch.arange(120) % FOLDS
    evidence = one_hot(draw_classes(data.x.numpy(), 3), 3) * 0.05
    x = torch.cat([100 * data.x + 7, torch.full((120, 1), 5.0)], 1)
    same = Annotations(x, data.row, data.a, data.y)
    for p, q in zip(
        *(predict(cross_fit_linear(d, fold, evidence, Categorical()), d, Categorical()) for d in (data, same)),
        strict=True,
    ):
        np.testing.assert_allclose(p, q, atol=1e-3)


def test_labels_that_say_nothing_give_the_same_prediction_everywhere():
    data, fold = make_data(), torch.arange(120) % FOLDS
    for p in predict(cross_fit_linear(data, fold, np.zeros((120, 3)), Categorical()), data, Categorical()):
        np.testing.assert_allclose(p, 1 / 3, atol=1e-6)


def test_several_labels_are_several_regressions():
    data, fold = make_data(), torch.arange(120) % FOLDS
    z = np.stack([draw_classes(data.x.numpy(), 2, seed) for seed in (1, 2)], 1)
    both = cross_fit_linear(data, fold, one_hot(z.ravel(), 2), Bernoulli())
    p = predict(both, data, Bernoulli())[0]
    assert p.shape == (120, 2)
    assert ((p > 0.5) == z).mean() > 0.8


def test_a_known_truth_outweighs_all_labels():
    data, fold = make_data(), torch.arange(120) % FOLDS
    z = draw_classes(data.x.numpy(), 2)
    known = np.where(np.eye(2)[z] > 0, 0.0, -np.inf)
    for p in predict(cross_fit_linear(data, fold, known, Categorical()), data, Categorical()):
        assert np.isfinite(p).all()
        assert (p.argmax(1) == z).mean() > 0.8


def test_a_sample_is_enough_for_many_examples(monkeypatch):
    data, fold = make_data(4000), torch.arange(4000) % FOLDS
    z = draw_classes(data.x.numpy(), 2)
    whole = predict(cross_fit_linear(data, fold, one_hot(z, 2), Categorical()), data, Categorical())[0]
    monkeypatch.setattr(linear, "MAX_CELLS", 1000 * 5)
    part = predict(cross_fit_linear(data, fold, one_hot(z, 2), Categorical()), data, Categorical())[0]
    assert 0 < np.abs(whole - part).mean() < 0.05


def test_which_inputs_are_vectors():
    a, row, y = torch.zeros(2, 1), torch.arange(2), torch.zeros(2, dtype=torch.int64)
    assert has_vectors(Annotations(torch.zeros(2, 3), row, a, y))
    assert not has_vectors(Annotations(torch.zeros(2, 3, 8, 8), row, a, y)), "images"
    assert not has_vectors(Annotations(torch.zeros(2, 3, dtype=torch.int64), row, a, y)), "tokens"
    assert not has_vectors(Annotations({"x": torch.zeros(2, 3)}, row, a, y))


def test_auto_finds_a_linear_truth_behind_noisy_annotators():
    """With few labels, the networks learn much of the noise; the linear model gets the weight, and the accuracy."""
    rng = np.random.default_rng(0)
    X, annotator = rng.normal(size=(300, 8)), rng.integers(0, 6, 300)
    test = rng.normal(size=(2000, 8))
    W = 3 * rng.normal(size=(8, 3))
    truth, z = (test @ W).argmax(1), (X @ W).argmax(1)
    y = np.where(rng.random(300) < np.array([0, 0.1, 0.3, 0.6, 0.6, 0.6])[annotator], rng.integers(0, 3, 300), z)
    model = PrivilegedClassifier(epochs=30, random_state=0).fit(X, y, privileged=annotator[:, None].astype(str))
    plain = PrivilegedClassifier("stack", epochs=30, random_state=0).fit(
        X, y, privileged=annotator[:, None].astype(str)
    )
    assert model.mixture_["linear"] > 0.5
    assert model.score(test, truth) > plain.score(test, truth) + 0.02
