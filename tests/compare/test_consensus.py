from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lupi.compare import Plan
from lupi.compare.arms import score_table
from lupi.compare.consensus import first_rows, infer_consensus
from lupi.compare.plan import make_splits
from lupi.estimators.table_estimator import TableEstimator
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


def test_the_consensus_is_closer_to_the_truth_than_labels(tmp_path):
    for each, gain in ((1, 0.02), (3, 0.1)):
        label, annotator, example = crowd(each, 0.5)
        plan, data, splits = read(tmp_path, label, annotator, example)
        for (_, test), found in zip(splits, infer_consensus(plan, data, splits, [0, 1]), strict=True):
            examples = example[test][: len(np.unique(example[test]))]  # each once before any of them twice
            right = found["truth"][np.arange(len(examples)), TRUTH[examples]].mean()
            assert right > (label[test] == TRUTH[example[test]]).mean() + gain
            np.testing.assert_allclose(found["truth"].sum(1), 1)


def test_rows_of_the_consensus_are_those_of_the_task(tmp_path):
    """A prediction of the truth is scored as the consensus rates the truth."""
    plan, data, splits = read(tmp_path, *crowd(2, 0.5))
    truth = [one["truth"] for one in infer_consensus(plan, data, splits, [0, 1])]
    for seed, ((_, test), own) in enumerate(zip(splits, truth, strict=True)):
        once = test[first_rows(data.group[test])]
        gold = np.digitize(data.inputs["size"].iloc[once], [-0.5, 0.5])
        rated = own[np.arange(len(gold)), gold]
        assert rated.mean() > 0.9
        model = TableEstimator(data.schema, "no-pi", {"epochs": 1, "random_state": seed}).fit(data)
        found = score_table(model, data, test, own, 1.0)
        p = model.estimator.predict_proba(data.inputs.iloc[once])
        np.testing.assert_allclose(found.prediction, p)
        assert found.scores["nll"].value == pytest.approx(-(own * np.log(p)).sum(1).mean())


def test_classes_that_the_training_rows_lack_are_impossible(tmp_path):
    label, annotator, example = crowd(1, 0.2)
    label = np.where(label == 1, 0, label)
    plan, data, splits = read(tmp_path, label, annotator, example)
    held = splits[0][1][0]
    label[held] = 1  # once, and held out
    plan, data, _ = read(tmp_path, label, annotator, example)
    splits = make_splits(plan, data, None)
    assert held not in splits[0][1]
    (found,) = infer_consensus(plan, data, splits, [0])
    assert found["truth"].shape == (len(splits[0][1]), 3)
    assert not found["truth"][:, 1].any()


def test_the_consensus_reads_columns_as_the_table_does(tmp_path):
    """A column that users chose as a category is not refused as an identifier."""
    plan, _, _ = read(tmp_path, *crowd(2, 0.5))
    table = pd.read_parquet(plan.spec.table)
    table.assign(code="c" + table["id"].astype(str)).to_parquet(plan.spec.table)
    plan = replace(plan, spec=replace(plan.spec, kind={"code": "category"}), settings={"epochs": 1})
    data = read_data(plan.spec).load()
    for found in infer_consensus(plan, data, make_splits(plan, data, None), [0, 1]):
        np.testing.assert_allclose(found["truth"].sum(1), 1)


def test_the_consensus_sees_held_out_labels_of_its_own_split_only(tmp_path):
    plan, data, splits = read(tmp_path, *crowd(1, 0.5))
    (first,), (second,) = (infer_consensus(plan, data, splits, [seed]) for seed in (0, 1))
    alone = infer_consensus(plan, data, splits, [0, 1])
    np.testing.assert_allclose(alone[0]["truth"], first["truth"], atol=1e-4)
    np.testing.assert_allclose(alone[1]["truth"], second["truth"], atol=1e-4)


def test_true_labels_of_held_out_examples_score_and_those_of_training_rows_train(tmp_path):
    label, annotator, example = crowd(2, 0.5)
    plan, data, splits = read(tmp_path, label, annotator, example)
    known = example % 3 == 0
    gold = pd.Series(np.where(known, (TRUTH[example] + 1) % 3, np.nan))  # a truth that labels deny
    data = replace(data, columns=data.columns.assign(gold=gold), gold="gold")
    truth = [one["truth"] for one in infer_consensus(plan, data, splits, [0, 1])]
    for (train, test), own in zip(splits, truth, strict=True):
        assert set(example[train]).isdisjoint(example[test])
        given = TableEstimator(data.schema, "no-pi")._arguments(data.take(train))["gold"]
        expected = [None if pd.isna(one) else one for one in gold[train]]
        assert given.tolist() == expected
        scored = example[test][np.sort(np.unique(example[test], return_index=True)[1])]
        at = scored % 3 == 0
        np.testing.assert_array_equal(own[at], np.eye(3)[(TRUTH[scored[at]] + 1) % 3])
        assert own[~at].max() < 1
