"""Annotators as draws from a population: what the other labels of an annotator say about each label.

An annotator of type g gives the apparent answer of the example with probability c_g and a habit with probability s_g,
a class that this annotator falls back on. Otherwise the label is true with probability r_g, and an error if not. The
types form a grid whose frequencies are estimated, and the type of each annotator is summed out: an annotator with few
labels is judged like an average one, and no label vouches for its own author.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, logsumexp

from lupi.crowd.trusted import STRENGTH, find_trusted
from lupi.crowd.votes import Floats, Votes, add_groups, softmax, split_rows

KNOWLEDGE = expit(np.linspace(-5, 7, 37))
"""r on a grid that is even in log-odds."""
HABITS = np.array([(r, s) for s in (0.3, 0.6, 0.99) for r in (0.1, 0.4, 0.7, 0.95)])
"""r and s of annotators with a habit."""
PLAIN, HABITUAL = slice(0, len(KNOWLEDGE)), slice(-len(HABITS), None)
"""Types with c = s = 0 come first, types with a habit last, copiers and their leaders between them."""
MEAN, DEVIATION = 1.0, 2.0
"""Of the log-odds of r at the start: without predictions, only this tells true labels from their opposite."""
LEADER = 0.99
"""c of an annotator whom the copiers copy: hardly a label differs from the apparent answer."""
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Population:
    """The types of annotators and their frequencies."""

    frequency: Floats
    """[types]"""
    copying: float
    """c of the copiers; 0 if there are none."""

    @property
    def copiers(self) -> slice:
        """The places of the copiers."""
        return slice(len(KNOWLEDGE), 2 * len(KNOWLEDGE) if self.copying else len(KNOWLEDGE))

    @property
    def log_odds(self) -> Floats:
        """The log-odds of r, [types]."""
        return np.asarray(
            logit(np.concatenate([KNOWLEDGE, *([KNOWLEDGE, [0.5]] if self.copying else []), HABITS[:, 0]]))
        )

    @property
    def copy(self) -> Floats:
        """c, [types]."""
        copy = np.zeros(len(self.frequency))
        if self.copying:
            copy[self.copiers], copy[self.copiers.stop] = self.copying, LEADER
        return copy

    @property
    def own(self) -> Floats:
        """1 − c − s, [types]."""
        own = 1 - self.copy
        own[HABITUAL] -= HABITS[:, 1]
        return own


class Shares(NamedTuple):
    """For each label, [labels], the probability of each way to give it, by the other labels of its annotator."""

    right: Floats
    """The true label, whatever it is."""
    error: Floats
    """An error."""
    habit: Floats
    """A habit that is this label."""
    copy: Floats
    """The apparent answer, whatever it is."""


class Support(NamedTuple):
    """For each label, [labels], what the prediction and the other labels of its example say."""

    true: Floats
    """Probability that this label is true."""
    error: Floats
    """Probability that an error gives this label."""
    apparent: Floats
    """Probability that this label is the apparent answer."""


def start_population(copying: float) -> Population:
    """Return a population in which most annotators are right more often than not, and most copy if any does."""
    of_r, of_habits = (softmax(-((logit(r) - MEAN) ** 2) / (2 * DEVIATION**2)) for r in (KNOWLEDGE, HABITS[:, 0]))
    parts = [0.1 * of_r, 0.75 * of_r, [0.05]] if copying else [0.9 * of_r]
    return Population(np.concatenate([*parts, 0.1 * of_habits]), copying)


class Annotators:
    """The annotators of votes, whose types are summed out."""

    def __init__(self, votes: Votes) -> None:
        self.votes = votes
        self.order = np.lexsort((votes.label, votes.annotator))
        self.who, label = votes.annotator[self.order], votes.label[self.order]
        first = (np.diff(self.who, prepend=-1) != 0) | (np.diff(label, prepend=-1) != 0)
        self.pair, self.of_pair = np.cumsum(first) - 1, self.who[first]  # pairs of an annotator and a chosen class
        self.unused = votes.classes - np.bincount(self.of_pair, minlength=votes.annotators)

    def log_prior(self, population: Population) -> Floats:
        """Return the log-frequencies of the types, [annotators, types]; trust in an annotator replaces them."""
        log = np.tile(np.log(np.maximum(population.frequency, TINY)), (self.votes.annotators, 1))
        if len(trusted := find_trusted(self.votes)):
            assert self.votes.trust is not None
            right = STRENGTH * self.votes.trust[trusted, None]
            checked = right * np.log(KNOWLEDGE) + (STRENGTH - right) * np.log1p(-KNOWLEDGE)
            log[trusted] = np.log(TINY)
            log[trusted, PLAIN] = checked - logsumexp(checked, axis=1, keepdims=True)
        return log

    def start(self, population: Population) -> Shares:
        """Return the shares before any label is known."""
        prior, known = np.exp(self.log_prior(population)), expit(population.log_odds)
        habit = prior[:, HABITUAL] @ HABITS[:, 1] / self.votes.classes
        own = population.own
        each = (prior @ (own * known), prior @ (own * (1 - known)), habit, prior @ population.copy)
        return Shares(*(values[self.votes.annotator] for values in each))

    def update(
        self, support: Support, population: Population, offset: Floats | None
    ) -> tuple[Shares, Population, float]:
        """Return the shares given the other labels of each annotator, the new population and the log-evidence.

        `offset` is added to the log-odds of r of each label.
        """
        of_type, of_pair = self.log_prior(population), np.zeros((len(self.of_pair), len(HABITS)))
        chunks = list(split_rows(len(self.order), len(population.frequency)))
        for rows in chunks:
            plain, habit, _ = self._label_probabilities(rows, support, population, offset)
            add_groups(of_type, self.who[rows], np.log(plain))
            add_groups(of_pair, self.pair[rows], np.log(habit / plain[:, HABITUAL]))
        # All classes are equally likely to be the habit. Those that the annotator never chose gain nothing.
        top = np.zeros((self.votes.annotators, len(HABITS)))
        np.maximum.at(top, self.of_pair, of_pair)
        of_pair = np.exp(of_pair - top[self.of_pair])
        total = np.asarray(self.unused[:, None] * np.exp(-top), dtype=np.float64)
        add_groups(total, self.of_pair, of_pair)
        of_pair /= np.maximum(total[self.of_pair], TINY)
        of_type[:, HABITUAL] += np.log(np.maximum(total, TINY) / self.votes.classes) + top
        log_total = logsumexp(of_type, axis=1, keepdims=True)
        posterior = np.exp(of_type - log_total)

        shares, copied = np.empty((4, len(self.order))), 0.0
        for rows in chunks:
            plain, habit, known = self._label_probabilities(rows, support, population, offset)
            weight = posterior[self.who[rows]]
            mine = weight[:, HABITUAL] * of_pair[self.pair[rows]]
            copied += float(
                (weight * population.copy * support.apparent[self.order[rows], None] / plain)[
                    :, population.copiers
                ].sum()
            )
            weight[:, HABITUAL] -= mine
            weight /= plain  # as if this label had not been given
            mine /= habit
            weight[:, HABITUAL] += mine
            scale = 1 / weight.sum(1)
            right = (weight * known) @ population.own
            each = right, weight @ population.own - right, mine @ HABITS[:, 1], weight @ population.copy
            shares[:, self.order[rows]] = scale * np.stack(each)
        return Shares(*shares), self._update_population(posterior, population, copied), float(log_total.sum())

    def _label_probabilities(
        self, rows: slice, support: Support, population: Population, offset: Floats | None
    ) -> tuple[Floats, Floats, Floats]:
        """Return P(label), P(label) of habitual types whose habit it is, and r, [labels, types] each."""
        labels = self.order[rows]
        true, error, apparent = (values[labels, None] for values in support)
        known = expit(population.log_odds + (0.0 if offset is None else offset[labels, None]))
        plain = population.own * (error + known * (true - error)) + population.copy * apparent
        plain = np.maximum(plain, TINY)
        return plain, plain[:, HABITUAL] + HABITS[:, 1], known

    def _update_population(self, posterior: Floats, population: Population, copied: float) -> Population:
        """Return the population given the types of annotators and the expected number of copied labels."""
        others = np.ones(self.votes.annotators, bool)
        others[find_trusted(self.votes)] = False
        frequency = posterior[others].sum(0) + start_population(population.copying).frequency
        copying = 0.0
        if population.copying:
            count = np.bincount(self.votes.annotator, minlength=self.votes.annotators)
            copying = float((copied + 1) / (count @ posterior[:, population.copiers].sum(1) + 2))
        return Population(frequency / frequency.sum(), copying)
