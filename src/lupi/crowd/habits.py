"""Habits: labels that do not depend on the truth, such as those of a spammer who always gives the same answer.

The model is a mixture, as in MACE: with probability s_j, annotator j gives a label out of habit, drawn from h_j;
otherwise the label depends on the truth. EM estimates s and h, given the rest of the model.

References
----------
Hovy et al., "Learning whom to trust with MACE" (NAACL 2013).
"""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from lupi._internal.arrays import Floats
from lupi.crowd.likelihood import LabelModel, split_rows, weigh_truths
from lupi.crowd.trusted import count_checked
from lupi.crowd.votes import Votes

START = 0.1
"""Initial share of habits."""
FEW = 5.0
"""Pseudo-count of labels that are not habits, for each annotator."""


def start_model(votes: Votes, log_odds: Floats) -> LabelModel:
    """Return an initial model with the given log-odds, in which habits are distributed like an annotator's labels.

    A single annotator has no habits unless true labels are known, since they could not be detected otherwise.
    """
    K = votes.classes
    return LabelModel(
        log_odds=log_odds[votes.annotator],
        ease=np.zeros(K),
        errors=(1 - np.eye(K)) / (K - 1),
        share=np.full(votes.annotators, START if votes.annotators > 1 or votes.has_anchors else 0.0),
        habits=estimate_habits(votes, np.ones(len(votes.label))),
    )


def update_habits(votes: Votes, model: LabelModel, log_prior: Floats) -> tuple[LabelModel, Floats]:
    """Take an EM step; return the model with updated habits, and the expected errors, [true label, given label].

    The labels are sorted by example.
    """
    work, K = 1 - model.share[votes.annotator], votes.classes
    habit, wrong = np.empty(len(votes.label)), np.zeros((K, K))
    for rows in split_rows(*log_prior.shape):
        labels = slice(*np.searchsorted(votes.example, [rows.start, rows.stop]))
        if labels.start == labels.stop:
            continue
        odds, p, right, _ = weigh_truths(votes, log_prior, model, rows, labels)
        odds /= p
        # P(habit | all labels) = Σ_z P(z | all labels) P(y_n, habit) / P(y_n | z), and the same for errors
        who, given = votes.annotator[labels], votes.label[labels]
        habit[labels] = model.share[who] * model.habits[who, given] * odds.sum(1)
        odds *= 1 - right
        to = csr_array((work[labels], (given, np.arange(len(given)))), shape=(K, len(given)))
        wrong += np.asarray(to @ odds).T
    wrong *= model.errors
    if not model.share.any():
        return model, wrong
    habit = habit.clip(0, 1)
    each = np.bincount(votes.annotator, habit, votes.annotators)
    share = each / (np.bincount(votes.annotator, minlength=votes.annotators) + FEW + count_checked(votes))
    return replace(model, share=share, habits=estimate_habits(votes, habit)), wrong


def estimate_habits(votes: Votes, weight: Floats) -> Floats:
    """Return the distribution of each annotator's weighted labels, smoothed by one label of an average annotator."""
    shape = votes.annotators, votes.classes
    count = np.bincount(votes.annotator * votes.classes + votes.label, weight, votes.annotators * votes.classes)
    overall = np.bincount(votes.label, minlength=votes.classes) + 1.0
    count = count.reshape(shape) + overall / overall.sum()
    return np.asarray(count / count.sum(1, keepdims=True))
