"""The reliability of each annotator with an approximate interval."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from lupi._internal.arrays import Floats
from lupi.crowd.inference import Inference
from lupi.crowd.trusted import count_checked

Z = 2.4
"""Half the width of an interval, in standard deviations. The other estimates are treated as known, so that 1.96 would
cover 84 to 92 % in simulations with two to five labels per example; this was chosen so that all cover 90 %."""


def summarize_annotators(inference: Inference) -> dict[str, NDArray[Any]]:
    """Summarize each annotator. The result has the columns of a table, in the order of `inference.names`.

    Parameters
    ----------
    inference : Inference
        Result of `infer`.

    Returns
    -------
    dict
        annotator: the id; labels: the number of labels; agreement: the share of labels that equal the consensus;
        reliability: the probability that a label is correct, with an approximate 95 % interval from low to high;
        confidence: the mean probability of the labels under the model alone; support: the mean probability of the
        labels given the model and the other labels of the example, with exponent 1; flagged: whether the interval lies
        below the mean reliability over all labels.

    Examples
    --------
    >>> from lupi.crowd import infer
    >>> p = np.tile([[0.8, 0.2], [0.2, 0.8]], (20, 1)).repeat(3, axis=0)
    >>> given = np.tile([0, 0, 1, 1, 1, 0], 20)
    >>> found = infer(p, given, example=np.arange(40).repeat(3), annotator=["Ann", "Bob", "Cem"] * 40)
    >>> columns = summarize_annotators(found)
    >>> columns["agreement"].tolist(), columns["flagged"].tolist()
    ([1.0, 1.0, 0.0], [False, False, True])
    """
    v = inference.votes
    # Tempering improves calibration, but support is used for ranking, and tempered support ranked worse on music genre.
    support = replace(inference, exponent=1.0).others[np.arange(len(v.label)), v.label]
    more = {"confidence": v.mean_by_annotator(inference.p[v.example, v.label]), "support": v.mean_by_annotator(support)}
    return describe_reliability(inference, more)


def describe_reliability(inference: Inference, more: dict[str, Floats]) -> dict[str, NDArray[Any]]:
    """Return columns that describe each annotator, with `more` of them before the last."""
    v, (reliability, low, high) = inference.votes, approximate_reliability(inference)
    total = np.bincount(v.annotator, minlength=v.annotators)
    return {
        "annotator": inference.names,
        "labels": total,
        "agreement": v.mean_by_annotator(inference.truth.argmax(1)[v.example] == v.label),
        "reliability": reliability,
        "low": low,
        "high": high,
        **more,
        "flagged": high < np.average(reliability, weights=total),
    }


def approximate_reliability(inference: Inference) -> tuple[Floats, Floats, Floats]:
    """Return the reliability of each annotator and the limits of an approximate 95 % interval.

    The interval is computed for the log-odds that a label is correct, from the curvature of the log-posterior. A label
    that is correct with prior probability r contributes the information r (1 − r) if the truth is known, and q (1 − q)
    less if it is correct with posterior probability q.
    """
    v, right, q = inference.votes, inference.right.clip(1e-9, 1 - 1e-9), 1 - inference.wrong
    spread = right * (1 - right)
    checked = count_checked(v)
    own = np.where(checked, checked * v.mean_by_annotator(spread), 1 / inference.variances[0])
    precision = own + np.bincount(v.annotator, spread - q * (1 - q), v.annotators).clip(0)
    log_odds, away = logit(right), (Z / np.sqrt(precision))[v.annotator]
    low, high = (v.mean_by_annotator(expit(log_odds + side * away)) for side in (-1, 1))
    return v.mean_by_annotator(right), low, high
