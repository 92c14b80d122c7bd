"""Targets of students, against enumeration of the true labels; mixtures of real numbers, against their optimality."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from lupi.crowd import Votes
from lupi.crowd.dependence import share_of_independent, shared_error
from lupi.crowd.inference import infer_votes
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.explanation import (
    drop_constant,
    explain,
    find_features,
    hide_telling,
    minimize_on_simplex,
    mix,
    number_examples,
    tells_label,
    to_votes,
)


def make_crowd(examples=60, annotators=5, classes=3, each=3, seed=0, unannotated=(7, 20)):
    """A crowd: annotators 0, 1, … are right ever less often; `hurry` halves how often they are."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=examples)
    row = np.repeat(np.setdiff1d(np.arange(examples), unannotated), each)
    rng.shuffle(row)
    who, hurry = rng.integers(annotators, size=len(row)), rng.integers(2, size=len(row))
    right = rng.uniform(size=len(row)) < (0.95 - 0.1 * who) * (1 - 0.5 * hurry)
    y = np.where(right, truth[row], rng.integers(classes, size=len(row)))
    a = np.column_stack([np.eye(annotators)[who], hurry]).astype(np.float32)
    data = Annotations(*map(torch.from_numpy, (rng.normal(size=(examples, 2)), row, a, y)), torch.from_numpy(who))
    annotated = np.setdiff1d(np.arange(examples), unannotated)
    predictions = []
    for _ in range(2):
        guess = np.where(rng.uniform(size=examples) < 0.6, truth, rng.integers(classes, size=examples))
        predictions.append((0.5 * rng.dirichlet(np.ones(classes), examples) + 0.5 * np.eye(classes)[guess])[annotated])
    return data, predictions, truth[annotated]


def enumerate_truth(data, prior, found, exponent):
    """P(z | labels, x) by enumeration of z, example by example, in plain probabilities."""
    posterior, model = [], found.model
    for position, example in enumerate(data.annotated.tolist()):
        weights = []
        for z in range(prior.shape[1]):
            weight = prior[position, z]
            for n in (data.row == example).nonzero().flatten().tolist():
                y, who = int(data.y[n]), int(data.annotator[n])
                right = 1 / (1 + np.exp(-model.log_odds[n] - model.ease[z]))
                work = right if y == z else (1 - right) * model.errors[z, y]
                weight *= ((1 - model.share[who]) * work + model.share[who] * model.habits[who, y]) ** exponent
            weights.append(weight)
        posterior.append(np.array(weights) / sum(weights))
    return np.array(posterior)


@pytest.mark.parametrize(("weight", "exponent"), [(0.75, 0.5), (1.0, 1.0), (0.0, 1.0), (0.3, None)])
def test_target_is_posterior_and_prior_softened_by_the_error_of_the_crowd(weight, exponent):
    data, (p, _), _ = make_crowd()
    result = explain(data, [p], Categorical(), weight, exponent)
    row = np.searchsorted(data.annotated.numpy(), data.row.numpy())
    votes = Votes(
        example=row, annotator=data.annotator.numpy(), label=data.y.numpy(), examples=58, annotators=5, classes=3
    )
    found = infer_votes(votes, p, features=data.a.double().numpy()[:, 5:], exponent=exponent)  # who is no feature
    expected = weight * enumerate_truth(data, p, found, found.exponent) + (1 - weight) * p
    error = shared_error(found.log_prior, found.evidence, share_of_independent(votes, found.truth))
    assert error > 0.001, "the labels show some dependence by chance, so that the test can fail"
    expected = (1 - error) * expected + error * (1 - expected) / 2
    np.testing.assert_allclose(result.target, expected, atol=1e-5)
    assert result.weights.tolist() == [1.0]


@pytest.mark.parametrize(("copied", "low", "high"), [(0.0, 0.8, 1.0), (0.9, 0.2, 0.5)])
def test_labels_weigh_less_if_annotators_err_together(copied, low, high):
    """By default, λ is the share of independent labels, which is between 1 for strangers and ¼ for four copies."""
    rng = np.random.default_rng(0)
    truth, common = rng.integers(2, size=(2, 400))
    row, who = np.arange(400).repeat(4), np.tile(np.arange(4), 400)
    wrong = np.where(rng.random(1600) < copied, (common > 0)[row] & (row % 2 > 0), rng.random(1600) < 0.3)
    y, p = np.where(wrong, 1 - truth[row], truth[row]), 0.1 + 0.8 * np.eye(2)[truth]
    data = Annotations(*map(torch.from_numpy, (truth[:, None], row, np.zeros((1600, 0)), y)), torch.from_numpy(who))
    whole, default, none = (explain(data, [p], Categorical(), weight, None).target for weight in (1.0, None, 0.0))
    share = (default - none)[np.abs(whole - none) > 0.01] / (whole - none)[np.abs(whole - none) > 0.01]
    assert np.ptp(share) < 1e-6, "all examples have as many labels"
    assert low < share[0] <= high


def test_posterior_is_more_accurate_than_the_prior():
    data, predictions, truth = make_crowd(examples=300, unannotated=())
    target = explain(data, predictions, Categorical(), 1.0, None).target
    prior = explain(data, predictions, Categorical(), 0.0, None).target
    assert (target.argmax(1) == truth).mean() > (prior.argmax(1) == truth).mean() + 0.02


def test_a_hurried_label_counts_less():
    data, (p, _), truth = make_crowd(examples=400, unannotated=())
    without = explain(dataclasses.replace(data, a=data.a[:, :5]), [p], Categorical(), 1.0, 1.0).target
    target = explain(data, [p], Categorical(), 1.0, 1.0).target

    def nll(q):
        return -np.log(q[np.arange(len(truth)), truth]).mean()

    assert nll(target) < nll(without) - 0.02


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_without_the_posterior_the_target_is_the_mixture(likelihood):
    data, predictions, _ = make_crowd(classes=3)
    if isinstance(likelihood, Bernoulli):
        data = dataclasses.replace(data, y=torch.nn.functional.one_hot(data.y, 3).float())
    result = explain(data, predictions, likelihood, 0.0, None)
    assert result.weights.sum() == pytest.approx(1)
    assert result.weights.min() > 0.05, "both predictions count, so that the test can fail"
    np.testing.assert_allclose(result.adjust(mix(predictions, result.weights)), result.target, atol=1e-6)


def test_privileged_information_that_tells_the_label_is_no_evidence_of_errors():
    """A judge's score determines the verdict; with it, a constant truth would explain all labels."""
    data, predictions, truth = make_crowd(examples=400, annotators=5, classes=2, unannotated=())
    score = torch.nn.functional.one_hot(data.y, 2).float() + 0.1 * torch.randn(
        len(data), 2, generator=torch.Generator().manual_seed(0)
    )
    copied = dataclasses.replace(data, a=torch.cat([data.a[:, :5], score], 1))
    votes = to_votes(copied, copied.y, 2, None)
    assert tells_label(find_features(copied), votes, predictions[0])
    assert not tells_label(find_features(data), votes, predictions[0]), "haste does not tell the label"
    equal = dataclasses.replace(votes, label=np.zeros_like(votes.label))
    assert not tells_label(find_features(copied), equal, predictions[0]), "there is nothing to tell"
    without = dataclasses.replace(data, a=data.a[:, :5])
    found, expected = (explain(part, predictions, Categorical(), 1.0, None).target for part in (copied, without))
    np.testing.assert_array_equal(found, expected)
    assert (found.argmax(1) == truth).mean() > 0.8


@pytest.mark.parametrize("seed", range(3))
def test_predictions_that_have_learnt_the_answer_of_spammers_do_not_outvote_one_that_has_not(seed):
    rng = np.random.default_rng(seed)
    truth, who = rng.integers(3, size=500), rng.integers(10, size=500)
    y = np.where(rng.uniform(size=500) < 0.9, truth, rng.integers(3, size=500))
    y = np.where(who < 5, 0, y)  # five spammers always answer 0
    a, y, who = torch.eye(10)[torch.from_numpy(who)], torch.from_numpy(y), torch.from_numpy(who)
    data = Annotations(torch.zeros(500, 1), torch.arange(500), a, y, who)

    def predict():
        guess = np.where(rng.uniform(size=500) < 0.6, truth, rng.integers(3, size=500))
        return 0.6 * np.eye(3)[guess] + 0.4 * rng.dirichlet(np.ones(3), 500)

    clean, misled = predict(), [0.3 * predict() + 0.7 * np.eye(3)[0] for _ in range(3)]
    found = explain(data, [*misled, clean], Categorical(), 0.75, None)
    assert found.weights[-1] > 0.7
    assert (found.target.argmax(1) == truth).mean() > 0.7  # a third without the prediction that was not misled


def test_several_binary_labels_are_binary_problems_with_one_crowd():
    data, _, _ = make_crowd(classes=2)
    rng = np.random.default_rng(1)
    y = torch.from_numpy(np.column_stack([data.y, rng.integers(2, size=len(data)), data.y])).float()
    p = rng.uniform(0.05, 0.95, (58, 3))
    several = dataclasses.replace(data, y=y)
    result = explain(several, [p], Bernoulli(), 0.75, 0.5)
    # The same labels as one problem of two classes, in which example 3 i + l is label l of example i.
    flat = Annotations(
        torch.zeros(180, 1),
        (data.row[:, None] * 3 + torch.arange(3)).flatten(),
        data.a.repeat_interleave(3, 0),
        y.flatten().long(),
        data.annotator.repeat_interleave(3),
    )
    prior = np.stack([1 - p, p], -1).reshape(-1, 2)
    expected = explain(flat, [prior], Categorical(), 0.75, 0.5)
    np.testing.assert_allclose(result.target.ravel(), expected.target[:, 1], atol=1e-9)


def test_without_annotators_labels_are_of_one():
    data, (p, _), _ = make_crowd()
    alone = dataclasses.replace(data, annotator=None)
    one = dataclasses.replace(data, annotator=torch.zeros_like(data.annotator))
    found, expected = (explain(part, [p], Categorical(), 0.75, 0.5) for part in (alone, one))
    np.testing.assert_array_equal(found.target, expected.target)
    assert to_votes(alone, alone.y, 3, None).annotators == 1
    assert find_features(alone).shape == (len(data), 6), "who gave a label is a feature now"
    assert find_features(data).shape == (len(data), 1)


def test_privileged_information_that_is_constant_is_no_feature():
    data, _, _ = make_crowd()
    constant = dataclasses.replace(data, a=torch.ones(len(data), 4), annotator=None)
    assert find_features(constant) is None
    assert find_features(constant.without_privileged()) is None


def test_examples_are_numbered_among_the_annotated():
    data, _, _ = make_crowd()
    assert data.annotated[number_examples(data)].tolist() == data.row.tolist()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(-6, 6), st.randoms(use_true_random=False))
def test_features_that_the_annotator_determines_are_dropped(who, scale, random):
    annotator, size = np.array(who), 10.0**scale
    own = np.array([[random.choice([0, size, size * random.random()]) for _ in range(3)] for _ in range(5)])
    varying = np.array([[random.choice([0.0, size]) for _ in range(2)] for _ in who])
    features = np.column_stack([own[annotator], varying])
    expected = [column for column in range(5) if any(len(set(features[annotator == j, column])) > 1 for j in set(who))]
    kept = drop_constant(scipy.sparse.csr_array(features), annotator)
    np.testing.assert_array_equal(kept.toarray(), features[:, expected])


def test_features_of_a_large_size_are_compared_exactly():
    annotator = np.repeat([0, 1], 50)
    features = np.column_stack([np.repeat([1e8 + 0.1, 0.3], 50), 1e8 + annotator + 1e-3 * (np.arange(100) % 2)])
    assert drop_constant(scipy.sparse.csr_array(features), annotator).shape == (100, 1)


@given(st.integers(1, 4), st.integers(1, 5))
def test_sparse_rows_are_the_same_features(entries, width):
    generator = torch.Generator().manual_seed(entries + 10 * width)
    data, _, _ = make_crowd(examples=8, unannotated=())
    index = torch.randint(width, (len(data), entries), generator=generator, dtype=torch.int32)  # with repetitions
    rows = SparseRows(index, torch.randn(len(data), entries, generator=generator), width)
    sparse, dense = dataclasses.replace(data, a=rows), dataclasses.replace(data, a=rows.dense())
    found, expected = (find_features(part) for part in (sparse, dense))
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-6)


# ---------------------------------------------------------------------------- real numbers


@given(st.integers(1, 4), st.integers(0, 1000), st.sampled_from([1e-3, 1.0, 1e4]))
def test_weights_of_real_numbers_are_constrained_least_squares(members, seed, scale):
    rng = np.random.default_rng(seed)
    error = scale * rng.normal(rng.normal(size=members), rng.uniform(0.1, 2, members), (200, members))
    weights = minimize_on_simplex(error)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    # The conditions of Karush, Kuhn and Tucker: the slopes of members in use are equal, and no other is lower.
    slope = error.T @ (error @ weights) / (error**2).sum()
    lowest = slope.min()
    np.testing.assert_allclose(slope[weights > 1e-8], lowest, atol=1e-9)
    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1}
    unit = error / scale
    solved = minimize(
        lambda w: ((unit @ w) ** 2).mean(),
        np.full(members, 1 / members),
        bounds=[(0, 1)] * members,
        constraints=[simplex],
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(weights, solved.x, atol=1e-3)


def test_weights_of_exact_predictions():
    np.testing.assert_allclose(minimize_on_simplex(np.zeros((5, 2))).sum(), 1)
    np.testing.assert_allclose(minimize_on_simplex(np.array([[0.0, 1.0], [0.0, -2.0]])), [1, 0])


def test_target_of_real_numbers_is_between_mixture_and_truth():
    rng = np.random.default_rng(0)
    truth, row = rng.normal(size=200), np.arange(200).repeat(2)
    who = np.tile([0, 1], 200)
    y = truth[row] + np.where(who == 0, 0.8, -0.8) + np.where(who == 0, 0.1, 2) * rng.normal(size=400)
    data = Annotations(
        torch.zeros(200, 1), torch.from_numpy(row), torch.zeros(400, 0), torch.from_numpy(y), torch.from_numpy(who)
    )
    predictions = [truth[:, None] + spread * rng.normal(size=(200, 1)) for spread in (0.5, 2)]
    whole, half, none = (explain(data, predictions, Gaussian(), weight, None) for weight in (1.0, 0.5, 0.0))
    assert whole.weights[0] > 0.8
    mixed = mix([p[:, 0] for p in predictions], none.weights)
    np.testing.assert_allclose(none.target, none.adjust(mixed))
    np.testing.assert_allclose(half.target, (whole.target + none.target) / 2)

    def error(estimate):
        return np.mean((estimate - truth) ** 2)

    mean = np.bincount(row, y) / 2
    assert error(whole.target) < 0.6 * min(error(mean), error(mixed)), "the precise annotator's offset is subtracted"


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_that_tell_the_label_are_hidden_from_members(sparse):
    """A judge's score tells the verdict; who judged, and how long it took, do not."""
    rng = np.random.default_rng(0)
    y, who = rng.integers(0, 2, 400), rng.integers(0, 4, 400)
    a = np.hstack([np.eye(4)[who], rng.random((400, 1)), (y + 0.1 * rng.normal(size=400))[:, None]])
    p = 0.3 + 0.4 * np.eye(2)[np.where(rng.random(400) < 0.7, y, 1 - y)]
    data = Annotations(
        torch.zeros(400, 1),
        torch.arange(400),
        SparseRows.from_matrix(scipy.sparse.csr_array(a)) if sparse else torch.from_numpy(a),
        torch.from_numpy(y),
        annotator=torch.from_numpy(who),
    )
    hidden = hide_telling(data, p, Categorical()).a
    shown = hidden[torch.arange(400)] if sparse else hidden
    np.testing.assert_allclose(shown[:, :4], np.eye(4)[who])
    assert not shown[:, 4:].any()
    harmless = dataclasses.replace(data, a=torch.from_numpy(a[:, :5]))
    assert hide_telling(harmless, p, Categorical()) is harmless
