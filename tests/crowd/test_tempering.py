from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from lupi.crowd import infer, tempering
from lupi.crowd.likelihood import LabelModel, example_evidence, label_evidence
from lupi.crowd.tempering import GRID, choose_exponent, leave_one_out_log_likelihood


@given(st.integers(0, 10**6), st.floats(0.1, 1))
@settings(max_examples=25)
def test_leave_one_out_is_that_of_dropping_each_label(draw_votes, seed, exponent):
    votes, log_prior, _ = draw_votes(seed, labels=6)
    rng = np.random.default_rng(seed)
    eta, errors = rng.normal(size=6), rng.dirichlet([1, 1], 3)
    errors = np.array([[0, *errors[0]], [errors[1, 0], 0, errors[1, 1]], [*errors[2], 0]])
    model = LabelModel(log_odds=eta, errors=errors, share=np.zeros(2), habits=np.full((2, 3), 1 / 3))
    scores = []
    for n in range(6):
        rest = np.arange(6) != n
        if not (votes.example[rest] == votes.example[n]).any():
            continue
        less = replace(votes, example=votes.example[rest], annotator=votes.annotator[rest], label=votes.label[rest])
        evidence = example_evidence(less, replace(model, log_odds=eta[rest]))
        others = np.exp(log_prior + exponent * evidence)[votes.example[n]]
        y = votes.label[n]
        of_label = expit(-eta[n]) * errors[:, y]
        of_label[y] = expit(eta[n])
        scores.append(np.log(others @ of_label / others.sum()))
    evidence = example_evidence(votes, model)
    found = leave_one_out_log_likelihood(
        votes, log_prior, evidence, partial(label_evidence, votes, model), np.array([exponent])
    )
    assert found == pytest.approx(np.mean(scores))


def arguments(found):
    return found.votes, found.log_prior, found.evidence, partial(label_evidence, found.votes, found.model)


def test_the_exponent_is_what_predicts_left_out_labels_best_shrunk_towards_one(simulate):
    p, label, example, annotator, *_ = simulate(1)
    label = np.where(np.arange(len(label)) % 4 < 3, label[example * 4], label)  # three labels of four are copies
    found = infer(p, label, example=example, annotator=annotator)
    best = GRID[leave_one_out_log_likelihood(*arguments(found), GRID).argmax()]
    assert best < 1, "so that the test can fail"
    expected = np.exp(800 * np.log(best) / 1300)
    assert found.exponent == choose_exponent(*arguments(found)) == pytest.approx(expected)


def test_without_two_labels_of_an_example_the_exponent_is_one(simulate):
    p, label, _, annotator, *_ = simulate(1)
    assert infer(p, label, annotator=annotator).exponent == 1


def test_copied_labels_lower_the_exponent(simulate):
    p, label, example, annotator, *_ = simulate(2, examples=600, a=4, b=3)
    independent = infer(p, label, example=example, annotator=annotator).exponent
    # All say what the first annotator of the example says, with few exceptions.
    copy = np.where(np.random.default_rng(0).random(len(label)) < 0.1, label, label[example * 4])
    assert infer(p, copy, example=example, annotator=annotator).exponent < independent
    assert independent > 0.6


def test_many_labels_are_thinned_evenly(simulate, monkeypatch):
    p, label, example, annotator, *_ = simulate(1, examples=500)
    found = infer(p, label, example=example, annotator=annotator)
    every = leave_one_out_log_likelihood(*arguments(found), GRID)
    monkeypatch.setattr(tempering, "MOST", 700)
    some = leave_one_out_log_likelihood(*arguments(found), GRID)
    assert some == pytest.approx(every, abs=0.1)
    assert (some != every).all()
