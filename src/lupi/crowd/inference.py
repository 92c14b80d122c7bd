"""Infer true labels and annotators' confusions, without true labels.

Dawid and Skene (1979) jointly estimate the true labels and how each annotator confuses them. Here the prior of an
example's true label is a model's out-of-fold prediction, as in Raykar et al. (2010), so that one label per example is
enough, and a common prior lets annotators with few labels borrow strength from the others:

    true label      z_i ~ softmax(β log p(·|x_i) + c)
    given label     y_ij | z_i = k ~ Categorical(π_j[k])
    annotator       π_j[k] ~ Dirichlet(s m_j[k]),   m_j[k] = θ_j e_k + (1 − θ_j) C[k],   θ_j ~ Beta(a, b)

EM estimates z and π. Around it, β, c, s, a, b, the common errors C and the θ_j are estimated by maximum likelihood with
weak priors (empirical Bayes).

References
----------
Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979). Raykar et al., "Learning from crowds" (JMLR 2010).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from lupi.crowd import posterior
from lupi.crowd.pool import Pool, accuracy_log_likelihood, fit_pool
from lupi.crowd.votes import Floats, Votes, number_ids

SMALLEST = 1e-6
"""Lower bound of the model's probabilities: no prediction makes a label impossible."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Inference:
    """What the labels and the model's predictions say about true labels and annotators."""

    votes: Votes
    """The labels."""
    names: NDArray[Any]
    """Ids of the annotators, in the order of their numbers."""
    p: Floats
    """The model's predictions, [examples, classes]."""
    log_prior: Floats
    """Log of the recalibrated predictions."""
    truth: Floats
    """P(z | all labels, x), [examples, classes]."""
    confusion: Floats
    """π, [annotators, true label, given label]."""
    pool: Pool
    """What annotators have in common."""
    beta: float
    """β of the recalibration."""

    @property
    def others(self) -> Floats:
        """P(z | the other labels of the example, x), [labels, classes]."""
        return posterior.leave_one_out(self.truth, self.confusion, self.votes)

    @property
    def wrong(self) -> Floats:
        """P(the label is wrong | all labels, x), for each label.

        With a single annotator, whose errors nobody else could reveal, a label is no evidence for itself.
        """
        v = self.votes
        truth = self.truth[v.example] if v.annotators > 1 else self.others
        return np.asarray(1 - truth[np.arange(len(v.label)), v.label])


def infer(p: ArrayLike, label: ArrayLike, *, example: ArrayLike | None = None, annotator: Any = None) -> Inference:
    """Infer true labels and annotators' confusions from labels and a model's predictions.

    Parameters
    ----------
    p : array, [labels, classes]
        For each label, the prediction for its example by a model that was not trained on that example.
    label : array of int
        The given labels, as columns of `p`.
    example : array, optional
        Ids of examples; by default each label belongs to an example of its own.
    annotator : array, optional
        Ids of annotators, where a missing id is an annotator too; by default all labels are by one annotator.

    Returns
    -------
    Inference
        Posteriors of the true labels and the annotators' confusions.

    Examples
    --------
    Ann and Bob agree with the model; Cem does not.

    >>> p = np.tile([[0.8, 0.2], [0.2, 0.8]], (20, 1)).repeat(3, axis=0)
    >>> given = np.tile([0, 0, 1, 1, 1, 0], 20)
    >>> found = infer(p, given, example=np.arange(40).repeat(3), annotator=["Ann", "Bob", "Cem"] * 40)
    >>> found.names.tolist(), found.wrong[:3].round(2).tolist()
    (['Ann', 'Bob', 'Cem'], [0.0, 0.0, 1.0])
    """
    p = np.asarray(p, dtype=np.float64)
    label = np.asarray(label)
    if p.ndim != 2 or p.shape[1] < 2 or not (np.isfinite(p).all() and (p >= 0).all()):
        raise ValueError(f"Expected `p` to be probabilities of at least two classes, but got shape {list(p.shape)}.")
    if label.shape != p.shape[:1] or label.dtype.kind not in "iu" or not len(label):
        raise ValueError(
            f"Expected `label` to be {len(p)} integers, but got {label.dtype} of shape {list(label.shape)}."
        )
    if label.min() < 0 or label.max() >= p.shape[1]:
        raise ValueError(
            f"Expected `label` to be columns of `p`, 0 to {p.shape[1] - 1}, but got {label.min()} to {label.max()}."
        )
    of_example, ids = number_ids("example", np.arange(len(label)) if example is None else example, len(label))
    whose = np.zeros(len(label), int) if annotator is None else annotator
    of_annotator, names = number_ids("annotator", whose, len(label))
    votes = Votes(
        example=of_example,
        annotator=of_annotator,
        label=label.astype(np.int64),
        examples=len(ids),
        annotators=len(names),
        classes=p.shape[1],
    )
    p = p[np.unique(of_example, return_index=True)[1]]
    log_p = np.log(p.clip(SMALLEST))
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    guess = p.copy()  # the model counts as one more vote
    np.add.at(guess, (votes.example, votes.label), 1)
    log_prior, truth = log_p, guess / guess.sum(1, keepdims=True)
    pool = fit_pool(posterior.expected_counts(truth, votes))
    for _ in range(50):
        before = truth
        confusion, _, _ = run_em(log_prior, pool.pseudo, votes, truth)
        log_prior, beta = recalibrate(log_p, posterior.label_log_likelihood(confusion, votes))
        truth, _ = posterior.compute_posterior(log_prior, confusion, votes)
        if np.abs(truth - before).max() < 1e-3:
            break
        others = posterior.leave_one_out(truth, confusion, votes)
        pool = fit_pool(posterior.expected_counts(truth, votes), accuracy_log_likelihood(others, pool.errors, votes))
    return Inference(
        votes=votes, names=names, p=p, log_prior=log_prior, truth=truth, confusion=confusion, pool=pool, beta=beta
    )


def run_em(
    log_prior: Floats, pseudo: Floats, votes: Votes, truth: Floats, *, tolerance: float = 1e-6
) -> tuple[Floats, Floats, list[float]]:
    """Run Dawid and Skene's EM, and return confusions, truth and the log-posterior after each step."""
    trace: list[float] = []
    for _ in range(500):
        confusion = posterior.expected_counts(truth, votes) + pseudo
        confusion /= confusion.sum(2, keepdims=True)
        truth, evidence = posterior.compute_posterior(log_prior, confusion, votes)
        trace.append(evidence + float((pseudo * np.log(confusion.clip(posterior.TINY))).sum()))
        if len(trace) > 1 and trace[-1] - trace[-2] < tolerance * len(votes.label):
            break
    return confusion, truth, trace


def recalibrate(log_p: Floats, evidence: Floats) -> tuple[Floats, float]:
    """Fit β and c to the labels, and return log softmax(β log p + c) and β.

    The priors are log β ~ N(0, 1) and c ~ N(0, 10); `evidence` is from `label_log_likelihood`.
    """

    def log_softmax(t: Floats) -> Floats:
        logits = np.exp(t[0]) * log_p + t[1:]
        return np.asarray(logits - logsumexp(logits, axis=1, keepdims=True))

    def loss(t: Floats) -> tuple[float, Floats]:
        log = log_softmax(t)
        joint = log + evidence
        rest = np.exp(log) - posterior.normalize_exp(joint)
        slope = np.append((rest * log_p).sum() * np.exp(t[0]) + t[0], rest.sum(0) + t[1:] / 10)
        return float(t[0] ** 2 / 2 + (t[1:] ** 2).sum() / 20 - logsumexp(joint, axis=1).sum()), slope

    best = minimize(loss, np.zeros(log_p.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return log_softmax(best), float(np.exp(best[0]))
