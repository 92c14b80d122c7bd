from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from lupi.crowd import infer, tempering
from lupi.crowd.inference import infer_votes
from lupi.crowd.likelihood import LabelModel, example_evidence, label_evidence
from lupi.crowd.tempering import GRID, choose_exponent, inputs_log_likelihood, left_out_log_likelihood


@given(st.integers(0, 10**6), st.floats(0.1, 1))
@settings(max_examples=25)
def test_leave_one_out_is_that_of_dropping_each_label(draw_votes, seed, exponent):
    votes, log_prior, _ = draw_votes(seed, labels=6)
    rng = np.random.default_rng(seed)
    eta, ease, errors = rng.normal(size=6), rng.normal(size=3), rng.dirichlet([1, 1], 3)
    errors = np.array([[0, *errors[0]], [errors[1, 0], 0, errors[1, 1]], [*errors[2], 0]])
    model = LabelModel(log_odds=eta, ease=ease, errors=errors, share=np.zeros(2), habits=np.full((2, 3), 1 / 3))
    scores = []
    for n in range(6):
        rest = np.arange(6) != n
        if not (votes.example[rest] == votes.example[n]).any():
            continue
        less = replace(votes, example=votes.example[rest], annotator=votes.annotator[rest], label=votes.label[rest])
        evidence = example_evidence(less, replace(model, log_odds=eta[rest]))
        others = np.exp(log_prior + exponent * evidence)[votes.example[n]]
        y = votes.label[n]
        of_label = expit(-eta[n] - ease) * errors[:, y]
        of_label[y] = expit(eta[n] + ease[y])
        scores.append(np.log(others @ of_label / others.sum()))
    evidence = example_evidence(votes, model)
    found = left_out_log_likelihood(
        votes, log_prior, evidence, partial(label_evidence, votes, model), np.array([exponent])
    )
    assert found == pytest.approx(np.sum(scores))


@given(st.integers(0, 10**6), st.floats(0.1, 1))
@settings(max_examples=25)
def test_inputs_are_predicted_by_the_posterior_of_the_labels_alone(draw_votes, seed, exponent):
    votes, log_prior, _ = draw_votes(seed, labels=6)
    votes = replace(votes, gold=np.where(np.arange(votes.examples) == 0, 1, -1))
    rng = np.random.default_rng(seed)
    evidence, p = rng.normal(size=log_prior.shape), np.exp(log_prior)
    share, total = p.mean(0), 0.0
    for i in range(votes.examples):
        r = share * np.exp(evidence[i]) ** exponent
        of_x = np.eye(3)[1] if i == 0 else p[i]  # a known true label stands for x
        total += np.log((of_x * r / r.sum() / share).sum())
    assert inputs_log_likelihood(votes, log_prior, evidence, np.array([exponent])) == pytest.approx(total)


def arguments(found):
    return found.votes, found.log_prior, found.evidence, partial(label_evidence, found.votes, found.model)


def test_the_exponent_is_the_lower_of_two_each_shrunk_towards_one(simulate):
    p, label, example, annotator, *_ = simulate(1)
    label = np.where(np.arange(len(label)) % 4 < 3, label[example * 4], label)  # three labels of four are copies
    found = infer(p, label, example=example, annotator=annotator)
    shrink = np.log(GRID) ** 2 / 2
    of_inputs = GRID[np.argmax(inputs_log_likelihood(*arguments(found)[:3], GRID) - shrink)]
    of_labels = GRID[np.argmax(left_out_log_likelihood(*arguments(found), GRID) - shrink)]
    assert of_inputs < of_labels, "labels that are copies predict each other, but not x"
    assert found.exponent == choose_exponent(*arguments(found)) == of_inputs


def test_inputs_that_tell_nothing_leave_the_exponent_to_the_labels(simulate):
    p, label, example, annotator, *_ = simulate(1)
    found = infer(np.full_like(p, 1 / p.shape[1]), label, example=example, annotator=annotator)
    assert inputs_log_likelihood(*arguments(found)[:3], GRID) == pytest.approx(0, abs=1e-6)
    shrunk = left_out_log_likelihood(*arguments(found), GRID) - np.log(GRID) ** 2 / 2
    assert found.exponent == GRID[np.argmax(shrunk)]


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_posteriors_of_annotators_who_copy_are_nearly_those_of_the_best_exponent(rate):
    rng = np.random.default_rng(int(100 * rate))
    logits = 1.5 * rng.normal(size=(600, 4))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    truth = (p.cumsum(1) > rng.random((600, 1))).argmax(1)
    example = np.arange(600).repeat(5)
    own = np.where(rng.random(3000) < 0.4, (truth[example] + rng.integers(1, 4, 3000)) % 4, truth[example])
    label = np.where(rng.random(3000) < rate, own[example * 5], own)  # of the first annotator of the example
    annotator = rng.permuted(np.tile(np.arange(20), (600, 1)), axis=1)[:, :5].ravel()

    def score(q):
        return -np.log(q[np.arange(600), truth]).mean()

    found = infer(p[example], label, example=example, annotator=annotator)
    fixed = [infer_votes(found.votes, p, exponent=float(exponent)).truth for exponent in (0, *GRID[::4])]
    assert score(found.truth) < min(map(score, fixed)) + 0.05
    assert score(found.truth) < score(p)


def test_without_two_labels_of_an_example_independent_labels_have_exponent_one(simulate):
    p, label, _, annotator, *_ = simulate(1)
    assert infer(p, label, annotator=annotator).exponent > 0.8


def test_many_labels_are_thinned_evenly(simulate, monkeypatch):
    p, label, example, annotator, *_ = simulate(1, examples=500)
    found = infer(p, label, example=example, annotator=annotator)
    every = left_out_log_likelihood(*arguments(found), GRID) / 2000
    monkeypatch.setattr(tempering, "MOST", 700)
    some = left_out_log_likelihood(*arguments(found), GRID) / 667
    assert some == pytest.approx(every, abs=0.1)
    assert (some != every).all()
