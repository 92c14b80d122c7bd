from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from lupi.crowd import Votes, infer, likelihood
from lupi.crowd.annotators import approximate_reliability
from lupi.crowd.inference import infer_votes
from lupi.crowd.likelihood import example_evidence, softmax


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
    np.testing.assert_allclose(other.model.log_odds, one.model.log_odds[rows], atol=1e-2)
    np.testing.assert_allclose(other.model.errors[np.ix_(classes, classes)], one.model.errors, atol=1e-3)
    np.testing.assert_allclose(other.model.ease[classes], one.model.ease, atol=1e-2)
    share = dict(zip(people[one.names], one.model.share, strict=True))
    assert share == pytest.approx(dict(zip(other.names, other.model.share, strict=True)), abs=1e-3)
    of_one = dict(zip(people[one.names], approximate_reliability(one)[0], strict=True))
    of_other = dict(zip(other.names, approximate_reliability(other)[0], strict=True))
    assert of_one == pytest.approx(of_other, abs=1e-3)


def draw_from_model(seed, *, examples, people, per_example, classes, mean, effects, errors, slope=0.0):
    rng = np.random.default_rng(seed)
    log_p = np.log(rng.dirichlet(np.ones(classes), examples))
    z = (np.exp(log_p).cumsum(1) > rng.random((examples, 1))).argmax(1)
    example = np.arange(examples).repeat(per_example)
    annotator = rng.integers(people, size=len(example))
    b, feature = effects * rng.normal(size=people), rng.normal(size=(len(example), 1))
    eta = mean + b[annotator] + slope * feature[:, 0]
    wrong = (errors[z[example]].cumsum(1) > rng.random((len(example), 1))).argmax(1)
    label = np.where(rng.random(len(example)) < 1 / (1 + np.exp(-eta)), z[example], wrong)
    votes = Votes(
        example=example, annotator=annotator, label=label, examples=examples, annotators=people, classes=classes
    )
    return votes, np.exp(log_p), z, b, feature


ERRORS = np.array([[0, 0.9, 0.1], [0.5, 0, 0.5], [0.2, 0.8, 0]])


@pytest.mark.parametrize("slope", [0.0, 1.5])
def test_parameters_are_recovered_from_data_of_the_model(slope):
    votes, p, z, b, feature = draw_from_model(
        0,
        examples=3000,
        people=40,
        per_example=3,
        classes=3,
        mean=1.2,
        effects=0.8,
        errors=ERRORS,
        slope=slope,
    )
    found = infer_votes(votes, p, features=feature, exponent=1)
    assert found.weights == pytest.approx([slope], abs=0.25)  # a few labels pass for habits
    np.testing.assert_allclose(found.model.errors, ERRORS, atol=0.1)
    expected = votes.mean_by_annotator(expit(1.2 + b[votes.annotator] + slope * feature[:, 0]))
    np.testing.assert_allclose(votes.mean_by_annotator(found.right), expected, atol=0.1)
    assert np.corrcoef(found.effects, b)[0, 1] > 0.9
    assert found.model.share.mean() < 0.1
    np.testing.assert_allclose(found.model.ease, 0, atol=0.25)
    # At exponent 1 the posterior is calibrated: it is right as often as it says.
    assert found.truth.max(1).mean() == pytest.approx((found.truth.argmax(1) == z).mean(), abs=0.02)


@pytest.mark.parametrize("per_example", [1, 3])
def test_spammers_whose_answer_the_model_has_learnt_are_found_out(per_example):
    votes, p, z, *_ = draw_from_model(
        4, examples=600, people=10, per_example=per_example, classes=3, mean=2, effects=0.3, errors=ERRORS
    )
    votes = replace(votes, label=np.where(votes.annotator < 5, 0, votes.label))
    learnt = (p + 1.2 * np.eye(3)[0]) / 2.2
    found = infer_votes(votes, learnt)
    assert found.model.share[:5].min() > found.model.share[5:].max()
    np.testing.assert_allclose(found.model.habits[:5, 0], 1, atol=0.05)
    if per_example > 1:
        assert (found.truth.argmax(1) == z).mean() > (learnt.argmax(1) == z).mean() + 0.1


def test_classes_that_everybody_misses_are_found(simulate):
    """Three in four of class 2 are called class 0: a majority of annotators is wrong about most of them."""
    p, label, example, annotator, truth, _ = simulate(7, examples=600, a=18)
    label = np.where((truth[example] == 2) & (np.random.default_rng(0).random(len(label)) < 0.75), 0, label)
    found = infer(p, label, example=example, annotator=annotator)
    right = [(label == z)[truth[example] == z].mean() for z in range(3)]
    of_class = [expit(found.model.log_odds + found.model.ease[z]).mean() for z in range(3)]
    np.testing.assert_allclose(of_class, right, atol=0.1)
    assert abs(np.exp(found.log_prior)[found.votes.example].mean(0) @ found.model.ease) < 1e-9
    majority = np.array([np.bincount(label[example == i], minlength=3).argmax() for i in range(600)])
    assert (found.truth.argmax(1) == truth).mean() > (majority == truth).mean() + 0.15


def test_one_label_per_example_does_not_tell_the_ease_of_classes(simulate):
    p, label, example, annotator, *_ = simulate(7, per_example=1)
    assert infer(p, label, example=example, annotator=annotator).model.ease.tolist() == [0, 0, 0]


def test_a_single_annotator_has_no_habits(simulate):
    p, label, example, *_ = simulate(1)
    assert infer(p, label, example=example).model.share.tolist() == [0]


def test_sparse_features_are_features():
    votes, p, _, _, feature = draw_from_model(
        1, examples=200, people=5, per_example=2, classes=3, mean=1, effects=0.5, errors=ERRORS, slope=1
    )
    dense, sparse = infer_votes(votes, p, features=feature), infer_votes(votes, p, features=csr_array(feature))
    np.testing.assert_array_equal(dense.truth, sparse.truth)
    assert dense.weights[0] > 0.3


def test_evidence_truth_and_others_fit_together(simulate):
    p, label, example, annotator, *_ = simulate(9, examples=30)
    found = infer(p, label, example=example, annotator=annotator, exponent=0.3)
    v = found.votes
    np.testing.assert_allclose(np.exp(found.log_prior), found.p, atol=1e-5)
    np.testing.assert_allclose(found.evidence, example_evidence(v, found.model), atol=1e-9)
    np.testing.assert_allclose(found.truth, softmax(found.log_prior + 0.3 * found.evidence))
    for i in (0, 17, 63):
        rest = np.arange(len(label)) != i
        less = replace(v, example=v.example[rest], annotator=v.annotator[rest], label=v.label[rest])
        evidence = example_evidence(less, replace(found.model, log_odds=found.model.log_odds[rest]))
        np.testing.assert_allclose(found.others[i], softmax(found.log_prior + 0.3 * evidence)[v.example[i]], atol=1e-9)


def test_log_likelihood_is_that_of_all_labels_with_the_truth_summed_out(simulate):
    p, label, example, annotator, *_ = simulate(9, examples=30)
    found = infer(p, label, example=example, annotator=annotator, exponent=0.3)
    v, model, prior = found.votes, found.model, np.exp(found.log_prior)
    total = 0.0
    for i in range(v.examples):
        joint = prior[i].copy()
        for n in np.flatnonzero(v.example == i):
            who, y = v.annotator[n], v.label[n]
            for z in range(v.classes):
                right = expit(model.log_odds[n] + model.ease[z])
                informed = right if y == z else (1 - right) * model.errors[z, y]
                joint[z] *= (1 - model.share[who]) * informed + model.share[who] * model.habits[who, y]
        total += np.log(joint.sum())
    assert found.log_likelihood == pytest.approx(total)


def test_log_likelihood_takes_true_labels_as_certain(simulate):
    p, label, example, annotator, *_ = simulate(9, examples=30)
    gold = np.where(example == 0, 1, -1)
    found = infer(p, label, example=example, annotator=annotator, gold=gold)
    joint = found.log_prior + found.evidence
    each = np.where(np.arange(len(joint)) == 0, joint[:, 1], np.log(np.exp(joint).sum(1)))
    assert found.log_likelihood == pytest.approx(each.sum())


def test_the_exponent_leaves_the_fit_alone(simulate):
    p, label, example, annotator, *_ = simulate(9, examples=30)
    one, other = (infer(p, label, example=example, annotator=annotator, exponent=e) for e in (0.0, 1.0))
    np.testing.assert_array_equal(one.evidence, other.evidence)
    np.testing.assert_allclose(one.truth, np.exp(one.log_prior))
    np.testing.assert_array_equal(one.log_prior, other.log_prior)


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
    monkeypatch.setattr(likelihood, "CHUNK", 50)
    found = infer(p, label, example=example, annotator=annotator)
    np.testing.assert_allclose(found.truth, expected.truth, atol=1e-4)
    np.testing.assert_allclose(found.model.log_odds, expected.model.log_odds, atol=1e-3)


def test_a_single_annotator_is_no_evidence_for_themselves_unless_features_tell():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1], 200)
    label = (rng.random(200) < p[:, 1]).astype(int)
    alone = infer(p, label)
    np.testing.assert_allclose(alone.wrong, 1 - np.exp(alone.log_prior)[range(200), label])
    with_features = infer(p, label, features=rng.normal(size=(200, 1)))
    np.testing.assert_allclose(with_features.wrong, 1 - with_features.truth[range(200), label])


def test_binary_errors_go_to_the_other_class(simulate):
    p, label, example, annotator, truth, _ = simulate(3, classes=2)
    found = infer(p, label, example=example, annotator=annotator)
    np.testing.assert_array_equal(found.model.errors, [[0, 1], [1, 0]])
    assert (found.truth.argmax(1) == truth).mean() > 0.9


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
        ({"exponent": 1.5}, r"`exponent`.*0 to 1.*1\.5"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    inputs = {"p": [[0.5, 0.5]] * 2, "label": [0, 1], "example": [0, 1], "annotator": [0, 0]} | change
    with pytest.raises(ValueError, match=message):
        infer(inputs.pop("p"), inputs.pop("label"), **inputs)


def test_predictions_of_other_examples_are_refused(draw_votes):
    with pytest.raises(ValueError, match=r"`p`.*\[3, 3\].*\[2, 3\]"):
        infer_votes(draw_votes(0)[0], np.full((2, 3), 1 / 3))


def draw_crowd(seed, *, examples=1000, classes=5, people=20, each=1, wrong=0.4, vary=False):
    """Draw labels of annotators who err uniformly: all equally often, or each at a rate of their own."""
    rng = np.random.default_rng(seed)
    p = softmax(1.5 * rng.normal(size=(examples, classes)))
    z = (p.cumsum(1) > rng.random((examples, 1))).argmax(1)
    example = np.arange(examples).repeat(each)
    people = people or len(example)
    annotator = np.arange(len(example)) if people == len(example) else rng.integers(people, size=len(example))
    rate = rng.beta(1.5 * wrong, 1.5 * (1 - wrong), people) if vary else np.full(people, wrong)
    other = (z[example] + rng.integers(1, classes, len(example))) % classes
    label = np.where(rng.random(len(example)) < rate[annotator], other, z[example])
    votes = Votes(
        example=example, annotator=annotator, label=label, examples=examples, annotators=people, classes=classes
    )
    return votes, p, z


def nll(q, z):
    return -np.log(q[np.arange(len(z)), z]).mean()


def posterior_of_uniform_noise(votes, p):
    """The posterior of the truth if all annotators err at one unknown rate, which is summed out on a grid."""
    K, total, weight = votes.classes, np.zeros_like(p), []
    rates = np.linspace(0.005, 0.995, 199)
    every = []
    for rate in rates:
        logits = np.log(p)
        for n, i in enumerate(votes.example):
            own = np.full(K, np.log(rate / (K - 1)))
            own[votes.label[n]] = np.log(1 - rate)
            logits[i] += own
        weight.append(np.logaddexp.reduce(logits, 1).sum())
        every.append(softmax(logits))
    weight = softmax(np.array(weight)[None])[0]
    for q, share in zip(every, weight, strict=True):
        total += share * q
    return total


@pytest.mark.parametrize("people", [1, 20, None])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_posterior_of_a_whole_fit_is_within_two_hundredths_of_the_exact_one(seed, people):
    """One label per example, of one annotator, of 20, and each of another: a label must not vouch for its author."""
    votes, p, z = draw_crowd(seed, examples=600, people=people)
    exact = nll(posterior_of_uniform_noise(votes, p), z)
    assert nll(infer_votes(votes, p).truth, z) < exact + 0.02
    assert exact < nll(p, z) - 0.1


@pytest.mark.parametrize(
    "crowd",
    [
        {"wrong": 0.4},
        {"wrong": 0.4, "people": None},
        {"wrong": 0.4, "vary": True},
        {"wrong": 0.4, "vary": True, "people": 200},
        {"wrong": 0.8, "vary": True, "each": 3},
        {"wrong": 0.4, "vary": True, "classes": 50},
        {"wrong": 0.4, "vary": True, "classes": 300},
        {"wrong": 0.25, "classes": 2},
    ],
    ids=str,
)
def test_labels_never_make_the_posterior_worse_than_the_prior(crowd):
    votes, p, z = draw_crowd(3, **crowd)
    assert nll(infer_votes(votes, p).truth, z) < nll(p, z)


def test_a_fit_that_starts_from_another_one_is_as_good():
    votes, p, _ = draw_crowd(2, examples=600, people=12, each=3, vary=True)
    blurred = (p + 0.3) / (p + 0.3).sum(1, keepdims=True)
    scratch, again = infer_votes(votes, p), infer_votes(votes, p, start=infer_votes(votes, blurred))
    assert again.log_likelihood > scratch.log_likelihood - 0.5
    assert np.abs(again.truth - scratch.truth).mean() < 0.02
    assert np.abs(again.right - scratch.right).mean() < 0.03


def test_the_fit_maximizes_the_likelihood_with_habits_summed_out():
    """EM and L-BFGS climb one and the same function: no step of either lowers it."""
    votes, p, _ = draw_crowd(1, examples=300, people=6, each=2, vary=True)
    found = infer_votes(votes, p, exponent=1)
    for step in (0.3, -0.3):
        moved = found.model.log_odds + step
        shifted, *_ = likelihood.marginal_log_likelihood(votes, found.log_prior, replace(found.model, log_odds=moved))
        assert shifted < found.log_likelihood
