"""Calibrate predictions and what labels are worth by known true labels.

Annotators may share errors that their labels cannot reveal, as LLM judges do. A few true labels can: on their examples,

    P(z | x, labels) ∝ p(z | x)^t · P(labels | z)^e · exp(b_z),   log t ~ N(0, ½²), log e ~ N(log e₀, 1), b ~ N(0, ½²),

is fitted to the true labels. With none of them, t = 1, e = e₀ and b = 0.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from lupi._internal.arrays import Floats
from lupi.crowd.likelihood import log_softmax, softmax
from lupi.crowd.votes import Integers

SMALLEST = 1e-6
"""Lower bound of predicted probabilities: no prediction makes a class impossible."""
SPREAD = np.array([0.5, 1.0, 0.5])
"""Prior standard deviations of log t, log e and b."""


class Calibration(NamedTuple):
    """What to do to predictions and to the log-probability of labels."""

    power: float
    exponent: float
    bias: Floats

    def apply(self, p: Floats, evidence: Floats | float = 0.0) -> Floats:
        """Return calibrated probabilities, [examples, classes]."""
        return softmax(self.power * np.log(p.clip(SMALLEST)) + self.exponent * evidence + self.bias)


def calibrate(gold: Integers, p: Floats, evidence: Floats | None = None, exponent: float = 1.0) -> Calibration:
    """Fit the calibration to the examples whose true label is known; that of the others is negative.

    `p` are predictions, and `evidence` is the log-probability of the labels given each true label, [examples, classes];
    `exponent` is e₀.
    """
    known = np.flatnonzero(gold >= 0)
    true, log_p = gold[known], np.log(p[known].clip(SMALLEST))
    likelihood = np.zeros_like(log_p) if evidence is None else exponent * evidence[known]
    spread = np.repeat(SPREAD, [1, 1, p.shape[1]])

    def negative_log_posterior(t: Floats) -> tuple[float, Floats]:
        of_p, of_labels = np.exp(t[0]) * log_p, np.exp(t[1]) * likelihood
        found = log_softmax(of_p + of_labels + t[2:])
        slope = np.eye(p.shape[1])[true] - np.exp(found)
        gradient = np.append([(slope * of_p).sum(), (slope * of_labels).sum()], slope.sum(0))
        return float((t**2 / spread**2).sum() / 2 - found[np.arange(len(true)), true].sum()), t / spread**2 - gradient

    t = minimize(negative_log_posterior, np.zeros(len(spread)), jac=True, method="L-BFGS-B").x
    return Calibration(float(np.exp(t[0])), exponent * float(np.exp(t[1])), t[2:])
