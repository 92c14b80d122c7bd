from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

from lupi.crowd import Votes, infer, infer_votes
from lupi.crowd import votes as votes_module
from lupi.crowd.population import HABITS, KNOWLEDGE
from lupi.crowd.votes import softmax


def nll(truth, z):
    return -np.log(np.maximum(truth[np.arange(len(z)), z], 1e-12)).mean()


def draw_truth(rng, examples, classes, sharp=2.0):
    p = softmax(sharp * rng.normal(size=(examples, classes)))
    return p, (p.cumsum(1) > rng.random((examples, 1))).argmax(1)


def draw_labels(rng, z, accuracy, classes):
    return np.where(rng.random(len(z)) < accuracy, z, (z + rng.integers(1, classes, len(z))) % classes)


def know_accuracy(p, votes, accuracy):
    """The exact posterior for known accuracies and uniform errors."""
    log = np.log(p)
    for i, j, y in zip(votes.example, votes.annotator, votes.label, strict=True):
        log[i] += np.log(np.where(np.arange(votes.classes) == y, accuracy[j], (1 - accuracy[j]) / (votes.classes - 1)))
    return softmax(log)


def enumerate_all(found):
    """P(z | all labels), and the log-probability of the labels, by enumerating all truths, types and habits."""
    v, prior = found.votes, np.exp(found.log_prior)
    errors, frequency = found.channel.errors, found.population.frequency
    kinds = [(r, 0.0, None, f) for r, f in zip(KNOWLEDGE, frequency, strict=False)]
    for (r, s), f in zip(HABITS, frequency[len(KNOWLEDGE) :], strict=True):
        kinds += [(r, s, k, f / v.classes) for k in range(v.classes)]
    marginal = np.zeros_like(prior)
    for z in product(range(v.classes), repeat=v.examples):
        joint = prior[range(v.examples), z].prod()
        for j in range(v.annotators):
            labels = [(z[v.example[n]], v.label[n]) for n in np.flatnonzero(v.annotator == j)]
            of_annotator = 0.0
            for r, s, habit, weight in kinds:
                for true, y in labels:
                    own = r if y == true else (1 - r) * errors[true, y]
                    weight *= (1 - s) * own + s * (y == habit)
                of_annotator += weight
            joint *= of_annotator
        marginal[range(v.examples), z] += joint
    return marginal / marginal.sum(1, keepdims=True), np.log(marginal[0].sum())


@pytest.mark.parametrize(
    ("example", "annotator"),
    [([0, 1, 2, 3, 4], [0, 0, 1, 1, 1]), ([0, 0, 0, 1, 1], [0, 1, 2, 3, 4]), ([0, 0, 1, 2, 3], [0, 1, 0, 0, 1])],
)
@pytest.mark.parametrize("seed", range(3))
def test_posterior_is_that_of_enumerating_truths_types_and_habits(example, annotator, seed, monkeypatch):
    monkeypatch.setattr("lupi.crowd.inference.TOLERANCE", 1e-6)
    monkeypatch.setattr("lupi.crowd.inference.PASSES", 1000)
    monkeypatch.setattr("lupi.crowd.inference.choose_exponent", lambda *_: 1.0)
    rng, example, annotator = np.random.default_rng(seed), np.array(example), np.array(annotator)
    votes = Votes(
        example=example,
        annotator=annotator,
        label=rng.integers(3, size=5),
        examples=example.max() + 1,
        annotators=annotator.max() + 1,
        classes=3,
    )
    found = infer_votes(votes, rng.dirichlet(np.ones(3), votes.examples))
    truth, log_likelihood = enumerate_all(found)
    np.testing.assert_allclose(found.truth, truth, atol=1e-3)
    # The likelihood also sums out the errors, which count as known here.
    assert found.log_likelihood == pytest.approx(log_likelihood, abs=0.5)


def integrate_accuracy(p, votes, a, b):
    """The exact posterior for one label per example, uniform errors and accuracies from Beta(a, b)."""
    theta, row = (np.arange(1000) + 0.5) / 1000, np.arange(len(p))
    true = p[row, votes.label]
    given = np.outer(true, theta) + np.outer((1 - true) / (votes.classes - 1), 1 - theta)
    log = np.tile((a - 1) * np.log(theta) + (b - 1) * np.log(1 - theta), (votes.annotators, 1))
    np.add.at(log, votes.annotator, np.log(given))
    right = softmax(log[votes.annotator] - np.log(given)) @ theta
    q = p * ((1 - right) / (votes.classes - 1))[:, None]
    q[row, votes.label] = true * right
    return q / q.sum(1, keepdims=True)


@pytest.mark.parametrize("classes", [3, 10, 300])
@pytest.mark.parametrize("people", [1, 20, 1000])
@pytest.mark.parametrize("a", [3, 3000])  # accuracies that differ, and uniform noise
def test_one_label_each_beats_the_prior_and_comes_close_to_the_exact_posterior(classes, people, a):
    rng = np.random.default_rng(classes + people)
    p, z = draw_truth(rng, 1000, classes, 3.0 if classes > 10 else 2.0)
    annotator, accuracy = rng.permutation(1000) % people, rng.beta(a, 2 / 3 * a, people)
    votes = Votes(
        example=np.arange(1000),
        annotator=annotator,
        label=draw_labels(rng, z, accuracy[annotator], classes),
        examples=1000,
        annotators=people,
        classes=classes,
    )
    score = nll(infer_votes(votes, p).truth, z)
    assert score < nll(p, z)
    assert score < nll(integrate_accuracy(p, votes, a, 2 / 3 * a), z) + 0.02


@pytest.mark.parametrize("classes", [2, 5])
def test_several_labels_come_close_to_known_accuracies(classes):
    rng = np.random.default_rng(classes)
    p, z = draw_truth(rng, 1000, classes)
    accuracy, example, annotator = rng.beta(6, 3, 20), np.arange(1000).repeat(3), rng.integers(20, size=3000)
    label = draw_labels(rng, z[example], accuracy[annotator], classes)
    votes = Votes(example=example, annotator=annotator, label=label, examples=1000, annotators=20, classes=classes)
    found = infer_votes(votes, p)
    assert nll(found.truth, z) < nll(know_accuracy(p, votes, accuracy), z) + 0.02
    assert np.corrcoef(votes.mean_by_annotator(found.right), accuracy)[0, 1] > 0.9


@pytest.mark.parametrize("rate", [0, 0.25, 0.5, 0.75, 1])
@pytest.mark.parametrize(("classes", "people"), [(2, 10), (5, 5), (3, 20)])
def test_copied_labels_are_discounted(classes, people, rate):
    rng = np.random.default_rng(people)
    p, z = draw_truth(rng, 400, classes, 1.0)
    accuracy = rng.beta(6, 4, people)
    own = np.stack([draw_labels(rng, z, accuracy[j], classes) for j in range(people)], 1)
    label = np.where(rng.random(own.shape) < rate, draw_labels(rng, z, 0.65, classes)[:, None], own).ravel()
    example, annotator = np.indices(own.shape).reshape(2, -1)
    votes = Votes(example=example, annotator=annotator, label=label, examples=400, annotators=people, classes=classes)
    found = infer_votes(votes, p)
    exponents = np.append(np.geomspace(1e-3, 1, 60), 0)
    best = min(nll(softmax(found.log_prior + e * found.evidence), z) for e in exponents)
    assert nll(found.truth, z) < best + 0.05


@pytest.mark.parametrize("per_example", [1, 3])
def test_spammers_whose_answer_the_model_has_learnt_are_found_out(per_example):
    rng = np.random.default_rng(4)
    p, z = draw_truth(rng, 600, 3)
    example, annotator = np.arange(600).repeat(per_example), rng.integers(10, size=600 * per_example)
    label = np.where(annotator < 5, 0, draw_labels(rng, z[example], 0.88, 3))
    votes = Votes(example=example, annotator=annotator, label=label, examples=600, annotators=10, classes=3)
    learnt = (p + 1.2 * np.eye(3)[0]) / 2.2
    found = infer_votes(votes, learnt)
    knows = votes.mean_by_annotator(found.shares.right)
    assert knows[:5].max() < knows[5:].min()
    if per_example > 1:
        assert (found.truth.argmax(1) == z).mean() > (learnt.argmax(1) == z).mean() + 0.1


def test_features_tell_right_from_wrong_labels():
    rng = np.random.default_rng(0)
    p, z = draw_truth(rng, 1000, 3)
    example, annotator = np.arange(1000).repeat(2), rng.integers(10, size=2000)
    feature = rng.normal(size=(2000, 1))
    label = draw_labels(rng, z[example], 1 / (1 + np.exp(-1 - 1.5 * feature[:, 0])), 3)
    votes = Votes(example=example, annotator=annotator, label=label, examples=1000, annotators=10, classes=3)
    dense, sparse = infer_votes(votes, p, features=feature), infer_votes(votes, p, features=csr_array(feature))
    np.testing.assert_array_equal(dense.truth, sparse.truth)
    assert dense.weights == pytest.approx([1.5], abs=0.3)
    assert nll(dense.truth, z) < nll(infer_votes(votes, p).truth, z) - 0.05


def test_a_start_saves_time_and_changes_little(simulate):
    p, label, example, annotator, *_ = simulate(2)
    votes = Votes(example=example, annotator=annotator, label=label, examples=200, annotators=12, classes=3)
    first = infer_votes(votes, p[::4])
    np.testing.assert_allclose(infer_votes(votes, p[::4], start=first).truth, first.truth, atol=0.01)


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
    np.testing.assert_allclose(other.channel.errors[np.ix_(classes, classes)], one.channel.errors, atol=1e-3)


def test_examples_without_labels_keep_their_prior_and_change_nothing(simulate):
    p, label, example, annotator, *_ = simulate(9, examples=50)
    votes = Votes(example=example + 3, annotator=annotator, label=label, examples=60, annotators=12, classes=3)
    few = np.random.default_rng(0).dirichlet([1, 1, 1], 10)
    found = infer_votes(votes, np.vstack([few[:3], p[::4], few[3:]]))
    alone = infer_votes(replace(votes, example=example, examples=50), p[::4])
    np.testing.assert_allclose(found.truth[3:53], alone.truth, atol=1e-4)
    empty = [0, 1, 2, *range(53, 60)]
    np.testing.assert_allclose(found.truth[empty], np.exp(found.log_prior[empty]))
    np.testing.assert_array_equal(found.evidence[empty], 0)


def test_chunks_do_not_change_the_answer(simulate, monkeypatch):
    p, label, example, annotator, *_ = simulate(5)
    expected = infer(p, label, example=example, annotator=annotator)
    monkeypatch.setattr(votes_module, "CHUNK", 2000)
    found = infer(p, label, example=example, annotator=annotator)
    np.testing.assert_allclose(found.truth, expected.truth, atol=1e-6)


def test_a_single_annotator_is_no_evidence_for_themselves_unless_features_tell():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1], 200)
    label = (rng.random(200) < p[:, 1]).astype(int)
    np.testing.assert_allclose(infer(p, label).wrong, 1 - p[range(200), label], atol=1e-5)
    with_features = infer(p, label, features=rng.normal(size=(200, 1)))
    np.testing.assert_allclose(with_features.wrong, 1 - with_features.truth[range(200), label])


def test_frequencies_of_the_classes_are_estimated_without_predictions():
    rng = np.random.default_rng(0)
    truth, example = (rng.random(400) < 0.1).astype(int), np.arange(400).repeat(4)
    label = draw_labels(rng, truth[example], 0.75, 2)
    votes = Votes(
        example=example, annotator=np.tile(np.arange(20), 80), label=label, examples=400, annotators=20, classes=2
    )
    assert np.mean(label == 1) > 0.25
    assert np.exp(infer_votes(votes).log_prior[0, 1]) == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.5, 0.5]}, r"`p`.*\[2\]"),
        ({"p": [[np.nan, 0.5]] * 2}, "`p`"),
        ({"label": [0, 2]}, r"`label`.*0 to 1.*0 to 2"),
        ({"label": [0.0, 1.0]}, "`label`.*float64"),
        ({"example": [1]}, r"`example`.*2.*\[1\]"),
        ({"annotator": [[1, 2], [3, 4]]}, r"`annotator`.*\[2, 2\]"),
        ({"features": [[1.0]]}, r"`features`.*2 rows.*\[1, 1\]"),
        ({"features": [[1.0], [np.nan]]}, "`features`"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    inputs = {"p": [[0.5, 0.5]] * 2, "label": [0, 1], "example": [0, 1], "annotator": [0, 0]} | change
    with pytest.raises(ValueError, match=message):
        infer(inputs.pop("p"), inputs.pop("label"), **inputs)


def test_predictions_of_other_examples_are_refused(draw_votes):
    with pytest.raises(ValueError, match=r"`p`.*\[3, 3\].*\[2, 3\]"):
        infer_votes(draw_votes(0)[0], np.full((2, 3), 1 / 3))
