"""Known true labels and trusted annotators."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.sparse import csr_array
from scipy.special import expit

from lupi.crowd import Votes, dawid_skene, infer
from lupi.crowd.annotators import Z, approximate_reliability
from lupi.crowd.confusions import compute_posterior, run_em
from lupi.crowd.habits import start_model
from lupi.crowd.inference import infer_votes, negative_log_posterior
from lupi.crowd.likelihood import marginal_log_likelihood
from lupi.crowd.tables import infer_alone
from lupi.crowd.trusted import STRENGTH, average_rows

seeds = st.integers(0, 10**6)


def draw_anchored(draw_votes, seed, **sizes):
    votes, log_prior, confusion = draw_votes(seed, **sizes)
    rng = np.random.default_rng(seed)
    gold = rng.integers(-1, votes.classes, votes.examples)
    trust = np.where(rng.random(votes.annotators) < 0.5, rng.uniform(0.1, 0.9, votes.annotators), np.nan)
    trust[np.bincount(votes.annotator, minlength=votes.annotators) == 0] = np.nan
    return replace(votes, gold=gold, trust=trust), log_prior, confusion


def is_possible(z, gold):
    return all(known in (-1, value) for value, known in zip(z, gold, strict=True))


@given(seeds)
@settings(max_examples=30)
def test_marginal_likelihood_is_that_of_enumerating_the_truths_that_are_possible(draw_votes, seed):
    votes, log_p, _ = draw_anchored(draw_votes, seed, sort=True)
    rng = np.random.default_rng(seed)
    eta, model = rng.normal(size=5), start_model(votes, np.ones(votes.annotators))
    errors, prior = model.errors, np.exp(log_p)
    model = replace(model, log_odds=eta, share=np.zeros(votes.annotators))
    total, right = 0.0, np.zeros(5)
    for z in product(range(3), repeat=3):
        if is_possible(z, votes.gold):
            true = np.array(z)[votes.example]
            of_labels = np.where(true == votes.label, expit(eta), expit(-eta) * errors[true, votes.label])
            probability = prior[range(3), z].prod() * of_labels.prod()
            total, right = total + probability, right + probability * (true == votes.label)
    value, slope, _ = marginal_log_likelihood(votes, log_p, model)
    assert value == pytest.approx(np.log(total))
    np.testing.assert_allclose(slope, right / total - expit(eta), atol=1e-10)


@given(seeds)
@settings(max_examples=20)
def test_gradient_of_the_posterior_is_that_of_finite_differences(draw_votes, seed):
    votes, log_p, _ = draw_anchored(draw_votes, seed, examples=5, labels=12, people=3, sort=True)
    rng = np.random.default_rng(seed)
    design, model = csr_array(rng.normal(size=(12, 4))), start_model(votes, np.ones(votes.annotators))
    centre, variance, shares = rng.normal(size=7), rng.uniform(0.5, 2, 7), rng.dirichlet(np.ones(3))
    arguments = (votes, log_p, model, design, shares, centre, variance, average_rows(votes, design))
    found = check_grad(
        lambda t: negative_log_posterior(t, *arguments)[0],
        lambda t: negative_log_posterior(t, *arguments)[1],
        rng.normal(size=7),
    )
    assert found < 1e-3


@given(seeds)
@settings(max_examples=20)
def test_dawid_skene_posterior_is_that_of_enumerating_the_truths_that_are_possible(draw_votes, seed):
    votes, log_prior, confusion = draw_anchored(draw_votes, seed)
    marginal, total = np.zeros((3, 3)), 0.0
    for z in product(range(3), repeat=3):
        if is_possible(z, votes.gold):
            given_labels = confusion[votes.annotator, np.array(z)[votes.example], votes.label].prod()
            probability = np.exp(log_prior[range(3), z].sum()) * given_labels
            marginal[range(3), z] += probability
            total += probability
    truth, evidence = compute_posterior(log_prior, confusion, votes)
    np.testing.assert_allclose(truth, marginal / total, atol=1e-12)
    assert evidence == pytest.approx(np.log(total))


@given(seeds)
@settings(max_examples=20)
def test_em_never_lowers_the_log_posterior(draw_votes, seed):
    votes, *_ = draw_anchored(draw_votes, seed, examples=8, people=3, labels=30)
    start = np.random.default_rng(seed).dirichlet(np.ones(3), 8)
    trace = run_em(votes, start, smoothing=0.1, tolerance=0, steps=200)[2]
    assert np.diff(trace[1:]).min(initial=0) > -1e-9


@pytest.mark.parametrize("exponent", [None, 0.0, 1.0])
def test_a_known_truth_is_the_posterior_exactly(simulate, exponent):
    p, label, example, annotator, truth, _ = simulate(0)
    known = np.random.default_rng(0).random(len(truth)) < 0.2
    gold = np.where(known, (truth + 1) % 3, -1)  # a truth that no label and no prediction speaks for
    found = infer(p, label, example=example, annotator=annotator, gold=gold[example], exponent=exponent)
    np.testing.assert_array_equal(found.truth[known], np.eye(3)[gold[known]])
    at = known[example]
    np.testing.assert_array_equal(found.wrong[at], (label != gold[example])[at])
    np.testing.assert_array_equal(found.others[at], np.eye(3)[gold[example][at]])
    assert found.truth[~known].max() < 1
    classical = dawid_skene(found.votes)[0]
    np.testing.assert_array_equal(classical[known], np.eye(3)[gold[known]])


def test_annotators_learn_from_known_truth_alone_where_predictions_say_nothing(simulate):
    _, label, example, annotator, truth, _ = simulate(1, examples=2000, per_example=1, people=4, classes=2)
    found = infer(np.full((2000, 2), 0.5), label, annotator=annotator, gold=truth[example])
    share = np.array([(label == truth[example])[annotator == j].mean() for j in found.names])
    np.testing.assert_allclose(found.votes.mean_by_annotator(found.right), share, atol=0.02)
    mean, low, high = approximate_reliability(found)
    np.testing.assert_allclose(mean, share, atol=0.03)
    assert ((low < share) & (share < high)).all()


@pytest.mark.parametrize("trust", [0.3, 0.8, 0.98])
def test_trust_is_the_reliability_where_nothing_tells(trust):
    rng = np.random.default_rng(0)
    label, annotator = rng.integers(2, size=400), np.arange(400) % 4
    found = infer(np.full((400, 2), 0.5), label, annotator=annotator, trust={2: trust})
    assert found.votes.mean_by_annotator(found.right)[2] == pytest.approx(trust, abs=0.01)
    mean, low, _ = approximate_reliability(found)
    assert mean[2] == pytest.approx(trust, abs=0.01)
    expected = Z / np.sqrt(STRENGTH * trust * (1 - trust))  # the interval of 100 labels
    assert low[2] == pytest.approx(expit(np.log(trust / (1 - trust)) - expected), abs=0.03)


@pytest.mark.parametrize("count", [10, 100, 1000])
def test_trust_counts_as_many_labels_as_documented(count):
    """Of `count` labels with known truth none is right: a share t of 100 more would be."""
    rng = np.random.default_rng(0)
    gold, trust = rng.integers(2, size=2 * count), 0.9
    annotator = np.arange(2 * count) % 2
    label = np.where(annotator == 0, 1 - gold, gold)
    found = infer(np.full((2 * count, 2), 0.5), label, annotator=annotator, gold=gold, trust={0: trust})
    expected = STRENGTH * trust / (STRENGTH + count)
    assert expit(found.mean + found.effects[0]) == pytest.approx(expected, abs=0.02)


def test_complete_trust_beats_a_majority():
    truth, rng = np.arange(60) % 2, np.random.default_rng(0)
    wrong = np.where(rng.random((60, 3)) < 0.8, 1 - truth[:, None], truth[:, None])  # three who mostly agree on errors
    label = np.column_stack([truth, wrong]).ravel()
    arguments = {"example": np.arange(60).repeat(4), "annotator": ["expert", "x", "y", "z"] * 60}
    p = np.full((240, 2), 0.5)
    assert (infer(p, label, **arguments).truth.argmax(1) == truth).mean() < 0.3
    assert (infer(p, label, **arguments, trust={"expert": 0.999}).truth.argmax(1) == truth).all()
    known = np.where(np.arange(60) < 10, truth, -1).repeat(4)
    assert (infer(p, label, **arguments, gold=known).truth.argmax(1) == truth).all()


def test_the_order_of_rows_does_not_matter(simulate):
    p, label, example, annotator, truth, _ = simulate(3)
    gold, order = np.where(truth[example] == 1, 1, -1), np.random.default_rng(0).permutation(len(label))
    given_trust = {"trust": {4: 0.95}}
    one = infer(p, label, example=example, annotator=annotator, gold=gold, **given_trust)
    rows = {"example": example[order], "annotator": annotator[order], "gold": gold[order]}
    other = infer(p[order], label[order], **rows, **given_trust)
    np.testing.assert_allclose(other.wrong, one.wrong[order], atol=1e-3)


def test_trust_in_nobody_and_no_gold_change_nothing(simulate):
    p, label, example, annotator, *_ = simulate(4)
    one = infer(p, label, example=example, annotator=annotator)
    other = infer(p, label, example=example, annotator=annotator, gold=np.full(len(label), np.nan), trust={})
    np.testing.assert_array_equal(other.truth, one.truth)


def test_a_single_annotator_can_be_judged_by_true_labels():
    truth = np.arange(300) % 3
    votes = Votes(
        example=np.arange(300), annotator=np.zeros(300, int), label=0 * truth, examples=300, annotators=1, classes=3
    )
    p = np.full((300, 3), 0.15) + 0.55 * np.eye(3)[truth]
    found = infer_votes(replace(votes, gold=np.where(np.arange(300) < 60, truth, -1)), p)
    assert (found.truth.argmax(1) == truth).all()  # the labels, all 0, count for nothing
    assert infer_alone(replace(votes, gold=truth)).truth.argmax(1).tolist() == truth.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gold": [0, 1]}, r"`gold` to have 4 rows"),
        ({"gold": [0, 5, -1, 0]}, r"`gold` to be classes from 0 to 1.*5"),
        ({"gold": [0, 1, -1, 0], "example": [0, 0, 1, 2]}, r"same in all rows.*0 in row 0 and 1 in another row"),
        ({"trust": {"eva": 0.9}}, r"`trust` to name annotators, but got 'eva': did you mean 'eve'"),
        ({"trust": {"nobody": 0.9}}, r"but got 'nobody': the annotators are bob, eve"),
        ({"trust": {"eve": 1.0}}, r"`trust` in 'eve' to be a number between 0 and 1, but got 1.0"),
        ({"trust": {"eve": "much"}}, r"between 0 and 1, but got 'much'"),
        ({"trust": ["eve"]}, r"`trust` to be a dict"),
    ],
)
def test_wrong_arguments_are_explained(arguments, message):
    with pytest.raises(ValueError, match=message):
        infer(np.full((4, 2), 0.5), [0, 1, 0, 1], annotator=["bob", "eve"] * 2, **arguments)
