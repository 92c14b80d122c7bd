"""Whom and what the checks name, in simulations with known truth."""

import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import Problem
from lupi.diagnose.checks.annotators import Annotators
from lupi.diagnose.checks.labels import Consensus, Labels
from lupi.diagnose.checks.next import choose_annotators, expected_gains, typical_annotator

PEOPLE, CARELESS, CLASSES = 8, 2, 3


def simulate(seed, examples=150, each=4):
    """Annotators who are right 85 % of the time, and two who choose a class at random; the inputs tell nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=examples)
    who = np.argsort(rng.random((examples, PEOPLE)))[:, :each]
    right = rng.random(who.shape) < np.where(who < CARELESS, 1 / CLASSES, 0.85)
    label = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, CLASSES, who.shape)) % CLASSES).ravel()
    names = np.array([f"p{i}" for i in range(PEOPLE)])[who.ravel()]
    rows = len(label)
    p = np.full((rows, CLASSES), 1 / CLASSES)
    example = np.arange(examples).repeat(each)
    problem = Problem(
        np.zeros((rows, 1)),
        label,
        pd.DataFrame({"who": names}),
        example=example,
        annotator=names,
        probabilities=p,
        method="no-pi",
    )
    return problem, truth


@pytest.mark.parametrize("simulations", [8, pytest.param(200, marks=pytest.mark.nightly)])
def test_flags_errors_and_the_consensus_are_those_of_the_truth(simulations):
    flags, found, expected, right, doubtful = [], [], [], [], []
    for seed in range(simulations):
        problem, truth = simulate(seed)
        annotators = Annotators().run(problem).table
        flags.append(set(annotators.loc[annotators["flagged"], "annotator"]) == {"p0", "p1"})
        labels = Labels().run(problem).table
        wrong = problem.y[labels["row"]] != truth[problem.group[labels["row"]]]
        suspicious = (labels["wrong"] > 0.5).to_numpy()
        found.append([wrong[suspicious].mean(), suspicious[wrong].mean()])
        expected.append(labels["wrong"].sum() / wrong.sum())
        consensus = Consensus().run(problem).table
        correct = consensus["label"].to_numpy() == truth
        right.append([correct.mean(), consensus["probability"].mean()])
        order = np.argsort(-expected_gains(problem.inference, typical_annotator(problem.inference)), kind="stable")
        doubtful.append([1 - correct[order[:30]].mean(), 1 - correct[order[30:]].mean()])
        asked = choose_annotators(problem.inference)
        assert not set(asked) & {"p0", "p1"}
    assert np.mean(flags) >= (0.9 if simulations == 200 else 0.8)
    precision, recall = np.mean(found, 0)
    assert precision >= 0.9
    assert recall >= 0.8
    assert abs(np.mean(expected) - 1) < 0.1
    accuracy, probability = np.mean(right, 0)
    assert abs(accuracy - probability) < 0.03
    first, rest = np.mean(doubtful, 0)
    assert first > 5 * rest
