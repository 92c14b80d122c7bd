"""Choose models by noisy labels: `LabelLikelihood` finds the one that predicts the truth."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold

from lupi import PrivilegedClassifier
from lupi.crowd import infer
from lupi.estimators import LabelLikelihood


class Fixed:
    """A classifier whose input is its prediction."""

    def __init__(self, *classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, X):
        return np.asarray(X)


def simulate(seed, examples=150):
    """Two prolific people always answer 1; the four others are right nineteen times of twenty."""
    rng = np.random.default_rng(seed)
    ids, x = np.arange(examples).repeat(3), rng.normal(size=(examples, 2))
    truth = (x[:, 0] > 0).astype(int)[ids]
    who = rng.choice(list("abcdef"), size=len(ids), p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
    right = np.where(rng.random(len(ids)) < 0.95, truth, 1 - truth)
    y = np.where(np.isin(who, ["a", "b"]), 1, right)
    return x[ids], y, pd.DataFrame({"annotator": who, "seconds": rng.random(len(ids))}), ids, truth


@pytest.mark.parametrize("seed", range(2))
def test_a_search_chooses_the_method_that_predicts_the_truth(seed):
    X, y, A, ids, truth = simulate(seed)
    grid = {"method": ["no-pi", "dawid-skene"]}
    chosen = {}
    with config_context(enable_metadata_routing=True):
        for name, scoring in {"noisy": "neg_log_loss", "accuracy": "accuracy", "ours": LabelLikelihood()}.items():
            model = PrivilegedClassifier(epochs=15, random_state=0)
            search = clone(GridSearchCV(model, grid, scoring=scoring, cv=GroupKFold(2), error_score="raise"))
            search.fit(X, y, privileged=A, example=ids, groups=ids)
            chosen[name] = search.best_params_["method"], (search.predict(X) == truth).mean()
    assert chosen["noisy"][0] == chosen["accuracy"][0] == "no-pi"
    assert chosen["ours"][0] == "dawid-skene"
    assert chosen["ours"][1] > 0.8 > 0.6 > chosen["accuracy"][1]


def test_the_score_is_the_likelihood_of_the_labels():
    rng = np.random.default_rng(0)
    _, y, A, ids, truth = simulate(0, examples=60)
    p = np.repeat(rng.dirichlet([1, 1], size=60), 3, axis=0)
    evidence = infer(p, y, example=ids, annotator=A["annotator"]).evidence
    expected = [math.log(sum(p[3 * i, z] * math.exp(evidence[i, z]) for z in (0, 1))) for i in range(60)]
    score = LabelLikelihood()
    assert score(Fixed(0, 1), p, y, privileged=A, example=ids) == pytest.approx(np.mean(expected))
    order = rng.permutation(len(y))
    again = score(Fixed(0, 1), p[order], y[order], privileged=A.iloc[order], example=ids[order])
    assert again == pytest.approx(np.mean(expected), rel=1e-4)
    gold = np.where(ids < 20, truth, -1)
    evidence = infer(p, y, example=ids, annotator=A["annotator"], gold=gold).evidence
    joint = np.log(p[::3]) + evidence
    known = [joint[i, truth[3 * i]] for i in range(20)]
    unknown = [math.log(np.exp(joint[i]).sum()) for i in range(20, 60)]
    found = score(Fixed(0, 1), p, y, privileged=A, example=ids, gold=np.where(ids < 20, truth, np.nan))
    assert found == pytest.approx(np.mean(known + unknown))


def test_true_labels_decide_where_annotators_contradict_each_other():
    """Four people give the opposite of the truth, two the truth: only true labels tell who is right."""
    _, _, A, ids, truth = simulate(1)
    y = np.where(A["annotator"].isin(["c", "d", "e", "f"]), truth, 1 - truth)
    right, wrong = (np.eye(2)[label] * 0.8 + 0.1 for label in (truth, 1 - truth))
    score = lambda p, gold=None: LabelLikelihood()(Fixed(0, 1), p, y, privileged=A, example=ids, gold=gold)  # noqa: E731
    assert abs(score(right) - score(wrong)) < 0.5
    gold = np.where(ids < 50, truth.astype(float), np.nan)
    assert score(right, gold) > score(wrong, gold) + 0.5


def test_classes_that_training_lacks_and_rows_without_a_label():
    _, y, A, ids, truth = simulate(0)
    p = np.eye(2)[truth] * 0.8 + 0.1
    names = np.array(["no", "yes"], dtype=object)[y]
    both = LabelLikelihood()(Fixed("no", "yes"), p, names, privileged=A, example=ids)
    some = names.copy()
    some[:3] = None
    without = LabelLikelihood()(Fixed("no", "yes"), p, some, privileged=A, example=ids)
    expected = LabelLikelihood()(Fixed("no", "yes"), p[3:], names[3:], privileged=A.iloc[3:], example=ids[3:])
    assert without == pytest.approx(expected)
    names[-1] = "perhaps"
    assert LabelLikelihood()(Fixed("no", "yes"), p, names, privileged=A, example=ids) < both


def test_what_is_refused():
    X, y, A, ids, _ = simulate(0)
    score, model = LabelLikelihood(), LogisticRegression().fit(X, y)
    assert score(model, X, y, privileged=A, example=ids) < 0
    with pytest.raises(ValueError, match=r"`privileged` to say who gave the labels, but got None.*routing=True"):
        score(model, X, y)
    with pytest.raises(ValueError, match="`privileged` to have a column of annotators: name it in `annotator`"):
        score(model, X, y, privileged=A[["seconds"]])
    with pytest.raises(ValueError, match="one class per label, but got shape"):
        score(model, X, np.stack([y, y], 1), privileged=A)
    assert LabelLikelihood(annotator="who")(model, X, y, privileged=A.rename(columns={"annotator": "who"})) < 0
