"""Known true labels and trusted annotators.

A known true label fixes z_i. A trusted annotator is not part of the population from which annotators with few labels
borrow strength. Instead, trust t in an annotator acts as a prior worth `STRENGTH` checked labels, of which a share t
was correct and none was a habit,

    log p(b_j) = STRENGTH (t log σ(η_j) + (1 − t) log σ(−η_j)) + const,

where η_j is the mean log-odds of the annotator's labels. The prior has its maximum at σ(η_j) = t, and matters less the
more informative labels the annotator has.
"""

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import expit, log_expit, logit

from lupi._internal.arrays import Floats
from lupi.crowd.votes import Integers, Votes

STRENGTH = 100.0
"""Number of checked labels that trust in an annotator is worth."""
FEW = 2.0
"""Pseudo-count of the mean of all annotators in the initial estimates."""


def clamp(votes: Votes, logits: Floats, rows: slice | Integers = slice(None)) -> Floats:
    """Set the logits of classes to −∞ where another class is known to be true, in place.

    `rows` are the examples of the logits.
    """
    if votes.gold is not None:
        gold = votes.gold[rows]
        known = np.flatnonzero(gold >= 0)
        true = logits[known, gold[known]]
        logits[known] = -np.inf
        logits[known, gold[known]] = true
    return logits


def find_trusted(votes: Votes) -> Integers:
    """Return the trusted annotators."""
    return np.zeros(0, np.int64) if votes.trust is None else np.flatnonzero(~np.isnan(votes.trust))


def count_checked(votes: Votes) -> Floats:
    """Return the number of checked labels that the prior of each annotator is worth, [annotators]."""
    count = np.zeros(votes.annotators)
    count[find_trusted(votes)] = STRENGTH
    return count


def log_trust(trust: Floats, log_odds: Floats) -> tuple[Floats, Floats]:
    """Return the log-prior of the log-odds of trusted annotators and its derivative."""
    value = STRENGTH * (trust * log_expit(log_odds) + (1 - trust) * log_expit(-log_odds))
    return value, STRENGTH * (trust - expit(log_odds))


def start_log_odds(votes: Votes, mean: float) -> Floats:
    """Return initial log-odds of each annotator from the labels that have been checked, [annotators].

    They are smoothed by `FEW` labels with the log-odds `mean`, so annotators without checked labels start at `mean`.
    The likelihood has several maxima; without this start, annotators who agree on wrong labels could win.
    """
    checked, right = count_checked(votes), np.nan_to_num(votes.trust if votes.trust is not None else 0.0)
    right = checked * right
    if votes.gold is not None:
        gold = votes.gold[votes.example]
        checked = checked + np.bincount(votes.annotator, gold >= 0, votes.annotators)
        right = right + np.bincount(votes.annotator, gold == votes.label, votes.annotators)
    return np.asarray(logit((right + FEW * expit(mean)) / (checked + FEW)))


def average_rows(votes: Votes, values: csr_array) -> csr_array:
    """Average values, [labels, columns], over the labels of each trusted annotator."""
    who = find_trusted(votes)
    label = np.flatnonzero(np.isin(votes.annotator, who))
    place = np.searchsorted(who, votes.annotator[label])
    share = 1 / np.bincount(place, minlength=len(who))[place]
    return csr_array(csr_array((share, (place, label)), shape=(len(who), len(votes.label))) @ values)


def read_gold(gold: ArrayLike, example: Integers, examples: int, classes: int) -> Integers:
    """Return the true label of each example, −1 where it is unknown, from one entry per label."""
    values = np.asarray(gold, dtype=np.float64)
    if values.shape != example.shape:
        raise ValueError(f"Expected `gold` to have {len(example)} rows, one per label, but got {list(values.shape)}.")
    values = np.where(np.isnan(values), -1, values)
    if not np.isin(values, np.arange(-1, classes)).all():
        got = values[~np.isin(values, np.arange(-1, classes))][0]
        raise ValueError(f"Expected `gold` to be classes from 0 to {classes - 1}, or -1 if unknown, but got {got:g}.")
    found = np.full(examples, -1, np.int64)
    np.maximum.at(found, example, values.astype(np.int64))
    if (wrong := (values >= 0) & (values != found[example])).any():
        row = int(wrong.argmax())
        other = f"{values[row]:g} in row {row} and {found[example[row]]} in another row"
        raise ValueError(f"Expected `gold` to be the same in all rows of an example, but got {other}.")
    return found


def read_trust(trust: Mapping[Any, float], names: NDArray[Any]) -> Floats:
    """Return the trust in each annotator, NaN for annotators who are not in `trust`."""
    if not isinstance(trust, Mapping):
        raise ValueError(f"Expected `trust` to be a dict from annotators to probabilities, but got {trust!r}.")
    places, found = {name: place for place, name in enumerate(names.tolist())}, np.full(len(names), np.nan)
    for name, value in trust.items():
        if name not in places:
            near = difflib.get_close_matches(str(name), list(map(str, places)), n=1)
            some = ", ".join(map(str, list(places)[:10])) + (", …" if len(places) > 10 else "")
            hint = f"did you mean {near[0]!r}?" if near else f"the annotators are {some}."
            raise ValueError(f"Expected `trust` to name annotators, but got {name!r}: {hint}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise ValueError(f"Expected `trust` in {name!r} to be a number between 0 and 1, but got {value!r}.")
        found[places[name]] = value
    return found
