"""Held-out data of one's own."""

import numpy as np
import pandas as pd
import pytest
import torch.nn.functional as F
from torch import from_numpy

from tests.estimators.helpers import A_NEW, MULTI, REAL, X_NEW, A, X, Y, classifier, regressor

Y_NEW = (X_NEW[:, 0] > 0).astype(int)


@pytest.mark.parametrize("method", ["no-pi", "tram", "auto"])
def test_the_history_has_the_loss_on_the_set(method):
    model = classifier(method).fit(X, Y, privileged=A, eval_set=(X_NEW, Y_NEW))
    expected = F.nll_loss(from_numpy(model.predict_log_proba(X_NEW)), from_numpy(Y_NEW))
    assert model.history_[-1]["validation_marginal"] == pytest.approx(expected.item(), rel=1e-5)


def test_real_numbers_and_several_labels():
    model = regressor("no-pi").fit(X, REAL, eval_set=(X_NEW, X_NEW[:, 0]))
    residual = (model.predict(X_NEW) - X_NEW[:, 0]) / model.target_.scale
    assert model.history_[-1]["validation_marginal"] == pytest.approx(
        (residual**2 + np.log(2 * np.pi)).mean() / 2, rel=1e-3
    )
    model = classifier("no-pi").fit(X, MULTI, eval_set=(X_NEW, MULTI[:25]))
    p = model.predict_proba(X_NEW)
    loss = -np.log(np.where(MULTI[:25] == 1, p, 1 - p)).mean()
    assert model.history_[-1]["validation_marginal"] == pytest.approx(loss, rel=1e-5)


def test_it_stops_training_and_all_examples_are_trained_on():
    wrong = classifier("no-pi", patience=2, epochs=40, learning_rate=0.05).fit(X, Y, eval_set=(X, (Y + 1) % 3))
    assert wrong.n_iter_ < 10
    data, held_out, *_ = classifier("no-pi", patience=2)._prepare(X, Y, eval_set=(X_NEW, Y_NEW))
    assert len(data) == 60
    assert len(held_out) == 25


def test_privileged_information_of_the_set_counts():
    losses = []
    for privileged in (A_NEW, A_NEW.assign(annotator="bob", seconds=9.0)):
        model = classifier("mean-imputation").fit(X, Y, privileged=A, eval_set=(X_NEW, Y_NEW, privileged))
        losses.append(model.history_[-1]["validation_conditional"])
    assert losses[0] != losses[1]


@pytest.mark.parametrize("method", ["pi-dual", "pi-transition"])
def test_predictors_of_the_truth_stop_without_privileged_information(method):
    model = classifier(method, patience=3, epochs=3).fit(X, Y, privileged=A, eval_set=(X_NEW, Y_NEW))
    losses = [row["validation_consensus"] for row in model.history_ if row["stage"] == "train"]
    expected = F.nll_loss(from_numpy(model.predict_log_proba(X_NEW)), from_numpy(Y_NEW))  # the labels count as true
    assert min(losses) == pytest.approx(expected.item(), rel=1e-4)
    classifier(method, patience=2, epochs=2, members=2).fit(X, Y, privileged=A, eval_set=(X_NEW, Y_NEW))
    with pytest.raises(ValueError, match=rf"`eval_set` to be \(X, y, privileged\) for method '{method}'"):
        classifier(method).fit(X, Y, privileged=A, eval_set=(X_NEW, Y_NEW))
    on_labels = classifier(method, patience=3, training={"stop_on": "labels"})
    with pytest.raises(ValueError, match=rf"`eval_set` to be \(X, y, privileged\) for method '{method}'"):
        on_labels.fit(X, Y, privileged=A, eval_set=(X_NEW, Y_NEW))


def test_rows_without_a_label_do_not_count():
    some = np.where(np.arange(25) < 5, Y_NEW, -1)
    some[0] = 2
    one, other = (
        classifier("no-pi").fit(X, Y, eval_set=held_out).history_ for held_out in ((X_NEW, some), (X_NEW[:5], some[:5]))
    )
    assert one[-1]["validation_marginal"] == pytest.approx(other[-1]["validation_marginal"])


@pytest.mark.parametrize(
    ("eval_set", "message"),
    [
        ((X,), r"`eval_set` to be \(X, y\) or \(X, y, privileged\), but got 1 values"),
        (X, r"`eval_set` to be \(X, y\).*but got ndarray"),
        ((X_NEW, Y), "`eval_set` to have 25 labels"),
        ((X_NEW, Y_NEW + 7), "`eval_set` to hold classes of y, such as 0, but got 7"),
        ((X_NEW[:, :2], Y_NEW), "X has 2 features"),
        ((X_NEW, Y_NEW), r"`eval_set` to be \(X, y, privileged\) for method 'mean-imputation'"),
        ((X_NEW, Y_NEW, pd.DataFrame({"other": Y_NEW})), "annotator"),
    ],
)
def test_wrong_sets_are_explained(eval_set, message):
    with pytest.raises(ValueError, match=message):
        classifier("mean-imputation").fit(X, Y, privileged=A, eval_set=eval_set)


def test_held_out_labels_have_the_form_of_y():
    with pytest.raises(ValueError, match=r"`eval_set` to have 2 columns as y has, but got shape \[25\]"):
        classifier("no-pi").fit(X, MULTI, eval_set=(X_NEW, MULTI[:25, 0]))
    with pytest.raises(ValueError, match="`eval_set` to be numbers, one per row"):
        regressor("no-pi").fit(X, REAL, eval_set=(X_NEW, ["high"] * 25))


def test_a_true_label_beside_soft_ones_is_a_class():
    soft = np.eye(3)[Y] * 0.8 + 0.2 / 3
    model = classifier("no-pi", soft=True).fit(X, soft, gold=np.where(np.arange(60) < 5, Y, -1))
    assert model.predict_proba(X).shape == (60, 3)
