"""The model of a rating scale: messages against enumeration, recovery of known annotators, anchors."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from lupi.crowd import Votes, grades
from lupi.crowd.grades import infer_grades, make_characters
from lupi.crowd.habits import estimate_habits
from lupi.crowd.inference import infer_votes
from lupi.metrics import absolute_error, ranked_probability_score

K = 7
COUNT, PEOPLE, EACH = 800, 40, 3
RNG = np.random.default_rng(0)
TRUE = np.clip(np.round(RNG.normal(3, 1.5, COUNT)), 0, K - 1).astype(int)
BIAS, SPREAD = RNG.normal(0, 0.8, PEOPLE), RNG.uniform(0.4, 1.8, PEOPLE)


def rate(true, who, rng):
    return np.clip(np.round(true + BIAS[who] + SPREAD[who] * rng.normal(size=len(who))), 0, K - 1).astype(int)


@pytest.fixture(scope="module")
def simulated():
    """Return votes with known bias and spread, and predictions of a poor model."""
    rng = np.random.default_rng(1)
    example = np.repeat(np.arange(COUNT), EACH)
    who = np.concatenate([rng.choice(PEOPLE, EACH, replace=False) for _ in range(COUNT)])
    votes = Votes(
        example=example,
        annotator=who,
        label=rate(TRUE[example], who, rng),
        examples=COUNT,
        annotators=PEOPLE,
        classes=K,
    )
    p = norm.pdf(np.arange(K), (TRUE + rng.normal(0, 1.5, COUNT))[:, None], 1.5)
    return votes, p / p.sum(1, keepdims=True)


def test_bias_and_spread_are_recovered(simulated):
    found = infer_grades(*simulated)
    assert spearmanr(found.bias, BIAS)[0] > 0.8
    assert spearmanr(found.spread, SPREAD)[0] > 0.6
    assert np.abs(found.bias - BIAS).mean() < 0.35


def test_grades_are_nearer_the_truth_than_those_of_unordered_classes(simulated):
    ordered, classes = infer_grades(*simulated).truth, infer_votes(*simulated).truth
    for score in (absolute_error, ranked_probability_score):
        assert score(TRUE, ordered).mean() < 0.9 * score(TRUE, classes).mean()


def test_messages_are_exact_where_there_are_no_loops(monkeypatch):
    """Two examples with one label each by one annotator, after the first round, before π changes."""
    monkeypatch.setattr(grades, "ROUNDS", 2)
    both = np.array([0, 1])
    votes = Votes(example=both, annotator=0 * both, label=np.array([2, 0]), examples=2, annotators=1, classes=3)
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    characters = make_characters(votes)
    habit = estimate_habits(votes, np.ones(2))[0]
    likelihood = characters.table + characters.habit[:, None] * habit[:, None, None]  # [given, character, true]
    joint = np.zeros((3, 3))
    for first, second in product(range(3), repeat=2):
        joint[first, second] = p[0, first] * p[1, second] * (likelihood[2, :, first] @ likelihood[0, :, second])
    expected = np.stack([joint.sum(1), joint.sum(0)]) / joint.sum()
    np.testing.assert_allclose(infer_grades(votes, p, exponent=1.0).truth, expected, rtol=1e-4)


def test_a_grade_has_a_distribution_for_every_truth_and_character(simulated):
    characters = make_characters(simulated[0])
    np.testing.assert_allclose(characters.table.sum(0) + characters.habit[:, None], 1)


def test_known_grades_are_kept_and_help(simulated):
    votes, p = simulated
    gold = np.where(np.arange(COUNT) < 200, TRUE, -1)
    found = infer_grades(replace(votes, gold=gold), p).truth
    np.testing.assert_array_equal(found[:200].argmax(1), TRUE[:200])
    np.testing.assert_allclose(found[:200].max(1), 1)
    rest = slice(200, None)
    blind = infer_grades(votes, p).truth
    assert absolute_error(TRUE[rest], found[rest]).mean() <= absolute_error(TRUE[rest], blind[rest]).mean() + 0.01


def test_trust_narrows_the_spread(simulated):
    votes, p = simulated
    trust = np.full(PEOPLE, np.nan)
    noisy = int(SPREAD.argmax())
    trust[noisy] = 0.99
    assert infer_grades(replace(votes, trust=trust), p).spread[noisy] < infer_grades(votes, p).spread[noisy]
