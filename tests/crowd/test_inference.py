from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.crowd import Votes, infer, sample_reliability
from lupi.crowd.inference import recalibrate, run_em
from lupi.crowd.posterior import compute_posterior, expected_counts


@given(st.integers(0, 10**6), st.floats(0.01, 5))
@settings(max_examples=20)
def test_em_never_lowers_the_log_posterior(draw_votes, seed, pseudo):
    votes, log_prior, _ = draw_votes(seed, examples=8, people=3, labels=30)
    start = np.random.default_rng(seed).dirichlet(np.ones(3), 8)
    _, _, trace = run_em(log_prior, np.full((3, 3, 3), pseudo), votes, start, tolerance=0)
    assert len(trace) > 1
    assert np.diff(trace).min() > -1e-9
    assert trace[-1] > trace[0]


def test_em_ends_where_both_steps_agree(simulate):
    p, label, example, annotator, *_ = simulate(0)
    votes = Votes(example=example, annotator=annotator, label=label, examples=200, annotators=12, classes=3)
    pseudo = np.full((12, 3, 3), 0.5)
    confusion, truth, trace = run_em(np.log(p[::4]), pseudo, votes, p[::4], tolerance=1e-13)
    again = expected_counts(truth, votes) + pseudo
    np.testing.assert_allclose(again / again.sum(2, keepdims=True), confusion, atol=1e-4)
    np.testing.assert_allclose(compute_posterior(np.log(p[::4]), confusion, votes)[0], truth)
    assert trace[-1] - trace[0] > 1


def dawid_skene(label, example, annotator, classes, steps):
    """Textbook Dawid-Skene with loops, from the shares of votes, with the class prior of a uniform model."""
    examples, people = max(example) + 1, max(annotator) + 1
    q = np.zeros((examples, classes))
    for i, y in zip(example, label, strict=True):
        q[i, y] += 1
    q /= q.sum(1, keepdims=True)
    for _ in range(steps):
        pi = np.full((people, classes, classes), 0.01)
        for i, j, y in zip(example, annotator, label, strict=True):
            pi[j, :, y] += q[i]
        pi /= pi.sum(2, keepdims=True)
        q = np.ones((examples, classes)) / classes
        for i, j, y in zip(example, annotator, label, strict=True):
            q[i] *= pi[j, :, y]
        q /= q.sum(1, keepdims=True)
    return q, pi


def test_uniform_prior_is_ordinary_dawid_skene(simulate):
    _, label, example, annotator, *_ = simulate(1, examples=60, people=5)
    votes = Votes(example=example, annotator=annotator, label=label, examples=60, annotators=5, classes=3)
    shares = np.zeros((60, 3))
    np.add.at(shares, (example, label), 0.25)
    confusion, truth, trace = run_em(np.log(np.full((60, 3), 1 / 3)), np.full((5, 3, 3), 0.01), votes, shares)
    expected_truth, expected_confusion = dawid_skene(label, example, annotator, 3, len(trace))
    np.testing.assert_allclose(confusion, expected_confusion, atol=1e-8)
    np.testing.assert_allclose(truth, expected_truth, atol=1e-8)


def test_permuting_classes_annotators_and_examples_permutes_the_answer(simulate):
    p, label, example, annotator, *_ = simulate(2)
    rng = np.random.default_rng(0)
    classes, people, rows = rng.permutation(3), rng.permutation(12), rng.permutation(len(label))
    one = infer(p, label, example=example, annotator=annotator)
    # Class k is called classes[k], annotator j people[j], and the labels come in another order.
    other = infer(
        p[:, np.argsort(classes)][rows],
        classes[label][rows],
        example=example[rows] * 7,
        annotator=people[annotator][rows],
    )
    np.testing.assert_allclose(other.wrong, one.wrong[rows], atol=1e-3)
    of_one = dict(zip(people[one.names], sample_reliability(one)[0], strict=True))
    of_other = dict(zip(other.names, sample_reliability(other)[0], strict=True))
    assert of_one == pytest.approx(of_other, abs=0.02)  # sampling


def test_recalibration_finds_the_temperature():
    rng = np.random.default_rng(7)
    log_p = np.log(rng.dirichlet([1, 1, 1], 3000))
    sharp = np.exp(2.5 * log_p)
    sharp /= sharp.sum(1, keepdims=True)
    truth = (sharp.cumsum(1) > rng.random((3000, 1))).argmax(1)
    label = np.where(rng.random(3000) < 0.8, truth, (truth + rng.integers(1, 3, 3000)) % 3)
    evidence = np.log(np.where(np.arange(3) == label[:, None], 0.8, 0.1))
    log_fitted, beta = recalibrate(log_p, evidence)
    fitted = np.exp(log_fitted)
    assert beta == pytest.approx(2.5, abs=0.3)
    assert np.abs(fitted - sharp).mean() < 0.015
    assert np.abs(np.exp(log_p) - sharp).mean() > 0.1


def test_others_leave_the_own_label_out(simulate):
    p, label, example, annotator, *_ = simulate(9, examples=30)
    found = infer(p, label, example=example, annotator=annotator)
    v = found.votes
    for i in (0, 17, 63):
        rest = np.arange(len(label)) != i
        less = replace(v, example=v.example[rest], annotator=v.annotator[rest], label=v.label[rest])
        without, _ = compute_posterior(found.log_prior, found.confusion, less)
        np.testing.assert_allclose(found.others[i], without[v.example[i]], atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.5, 0.5]}, r"`p`.*\[2\]"),
        ({"p": [[np.nan, 0.5]] * 2}, "`p`"),
        ({"label": [0, 2]}, r"`label`.*0 to 1.*0 to 2"),
        ({"label": [0.0, 1.0]}, "`label`.*float64"),
        ({"example": [1]}, r"`example`.*2.*\[1\]"),
        ({"annotator": [[1, 2], [3, 4]]}, r"`annotator`.*\[2, 2\]"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    inputs = {"p": [[0.5, 0.5]] * 2, "label": [0, 1], "example": [0, 1], "annotator": [0, 0]} | change
    with pytest.raises(ValueError, match=message):
        infer(inputs["p"], inputs["label"], example=inputs["example"], annotator=inputs["annotator"])
