from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lupi.compare import Plan
from lupi.compare.arms import score_table
from lupi.compare.held_out import correct_for_noise, first_rows, weigh_truths
from lupi.compare.plan import Setup, make_splits
from lupi.crowd import infer
from lupi.estimators.table_estimator import TableEstimator
from lupi.metrics import Posterior, accuracy, nll
from lupi.tabular import TableSpec
from lupi.tabular.table_data import read_data

N = 300
RNG = np.random.default_rng(0)
SIZE = RNG.normal(size=N)
TRUTH = np.digitize(SIZE, [-0.5, 0.5])


def read(folder, label, annotator, example):
    frame = pd.DataFrame({"id": example, "size": SIZE[example], "annotator": annotator, "label": label})
    frame.to_parquet(folder / "table.parquet")
    spec = TableSpec(
        table=folder / "table.parquet", target=["label"], privileged=["annotator"], example="id", task="classification"
    )
    plan = Plan(spec=spec, seeds=2, settings={"epochs": 30, "learning_rate": 0.01})
    data = read_data(spec).load()
    return plan, data, make_splits(plan, data, None)


def crowd(each, wrong):
    """Labels in mixed order: of an honest annotator, and of one who is often wrong."""
    example = np.tile(np.arange(N), each)
    annotator = RNG.integers(2, size=len(example))
    mistaken = (annotator == 1) & (RNG.random(len(example)) < wrong)
    return np.where(mistaken, (TRUTH[example] + 1) % 3, TRUTH[example]), np.array(["good", "bad"])[annotator], example


def test_corrected_scores_are_unbiased():
    """Over all labels that two annotators can give, in proportion to their probabilities: exactly."""
    share = np.array([0.5, 0.3, 0.2])
    first = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]])  # [true label, given label]
    second = np.array([[0.5, 0.3, 0.2], [0.0, 0.9, 0.1], [0.25, 0.25, 0.5]])
    rows = [
        (z, np.log(first[:, y].clip(1e-300)) + np.log(second[:, w].clip(1e-300)))
        for z, y, w in np.ndindex(3, 3, 3)
        for _ in range(round(20_000 * share[z] * first[z, y] * second[z, w]))
    ]
    z, evidence = np.array([z for z, _ in rows]), np.array([own for _, own in rows])
    kept, truth = correct_for_noise(evidence, share)
    assert kept is evidence
    for k in range(3):
        np.testing.assert_allclose(truth[z == k].mean(0), np.eye(3)[k], atol=1e-9)
    decision = np.where(z == 2, 0, z)  # always wrong for one class
    assert truth[np.arange(len(z)), decision].mean() == pytest.approx((decision == z).mean())


def test_labels_that_say_nothing_about_some_classes_leave_their_sum():
    share, evidence = np.array([0.5, 0.25, 0.25]), np.log(np.array([[0.9, 0.1, 0.1], [0.1, 0.9, 0.9]] * 10))
    _, truth = correct_for_noise(evidence, share)
    np.testing.assert_allclose(truth[:, 1], truth[:, 2])
    np.testing.assert_allclose(truth.sum(1), 1)
    assert np.abs(truth).max() < 2


def test_a_method_that_corrects_the_network_of_the_scores_is_better():
    """Although the posterior, which follows that network where one noisy label leaves the truth open, denies it."""
    rng, n = np.random.default_rng(0), 4000
    truth = rng.integers(2, size=n)
    label = np.where(rng.random(n) < 0.4, 1 - truth, truth)
    hard = rng.random(n) < 0.3  # where the network is wrong, and a better method is right
    network = np.where(truth ^ hard, 0.75, 0.25)
    better = np.where(truth, 0.7, 0.3)
    p = [np.stack([1 - one, one], 1) for one in (network, better)]
    found = infer(p[0], label)
    posterior = [nll(Posterior(found.truth), one).mean() for one in p]
    assert posterior[1] > posterior[0]
    evidence, corrected = correct_for_noise(found.evidence, found.truth.mean(0))
    scored = [nll(Posterior(corrected, evidence), one).mean() for one in p]
    assert scored[1] < scored[0]
    right = [accuracy(Posterior(corrected, evidence), one).mean() for one in p]
    assert right[1] - right[0] == pytest.approx(hard.mean(), abs=0.15)


def test_the_likelihood_of_labels_sums_over_true_labels():
    rng = np.random.default_rng(0)
    p, evidence = rng.dirichlet(np.ones(3), 5), rng.normal(size=(5, 3))
    by_hand = [-np.log(sum(p[i, z] * np.exp(evidence[i, z] - evidence[i].max()) for z in range(3))) for i in range(5)]
    np.testing.assert_allclose(nll(Posterior(np.full((5, 3), np.nan), evidence), p), by_hand)
    certain = np.where(np.eye(3)[[0, 1, 2, 0, 1]] > 0, 0.0, -np.inf)
    np.testing.assert_allclose(nll(Posterior(p, certain), p), nll([0, 1, 2, 0, 1], p))


def test_what_labels_say_is_closer_to_the_truth_than_labels(tmp_path):
    for each, gain in ((1, 0), (3, 0.1)):
        label, annotator, example = crowd(each, 0.5)
        plan, data, splits = read(tmp_path, label, annotator, example)
        for (_, test), found in zip(
            splits, weigh_truths(Setup(plan=plan, data=data, splits=splits), [0, 1]), strict=True
        ):
            examples = example[test][: len(np.unique(example[test]))]  # each once before any of them twice
            right = (found["evidence"].argmax(1) == TRUTH[examples]).mean()
            assert right >= (label[test] == TRUTH[example[test]]).mean() + gain
            assert found["truth"][np.arange(len(examples)), TRUTH[examples]].mean() == pytest.approx(1, abs=0.2)
            np.testing.assert_allclose(found["truth"].sum(1), 1, atol=1e-6)


def test_scored_rows_are_those_of_the_task(tmp_path):
    plan, data, splits = read(tmp_path, *crowd(2, 0.5))
    every = weigh_truths(Setup(plan=plan, data=data, splits=splits), [0, 1])
    for seed, ((_, test), own) in enumerate(zip(splits, every, strict=True)):
        once = test[first_rows(data.group[test])]
        gold = np.digitize(data.inputs["size"].iloc[once], [-0.5, 0.5])
        assert own["truth"][np.arange(len(gold)), gold].mean() > 0.9
        model = TableEstimator(data.schema, "no-pi", {"epochs": 1, "random_state": seed}).fit(data)
        found = score_table(model, data, test, Posterior(own["truth"], own["evidence"]), 1.0)
        p = model.estimator.predict_proba(data.inputs.iloc[once])
        np.testing.assert_allclose(found.prediction, p)
        likelihood = np.exp(own["evidence"] - own["evidence"].max(1, keepdims=True))
        assert found.scores["nll"].value == pytest.approx(-np.log((likelihood * p).sum(1)).mean())


def test_classes_that_the_training_rows_lack_are_impossible(tmp_path):
    label, annotator, example = crowd(1, 0.2)
    label = np.where(label == 1, 0, label)
    plan, data, splits = read(tmp_path, label, annotator, example)
    held = splits[0][1][0]
    label[held] = 1  # once, and held out
    plan, data, _ = read(tmp_path, label, annotator, example)
    splits = make_splits(plan, data, None)
    assert held not in splits[0][1]
    (found,) = weigh_truths(Setup(plan=plan, data=data, splits=splits), [0])
    assert found["truth"].shape == (len(splits[0][1]), 3)
    assert not found["truth"][:, 1].any()
    assert np.isneginf(found["evidence"][:, 1]).all()


def test_the_network_reads_columns_as_the_table_does(tmp_path):
    """A column that users chose as a category is not refused as an identifier."""
    plan, _, _ = read(tmp_path, *crowd(2, 0.5))
    table = pd.read_parquet(plan.spec.table)
    table.assign(code="c" + table["id"].astype(str)).to_parquet(plan.spec.table)
    plan = replace(plan, spec=replace(plan.spec, kind={"code": "category"}), settings={"epochs": 1})
    data = read_data(plan.spec).load()
    for found in weigh_truths(Setup(plan=plan, data=data, splits=make_splits(plan, data, None)), [0, 1]):
        np.testing.assert_allclose(found["truth"].sum(1), 1, atol=1e-6)


def test_seeds_do_not_affect_each_other(tmp_path):
    plan, data, splits = read(tmp_path, *crowd(1, 0.5))
    (first,), (second,) = (weigh_truths(Setup(plan=plan, data=data, splits=splits), [seed]) for seed in (0, 1))
    alone = weigh_truths(Setup(plan=plan, data=data, splits=splits), [0, 1])
    np.testing.assert_allclose(alone[0]["truth"], first["truth"], atol=1e-4)
    np.testing.assert_allclose(alone[1]["truth"], second["truth"], atol=1e-4)


def test_true_labels_of_held_out_examples_score_and_those_of_training_rows_train(tmp_path):
    label, annotator, example = crowd(2, 0.5)
    plan, data, splits = read(tmp_path, label, annotator, example)
    known = example % 3 == 0
    gold = pd.Series(np.where(known, (TRUTH[example] + 1) % 3, np.nan))  # a truth that labels deny
    data = replace(data, columns=data.columns.assign(gold=gold), gold="gold")
    truth = [one["truth"] for one in weigh_truths(Setup(plan=plan, data=data, splits=splits), [0, 1])]
    for (train, test), own in zip(splits, truth, strict=True):
        assert set(example[train]).isdisjoint(example[test])
        given = TableEstimator(data.schema, "no-pi")._arguments(data.take(train))["gold"]
        expected = [None if pd.isna(one) else one for one in gold[train]]
        assert given.tolist() == expected
        scored = example[test][np.sort(np.unique(example[test], return_index=True)[1])]
        at = scored % 3 == 0
        np.testing.assert_array_equal(own[at], np.eye(3)[(TRUTH[scored[at]] + 1) % 3])
        assert (own[~at] != 1).all()
