"""What to label next, and what more labels buy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from lupi.crowd import Votes
from lupi.crowd.inference import infer_votes
from lupi.crowd.next_labels import expected_accuracy, expected_gains, typical_annotator, typical_grader
from lupi.crowd.tables import infer_alone

PEOPLE = 15


def simulate(seed, examples=120, each=3, classes=3):
    """Annotators who are right with probabilities from Beta(6, 2); the last label of each example is kept back."""
    rng = np.random.default_rng(seed)
    truth, right = rng.integers(classes, size=examples), rng.beta(6, 2, PEOPLE)
    who = np.argsort(rng.random((examples, PEOPLE)))[:, : each + 1]
    wrong = (truth[:, None] + rng.integers(1, classes, who.shape)) % classes
    return truth, who, np.where(rng.random(who.shape) < right[who], truth[:, None], wrong)


def make_votes(who, label, use):
    example, place = np.nonzero(use)
    return Votes(
        example=example,
        annotator=who[example, place],
        label=label[example, place],
        examples=len(who),
        annotators=PEOPLE,
        classes=3,
    )


def first_labels(shape):
    use = np.ones(shape, bool)
    use[:, -1] = False
    return use


def test_gains_are_expected_reductions_of_entropy():
    _, who, label = simulate(0, examples=40)
    found = infer_votes(make_votes(who, label, first_labels(who.shape)), np.full((40, 3), 1 / 3), exponent=0.6)
    p = typical_annotator(found)
    np.testing.assert_allclose(p.sum(1), 1)
    expected = []
    for q in found.truth:
        after = q[:, None] * p**0.6
        expected.append(entropy(q) - sum((q @ p)[y] * entropy(after[:, y]) for y in range(3)))
    np.testing.assert_allclose(expected_gains(found, p), np.maximum(expected, 0), atol=1e-9)


def test_known_examples_need_no_label():
    _, who, label = simulate(0, examples=40)
    gold = np.full(40, -1)
    gold[:10] = 1
    votes = make_votes(who, label, first_labels(who.shape))
    found = infer_votes(Votes(**{**vars(votes), "gold": gold}), np.full((40, 3), 1 / 3))
    gains = expected_gains(found, typical_annotator(found))
    np.testing.assert_allclose(gains[:10], 0, atol=1e-9)
    assert gains[10:].min() > 0.01


def predict_and_buy(seed):
    """Return whether the intervals cover the accuracy now, and after a label for half of the examples."""
    truth, who, label = simulate(seed)
    use = first_labels(who.shape)
    found = infer_alone(make_votes(who, label, use))
    order = np.argsort(-expected_gains(found, typical_annotator(found)), kind="stable")
    now, later = expected_accuracy(found, typical_annotator(found), order, [0, 60])
    use[order[:60], -1] = True
    bought = infer_alone(make_votes(who, label, use))
    scores = [np.mean(each.truth.argmax(1) == truth) for each in (found, bought)]
    assert now.accuracy < later.accuracy
    return [each.low <= score <= each.high for each, score in zip((now, later), scores, strict=True)]


def test_accuracies_are_predicted():
    assert np.mean([predict_and_buy(seed) for seed in range(4)]) >= 0.75


@pytest.mark.nightly
def test_intervals_of_accuracies_cover():
    covered = np.mean([predict_and_buy(seed) for seed in range(200)], 0)
    assert (covered >= 0.9).all(), covered


def test_a_typical_grader_is_that_of_the_labels():
    rng = np.random.default_rng(0)
    truth, example = rng.integers(3, size=2000), np.arange(2000).repeat(3)
    p = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.0, 0.3, 0.7]])
    label = (p[truth[example]].cumsum(1) > rng.random((6000, 1))).argmax(1)
    votes = Votes(example=example, annotator=example % 5, label=label, examples=2000, annotators=5, classes=3)
    found = replace(infer_alone(votes), truth=np.eye(3)[truth])
    np.testing.assert_allclose(typical_grader(found), p, atol=0.03)
