from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.crowd import Votes
from lupi.crowd.habits import FEW, estimate_habits, start_model, update_habits


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_a_step_of_em_is_that_of_enumerating_truths(draw_votes, seed):
    votes, log_prior, _ = draw_votes(seed, labels=6, sort=True)
    rng = np.random.default_rng(seed)
    model = replace(
        start_model(votes, np.ones(votes.annotators)),
        log_odds=rng.normal(size=6),
        ease=rng.normal(size=3),
        share=rng.uniform(size=2),
    )
    found, errors = update_habits(votes, model, log_prior)
    habits, expected = np.zeros(6), np.zeros((3, 3))
    for n in range(6):
        # P(z, all labels of the example, label n is a habit) and P(…, it is not).
        joint = np.zeros((3, 2))
        for z in range(3):
            product = np.exp(log_prior[votes.example[n], z])
            own = np.zeros(2)
            for m in np.flatnonzero(votes.example == votes.example[n]):
                j, y, right = votes.annotator[m], votes.label[m], 1 / (1 + np.exp(-model.log_odds[m] - model.ease[z]))
                work = (1 - model.share[j]) * (right if y == z else (1 - right) * model.errors[z, y])
                habit = model.share[j] * model.habits[j, y]
                if m == n:
                    own[:] = habit, work
                else:
                    product *= work + habit
            joint[z] = product * own
        joint /= joint.sum()
        habits[n] = joint[:, 0].sum()
        expected[:, votes.label[n]] += joint[:, 1] * (np.arange(3) != votes.label[n])
    np.testing.assert_allclose(errors, expected, atol=1e-12)
    for j in range(2):
        mine = votes.annotator == j
        assert found.share[j] == pytest.approx(habits[mine].sum() / (mine.sum() + FEW))
    np.testing.assert_allclose(found.habits, estimate_habits(votes, habits))


def test_habits_are_weighted_frequencies_with_one_label_of_the_average(draw_votes):
    votes, *_ = draw_votes(0, labels=40)
    weight = np.random.default_rng(0).uniform(size=40)
    overall = (np.bincount(votes.label, minlength=3) + 1) / 43
    for j, habits in enumerate(estimate_habits(votes, weight)):
        count = np.bincount(votes.label[votes.annotator == j], weight[votes.annotator == j], 3)
        np.testing.assert_allclose(habits, (count + overall) / (count.sum() + 1))


def test_constant_answers_become_habits_and_honest_ones_do_not(simulate):
    p, label, example, annotator, *_ = simulate(0, examples=100)
    votes = Votes(
        example=example,
        annotator=annotator,
        label=np.where(annotator < 3, 1, label),
        examples=100,
        annotators=12,
        classes=3,
    )
    model = start_model(votes, np.ones(votes.annotators))
    for _ in range(20):
        model, _ = update_habits(votes, model, np.log(p[::4]))
    assert model.share[:3].min() > 0.6
    assert model.share[3:].max() < 0.3
