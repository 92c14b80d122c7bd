from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.crowd.reliability import (
    Votes,
    annotators,
    counts,
    em,
    infer,
    pooled,
    posterior,
    recalibrated,
    reliability,
    said,
)


def simulate(seed, *, examples=200, people=12, classes=3, per_example=4, a=6.0, b=2.0, sharp=1.5):
    """Draw data from the model itself: true labels from p, accuracies from Beta(a, b), errors uniform."""
    rng = np.random.default_rng(seed)
    logits = sharp * rng.normal(size=(examples, classes))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    truth = (p.cumsum(1) > rng.random((examples, 1))).argmax(1)
    theta = rng.beta(a, b, people)
    example = np.arange(examples).repeat(per_example)
    annotator = np.concatenate([rng.choice(people, per_example, replace=False) for _ in range(examples)])
    right = rng.random(len(example)) < theta[annotator]
    other = (truth[example] + rng.integers(1, classes, len(example))) % classes
    label = np.where(right, truth[example], other)
    return p[example], label, example, annotator, truth, theta


def tiny(seed, examples=3, people=2, classes=3, labels=5):
    rng = np.random.default_rng(seed)
    votes = Votes(
        rng.integers(0, examples, labels),
        rng.integers(0, people, labels),
        rng.integers(0, classes, labels),
        examples,
        people,
        classes,
    )
    confusion = rng.dirichlet(np.ones(classes), (people, classes))
    return votes, np.log(rng.dirichlet(np.ones(classes), examples)), confusion


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_posterior_is_that_of_enumerating_all_truths(seed):
    votes, log_prior, confusion = tiny(seed)
    marginal, total = np.zeros((3, 3)), 0.0
    for z in product(range(3), repeat=3):
        z = np.array(z)
        probability = np.exp(log_prior[range(3), z].sum())
        probability *= confusion[votes.annotator, z[votes.example], votes.label].prod()
        marginal[range(3), z] += probability
        total += probability
    truth, evidence = posterior(log_prior, confusion, votes)
    np.testing.assert_allclose(truth, marginal / total)
    assert evidence == pytest.approx(np.log(total))


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_counts_are_sums_over_labels(seed):
    votes, log_prior, _ = tiny(seed, labels=7)
    expected = np.zeros((2, 3, 3))
    for i, j, y in zip(*votes[:3], strict=True):
        expected[j, :, y] += np.exp(log_prior)[i]
    np.testing.assert_allclose(counts(np.exp(log_prior), votes), expected)


@given(st.integers(0, 10**6), st.floats(0.01, 5))
@settings(max_examples=20)
def test_em_never_lowers_the_log_posterior(seed, pseudo):
    votes, log_prior, _ = tiny(seed, examples=8, people=3, labels=30)
    start = np.random.default_rng(seed).dirichlet(np.ones(3), 8)
    _, _, trace = em(log_prior, np.full((3, 3, 3), pseudo), votes, start, tolerance=0)
    assert len(trace) > 1
    assert np.diff(trace).min() > -1e-9
    assert trace[-1] > trace[0]


def test_em_ends_where_both_steps_agree():
    p, label, example, annotator, *_ = simulate(0)
    votes = Votes(example, annotator, label, 200, 12, 3)
    pseudo = np.full((12, 3, 3), 0.5)
    confusion, truth, trace = em(np.log(p[::4]), pseudo, votes, p[::4], tolerance=1e-13)
    again = counts(truth, votes) + pseudo
    np.testing.assert_allclose(again / again.sum(2, keepdims=True), confusion, atol=1e-4)
    np.testing.assert_allclose(posterior(np.log(p[::4]), confusion, votes)[0], truth)
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


def test_uniform_prior_is_ordinary_dawid_skene():
    _, label, example, annotator, *_ = simulate(1, examples=60, people=5)
    votes = Votes(example, annotator, label, 60, 5, 3)
    shares = np.zeros((60, 3))
    np.add.at(shares, (example, label), 0.25)
    confusion, truth, trace = em(np.log(np.full((60, 3), 1 / 3)), np.full((5, 3, 3), 0.01), votes, shares)
    expected_truth, expected_confusion = dawid_skene(label, example, annotator, 3, len(trace))
    np.testing.assert_allclose(confusion, expected_confusion, atol=1e-8)
    np.testing.assert_allclose(truth, expected_truth, atol=1e-8)


def test_permuting_classes_annotators_and_examples_permutes_the_answer():
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
    np.testing.assert_allclose(other.right, one.right[rows], atol=1e-3)
    of_one = dict(zip(people[one.names], reliability(one)[0], strict=True))
    of_other = dict(zip(other.names, reliability(other)[0], strict=True))
    assert of_one == pytest.approx(of_other, abs=0.02)  # sampling


def test_perfect_annotators_are_found_to_be_perfect():
    p, _, example, annotator, truth, _ = simulate(3)
    found = infer(p, truth[example], example=example, annotator=annotator)
    assert found.right.min() > 0.99
    table = annotators(found)
    assert table["reliability"].min() > 0.97
    assert not table["flagged"].any()


def test_liars_are_flagged_and_the_truth_is_found_in_spite_of_them():
    p, label, example, annotator, truth, _ = simulate(4, classes=4, a=20, b=3)
    liar = annotator < 3
    label = np.where(liar, (truth[example] + 1) % 4, label)
    found = infer(p, label, example=example, annotator=annotator)
    table = annotators(found).set_index("annotator")
    assert table["reliability"].iloc[:3].index.isin([0, 1, 2]).all()
    assert table.loc[[0, 1, 2], "flagged"].all()
    assert (table.loc[[0, 1, 2], "upper"] < 0.1).all()
    votes = np.zeros((200, 4))
    np.add.at(votes, (example, label), 1)
    assert (found.truth.argmax(1) == truth).mean() > (votes.argmax(1) == truth).mean() + 0.05


@pytest.mark.parametrize("per_example", [1, 4])
def test_interval_covers_the_accuracy_as_often_as_it_says(per_example):
    covered, widths = [], []
    for seed in range(100, 112):
        p, label, example, annotator, _, theta = simulate(
            seed, examples=800 // per_example, people=20, per_example=per_example
        )
        found = infer(p, label, example=example, annotator=annotator)
        _, lower, upper = reliability(found, sweeps=300)
        covered.append((lower <= theta[found.names]) & (theta[found.names] <= upper))
        widths.append(upper - lower)
    assert 0.88 <= np.mean(covered) <= 0.99  # 240 intervals, those of a seed not independent
    assert np.mean(widths) < 0.45


def test_interval_is_that_of_a_beta_when_the_truth_is_known():
    from scipy.stats import beta

    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 60)
    label = np.where(np.arange(60) < 12, 1 - truth, truth)
    # A model that is always right and an annotator who never disagrees with it keep the truth certain.
    found = infer(
        np.eye(2)[np.concatenate([truth, truth])],
        np.concatenate([label, truth]),
        example=np.tile(np.arange(60), 2),
        annotator=np.repeat(["some", "none"], 60),
    )
    mean, lower, upper = reliability(found, 0.9)
    exact = beta(found.pool.a + 48, found.pool.b + 12)
    assert mean[0] == pytest.approx(exact.mean(), abs=0.01)
    assert (lower[0], upper[0]) == pytest.approx(exact.ppf([0.05, 0.95]), abs=0.02)


def test_few_labels_leave_an_annotator_near_the_others():
    p, label, example, annotator, truth, _ = simulate(6, people=6, a=40, b=10)
    wrong = (truth[:2] + 1) % 3
    found = infer(
        np.vstack([p, p[:8:4]]),
        np.append(label, wrong),
        example=np.append(example, [0, 1]),
        annotator=np.append(annotator, [6, 6]),
    )
    mean, lower, upper = reliability(found)
    assert 0.3 < mean[6] < np.median(mean[:6])
    assert upper[6] - lower[6] > 1.5 * (upper[:6] - lower[:6]).max()


def test_recalibration_finds_the_temperature():
    rng = np.random.default_rng(7)
    log_p = np.log(rng.dirichlet([1, 1, 1], 3000))
    sharp = np.exp(2.5 * log_p)
    sharp /= sharp.sum(1, keepdims=True)
    truth = (sharp.cumsum(1) > rng.random((3000, 1))).argmax(1)
    label = np.where(rng.random(3000) < 0.8, truth, (truth + rng.integers(1, 3, 3000)) % 3)
    evidence = np.log(np.where(np.arange(3) == label[:, None], 0.8, 0.1))
    log_fitted, beta = recalibrated(log_p, evidence)
    fitted = np.exp(log_fitted)
    assert beta == pytest.approx(2.5, abs=0.3)
    assert np.abs(fitted - sharp).mean() < 0.015
    assert np.abs(np.exp(log_p) - sharp).mean() > 0.1


def test_pool_of_equal_annotators_is_narrow_and_of_different_ones_wide():
    right = np.array([80.0, 80, 80, 80, 80, 80])
    equal = pooled(np.stack([[[r / 2, 50 - r / 2], [50 - r / 2, r / 2]] for r in right]))
    right = np.array([99.0, 95, 80, 50, 20, 10])
    apart = pooled(np.stack([[[r / 2, 50 - r / 2], [50 - r / 2, r / 2]] for r in right]))
    assert equal.a + equal.b > 10 * (apart.a + apart.b)
    assert equal.a / (equal.a + equal.b) == pytest.approx(0.8, abs=0.02)
    np.testing.assert_array_equal(equal.errors, [[0, 1], [1, 0]])


def test_held_out_score_prefers_the_better_model():
    p, label, example, annotator, *_ = simulate(8, per_example=2)
    uniform = np.full_like(p, 1 / 3)
    scores = [infer(q, label, example=example, annotator=annotator).held_out for q in (p, uniform)]
    assert scores[0] > scores[1] + 0.02


def test_others_leave_the_own_label_out():
    p, label, example, annotator, *_ = simulate(9, examples=30)
    found = infer(p, label, example=example, annotator=annotator)
    v = found.votes
    for i in (0, 17, 63):
        rest = np.arange(len(label)) != i
        less = Votes(v.example[rest], v.annotator[rest], v.label[rest], *v[3:])
        without, _ = posterior(found.log_prior, found.confusion, less)
        np.testing.assert_allclose(found.others[i], without[v.example[i]], atol=1e-9)


def test_table_has_plain_facts_of_the_model_and_the_least_reliable_first():
    p, label, example, annotator, *_ = simulate(10)
    names = np.array([f"person {j}" for j in range(12)])
    table = annotators(infer(p, label, example=example, annotator=names[annotator]))
    assert list(table) == [
        "annotator",
        "labels",
        "agreement",
        "confidence",
        "support",
        "reliability",
        "lower",
        "upper",
        "flagged",
    ]
    expected = pd.DataFrame(
        {"agreement": p.argmax(1) == label, "confidence": p[range(len(p)), label], "name": names[annotator]}
    ).groupby("name")
    table_by_name = table.set_index("annotator")
    for column in ("agreement", "confidence"):
        pd.testing.assert_series_equal(
            table_by_name[column].sort_index().astype(float), expected[column].mean(), check_names=False
        )
    assert table["labels"].sum() == len(label)
    assert table["reliability"].is_monotonic_increasing
    assert ((table["lower"] < table["reliability"]) & (table["reliability"] < table["upper"])).all()


def test_a_missing_annotator_is_one_more():
    p, label, example, annotator, *_ = simulate(11, people=4, per_example=2)
    ids = np.array(["a", "b", "c", None], dtype=object)[annotator]
    table = annotators(infer(p, label, example=example, annotator=ids))
    assert len(table) == 4
    assert table["annotator"].isna().sum() == 1


def test_said_adds_up_over_the_labels_of_an_example():
    votes, _, confusion = tiny(0)
    expected = np.zeros((3, 3))
    for i, j, y in zip(*votes[:3], strict=True):
        expected[i] += np.log(confusion[j, :, y])
    np.testing.assert_allclose(said(confusion, votes), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.5, 0.5]}, "Expected `p` to be probabilities of at least two classes"),
        ({"p": [[np.nan, 0.5]] * 2}, "Expected `p` to be probabilities"),
        ({"label": [0, 2]}, "Expected `label` to be columns of p, 0 to 1, but got 0 to 2"),
        ({"label": [0.0, 1.0]}, "Expected `label` to be 2 whole numbers"),
        ({"example": [1]}, "Expected `example` to be one id for each of 2 labels"),
        ({"annotator": [[1, 2], [3, 4]]}, "Expected `annotator` to be one id for each of 2 labels"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    inputs = {"p": [[0.5, 0.5]] * 2, "label": [0, 1], "example": [0, 1], "annotator": [0, 0]} | change
    with pytest.raises(ValueError, match=message):
        infer(inputs["p"], inputs["label"], example=inputs["example"], annotator=inputs["annotator"])


def test_level_is_a_probability():
    with pytest.raises(ValueError, match="Expected `level` to lie between 0 and 1, but got 95"):
        annotators(infer([[0.5, 0.5]] * 2, [0, 1]), level=95)
