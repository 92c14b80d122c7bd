"""What is known beyond labels and predictions: some true labels, and annotators who are trusted.

A known true label replaces what would be inferred: z_i is no longer random. An annotator who is trusted with
probability t is none of the others, from whom annotators with few labels borrow strength. Instead their log-odds have
the prior of `STRENGTH` labels that have been checked, of which a share t was right and none a habit,

    log p(b_j) = STRENGTH (t log σ(η_j) + (1 − t) log σ(−η_j)) + const,

where η_j is the mean log-odds of their labels. It is largest at σ(η_j) = t, and counts for less the more labels of
theirs can be judged.
"""

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import expit, log_expit, logit

from lupi.crowd.votes import Floats, Integers, Votes

STRENGTH = 100.0
"""The number of labels that the trust in an annotator counts as."""
FEW = 2.0
"""The number of labels that the mean of all annotators counts as, where the estimates start."""


def clamp(votes: Votes, logits: Floats, rows: slice = slice(None)) -> Floats:
    """Set the logits of true labels that are known not to be to −∞, in place; `rows` are the examples of the logits.

    Examples
    --------
    >>> none = np.array([], dtype=np.int64)
    >>> gold = np.array([1, -1])
    >>> votes = Votes(example=none, annotator=none, label=none, examples=2, annotators=0, classes=2, gold=gold)
    >>> clamp(votes, np.zeros((2, 2)))
    array([[-inf,   0.],
           [  0.,   0.]])
    """
    if votes.gold is not None:
        gold = votes.gold[rows]
        known = np.flatnonzero(gold >= 0)
        kept = logits[known, gold[known]]
        logits[known] = -np.inf
        logits[known, gold[known]] = kept
    return logits


def find_trusted(votes: Votes) -> Integers:
    """Return the annotators who are trusted."""
    return np.zeros(0, np.int64) if votes.trust is None else np.flatnonzero(~np.isnan(votes.trust))


def count_checked(votes: Votes) -> Floats:
    """Return the number of checked labels that each annotator's prior counts as, [annotators]."""
    count = np.zeros(votes.annotators)
    count[find_trusted(votes)] = STRENGTH
    return count


def log_trust(trust: Floats, log_odds: Floats) -> tuple[Floats, Floats]:
    """Return the log-prior of the log-odds of annotators who are trusted, and its derivative."""
    value = STRENGTH * (trust * log_expit(log_odds) + (1 - trust) * log_expit(-log_odds))
    return value, STRENGTH * (trust - expit(log_odds))


def start_log_odds(votes: Votes, mean: float) -> Floats:
    """Return log-odds of each annotator to start from: those of labels that have been checked, [annotators].

    A few more labels have the log-odds `mean`, which annotators without checked labels have, too. The likelihood of
    labels has several maxima: without this start, annotators who agree on wrong labels would be believed.
    """
    checked, right = count_checked(votes), np.nan_to_num(votes.trust if votes.trust is not None else 0.0)
    right = checked * right
    if votes.gold is not None:
        gold = votes.gold[votes.example]
        checked = checked + np.bincount(votes.annotator, gold >= 0, votes.annotators)
        right = right + np.bincount(votes.annotator, gold == votes.label, votes.annotators)
    return np.asarray(logit((right + FEW * expit(mean)) / (checked + FEW)))


def average_rows(votes: Votes, values: csr_array) -> csr_array:
    """Average rows of values of labels, [labels, columns], over the labels of each annotator who is trusted."""
    who = find_trusted(votes)
    label = np.flatnonzero(np.isin(votes.annotator, who))
    place = np.searchsorted(who, votes.annotator[label])
    share = 1 / np.bincount(place, minlength=len(who))[place]
    return csr_array(csr_array((share, (place, label)), shape=(len(who), len(votes.label))) @ values)


def read_gold(gold: ArrayLike, example: Integers, examples: int, classes: int) -> Integers:
    """Return the true label of each example, −1 where it is unknown, from that of each label's example.

    Examples
    --------
    >>> read_gold([1, np.nan, np.nan, 0], np.array([0, 0, 1, 2]), 3, 2)
    array([ 1, -1,  0])
    """
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
    """Return the trust in each annotator, NaN for those who are not named.

    Examples
    --------
    >>> read_trust({"eve": 0.9}, np.array(["bob", "eve"]))
    array([nan, 0.9])
    >>> read_trust({"ewe": 0.9}, np.array(["bob", "eve"]))
    Traceback (most recent call last):
    ...
    ValueError: Expected `trust` to name annotators, but got 'ewe': did you mean 'eve'?
    """
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
