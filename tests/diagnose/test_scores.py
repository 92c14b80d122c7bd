"""How good the rankings of labels and annotators are, by true labels."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from lupi.crowd import Votes
from lupi.diagnose.checks.scores import rank_correlation, score_rankings

RNG = np.random.default_rng(0)
ROWS, EXAMPLES, PEOPLE = 300, 100, 12
EXAMPLE, PERSON = np.repeat(np.arange(EXAMPLES), 3), RNG.integers(PEOPLE, size=ROWS)
GOLD = RNG.integers(3, size=EXAMPLES)[EXAMPLE].astype(float)
SKILL = np.linspace(0.3, 1.0, PEOPLE)
LABEL = np.where(RNG.random(ROWS) < SKILL[PERSON], GOLD, (GOLD + 1) % 3).astype(np.int64)
VOTES = Votes(example=EXAMPLE, annotator=PERSON, label=LABEL, examples=EXAMPLES, annotators=PEOPLE, classes=3)
SUSPICION, P = RNG.random(ROWS), RNG.random((ROWS, 3))
ALONE = P[range(ROWS), LABEL]


def test_labels_are_scored_as_scikit_learn_does_on_the_rows_with_true_labels():
    gold = GOLD.copy()
    gold[::2] = np.nan
    found = score_rankings(VOTES, gold, SUSPICION, P).set_index("estimate")
    some = np.arange(1, ROWS, 2)
    wrong = LABEL[some] != GOLD[some]
    majority = np.array([np.mean(LABEL[e == EXAMPLE] != label) for e, label in zip(EXAMPLE, LABEL, strict=True)])
    for name, values in (("suspicion", SUSPICION), ("majority vote", majority), ("model alone", 1 - ALONE)):
        assert found.loc[name, "value"] == pytest.approx(roc_auc_score(wrong, values[some]))
    assert set(found["count"]) == {150}
    assert found.loc["majority vote", "value"] > 0.7


def test_annotators_are_scored_by_rank():
    table = pd.DataFrame({"support": SKILL, "reliability": -SKILL})
    found = score_rankings(VOTES, GOLD, SUSPICION, P, table).set_index(["score", "estimate"])["value"]
    true = [np.mean(LABEL[j == PERSON] == GOLD[j == PERSON]) for j in range(PEOPLE)]
    assert found["Spearman", "support"] == pytest.approx(spearmanr(SKILL, true)[0])
    assert found["Spearman", "reliability"] == pytest.approx(-spearmanr(SKILL, true)[0])
    mean = [ALONE[j == PERSON].mean() for j in range(PEOPLE)]
    assert found["Spearman", "model alone"] == pytest.approx(spearmanr(mean, true)[0])
    assert found["Spearman", "majority vote"] > 0.6


def test_what_has_no_order_has_no_score():
    assert np.isnan(score_rankings(VOTES, LABEL, SUSPICION, P)["value"]).all()
    assert np.isnan(rank_correlation(np.ones(5), np.arange(5.0)))
    table = pd.DataFrame({"support": SKILL, "reliability": SKILL})
    few = score_rankings(VOTES, np.where(EXAMPLE < 2, GOLD, np.nan), SUSPICION, P, table)
    assert few.loc[few["score"] == "Spearman", "value"].isna().all()
