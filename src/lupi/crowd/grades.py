"""Infer true grades of a rating scale, and the bias and spread of annotators, without true grades.

Annotators do not confuse any two grades of a rating scale: some are strict, some are lenient, some are noisy. Each has
one of several characters c, and the share π_c of each character is learnt from all annotators, so annotators with few
labels borrow strength from the others:

    true grade      z_i ~ p(·|x_i)
    character       c_j ~ π, with a bias, a spread and a share of habits
    given grade     y_n ~ h_j with probability habit_c: a habit of annotator j, independent of the truth;
                    else with probability ∝ m_y P(z + bias_c + spread_c ε rounds to y),                   ε ~ N(0, 1)

Grades are numbered from 0, and numbers beyond an end of the scale are rounded to it. m is the distribution of all
labels, since people prefer some grades, such as multiples of five.

The sum-product algorithm passes messages between examples and annotators. It leaves out what a label itself has said,
so a label does not vouch for its own author. EM updates π.

References
----------
Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979). Liu, Peng and Ihler, "Variational inference for crowdsourcing" (NIPS 2012), for the sum-product algorithm.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import ndtr

from lupi._internal.arrays import Floats
from lupi.crowd.habits import estimate_habits
from lupi.crowd.likelihood import log_softmax, normalize, softmax, split_rows
from lupi.crowd.tempering import choose_exponent
from lupi.crowd.trusted import STRENGTH, clamp, find_trusted
from lupi.crowd.votes import Integers, Votes

BIASES, SPREADS, HABITS = 11, 7, (0.03, 0.2, 0.6)
"""Number of biases, up to a third of the scale; of spreads, from 0.3 grades to twice the scale; shares of habits."""
SMALLEST = 1e-6
"""Lower bound of the model's probabilities: no prediction makes a grade impossible."""
TINY = 1e-12
"""Lower bound of the probability of a grade that is not a habit."""
ROUNDS = 30
"""Maximum number of rounds of messages."""
CONVERGED = 1e-3
"""Change of the log-likelihood per label at which the rounds end."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GradeInference:
    """Estimates of the true grades, and of the bias and spread of annotators."""

    truth: Floats
    """P(z | all labels, x), [examples, grades]."""
    evidence: Floats
    """Log-probability of the labels of an example given each true grade, [examples, grades]."""
    exponent: float
    """Exponent of the likelihood of the labels in `truth`."""
    log_likelihood: float
    """Log-probability of the labels, each given what the others say about its author."""
    bias: Floats
    """[annotators] the posterior mean of the bias, in grades; positive if an annotator gives higher grades."""
    spread: Floats
    """[annotators] the posterior mean of the spread, in grades."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Characters:
    """The characters that annotators may have."""

    bias: Floats
    spread: Floats
    habit: Floats
    """[characters] the share of habits."""
    table: Floats
    """P(y and not a habit | z, c), [given grade, character, true grade]."""


def infer_grades(votes: Votes, p: ArrayLike, *, exponent: float | None = None) -> GradeInference:
    """Infer true grades and the characters of annotators from votes and one prediction per example, [examples, grades].

    `exponent` is that of the likelihood of the labels in `truth`, by default chosen as by `infer_votes`.
    """
    log_prior = log_softmax(np.log(np.asarray(p, dtype=np.float64).clip(SMALLEST)))
    characters, out_of_habit = make_characters(votes), estimate_habits(votes, np.ones(len(votes.label)))
    habit = out_of_habit[votes.annotator, votes.label]
    trust, before = weigh_trust(votes, characters), -np.inf
    log_share = np.full(len(characters.bias), -np.log(len(characters.bias)))
    own = label_evidence(votes, characters, habit, np.exp(log_share + trust)[votes.annotator], slice(None))
    by_example, by_annotator = group(votes.example, votes.examples), group(votes.annotator, votes.annotators)
    for _ in range(ROUNDS):
        evidence = by_example @ own
        log_likelihood = float(normalize(clamp(votes, log_prior + evidence))[1].sum())
        logits = trust + log_share
        for rows in split_rows(len(habit), len(log_share)):
            logits += by_annotator[:, rows] @ send_messages(votes, characters, habit, log_prior + evidence, own, rows)
        posterior = softmax(logits)
        if log_likelihood - before < CONVERGED * len(habit):
            break
        before, share = log_likelihood, posterior.sum(0) + 1 / len(log_share)
        others = np.empty_like(own)
        for rows in split_rows(len(habit), len(log_share)):
            messages = send_messages(votes, characters, habit, log_prior + evidence, own, rows)
            weights = softmax(logits[votes.annotator[rows]] - messages)
            others[rows] = label_evidence(votes, characters, habit, weights, rows)
        own, log_share = others, np.log(share / share.sum())
    if exponent is None:
        exponent = choose_exponent(votes, log_prior, evidence, own.__getitem__)
    return GradeInference(
        truth=softmax(clamp(votes, log_prior + exponent * evidence)),
        evidence=evidence,
        exponent=exponent,
        log_likelihood=log_likelihood,
        bias=posterior @ characters.bias,
        spread=posterior @ characters.spread,
    )


def make_characters(votes: Votes) -> Characters:
    """Return all combinations of biases, spreads and shares of habits."""
    K, farthest = votes.classes, (votes.classes - 1) / 3
    axes = np.linspace(-farthest, farthest, BIASES), np.geomspace(0.3, 2 * K, SPREADS), np.array(HABITS)
    bias, spread, habit = (values.ravel()[:, None] for values in np.meshgrid(*axes, indexing="ij"))
    grade, edges = np.arange(K), np.append(np.append(-np.inf, np.arange(1, K) - 0.5), np.inf)
    common = np.bincount(votes.label, minlength=K) + 1.0
    table = np.diff(ndtr((edges[:, None, None] - grade - bias) / spread), axis=0) + TINY
    table *= common[:, None, None]
    table *= (1 - habit) / table.sum(0)
    return Characters(bias=bias[:, 0], spread=spread[:, 0], habit=habit[:, 0], table=table)


def weigh_trust(votes: Votes, characters: Characters) -> Floats:
    """Return the log-prior of the characters of each annotator that follows from trust, [annotators, characters].

    Trust t acts as `STRENGTH` checked labels, of which a share t was correct.
    """
    trusted, found = find_trusted(votes), np.zeros((votes.annotators, len(characters.bias)))
    if len(trusted):
        assert votes.trust is not None
        share = (np.bincount(votes.label, minlength=votes.classes) + 1.0) / (len(votes.label) + votes.classes)
        right = np.einsum("zcz,z->c", characters.table, share) + characters.habit * (share**2).sum()
        t = votes.trust[trusted, None]
        found[trusted] = STRENGTH * (t * np.log(right) + (1 - t) * np.log1p(-right))
    return found


def label_evidence(votes: Votes, characters: Characters, habit: Floats, weights: Floats, rows: slice) -> Floats:
    """Return log P(y_n | z) of some labels, [labels, grades], for `weights` of characters, [labels, characters]."""
    p = multiply_by_grade(votes.label[rows], weights, characters.table)
    return np.log(p + (habit[rows] * (weights @ characters.habit))[:, None])


def send_messages(
    votes: Votes, characters: Characters, habit: Floats, joint: Floats, own: Floats, rows: slice
) -> Floats:
    """Return log P(y_n | c, the other labels of the example) of some labels, [labels, characters]."""
    example = votes.example[rows]
    rest = softmax(clamp(votes, joint[example] - own[rows], example))
    p = multiply_by_grade(votes.label[rows], rest, characters.table.transpose(0, 2, 1))
    return np.log(p + habit[rows, None] * characters.habit)


def multiply_by_grade(label: Integers, values: Floats, tables: Floats) -> Floats:
    """Multiply each row of values by the table of its label."""
    found = np.empty((len(label), tables.shape[2]))
    for grade, table in enumerate(tables):
        rows = np.flatnonzero(label == grade)
        found[rows] = values[rows] @ table
    return found


def group(of: Integers, groups: int) -> csr_array:
    """Return the matrix that sums rows by group."""
    return csr_array((np.ones(len(of)), (of, np.arange(len(of)))), shape=(groups, len(of)))
