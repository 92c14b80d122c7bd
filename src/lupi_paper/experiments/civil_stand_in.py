"""A stand-in for Civil Comments: real sentences with synthetic labels and attributes.

A label is on where a direction of the sentence's embedding exceeds a threshold; the directions of the labels have a
part in common, as kinds of toxicity do. An attribute is mentioned with a probability that, for half of the attributes,
depends on another direction; its value is the share of readers who see it. Attributes switch labels on, switch labels
off, or do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from lupi_paper.datasets.civil_comments import IDENTITIES, LABELS

Floats = NDArray[np.float64]

KINDS, ATTRIBUTES = len(LABELS), len(IDENTITIES)
RATES = np.array([0.30, 0.20, 0.14, 0.10, 0.07, 0.05, 0.03])
"""Share of the sentences that have each label; those of Civil Comments are too small for a few thousand sentences."""
MENTIONED = np.geomspace(0.05, 0.2, ATTRIBUTES)
"""Probability of each attribute in a sentence of average topic."""
BY_TOPIC = np.arange(ATTRIBUTES) % 2 == 0
"""Attributes whose probability depends on the sentence."""
ADDS, REMOVES = (np.arange(ATTRIBUTES) % 3 == part for part in (0, 1))
"""Attributes that make readers report labels too often, and too rarely; the others do nothing."""
ON_LABELS = np.array([[(kind - j // 3) % KINDS in (0, 1, 3) for kind in range(KINDS)] for j in range(ATTRIBUTES)])
"""[attributes, labels] the three labels that an attribute affects."""
ADDED, REMOVED = np.outer(ADDS, RATES) * ON_LABELS, 0.5 * REMOVES[:, np.newaxis] * ON_LABELS
"""[attributes, labels] probability that an attribute of value 1 switches a label on (its rate) or off (one half)."""
READERS, SEEN, IMAGINED = 10, 0.8, 0.02
"""Number of readers, and the share who see an attribute that is mentioned and one that is not."""
COMPONENTS = 16
"""Principal components of the embedding that labels and topics depend on; few, because there are few sentences."""
TOPIC = 2.0
"""Increase of the log-odds of an attribute by one standard deviation of topic."""


class Drawn(NamedTuple):
    """Labels and attributes of sentences, and the probabilities from which they were drawn."""

    a: Floats
    """[sentences, 24] share of readers who see the attribute."""
    y: Floats
    """[sentences, 7] reported labels."""
    clean: Floats
    """[sentences, 7] labels without noise."""
    given_x: Floats
    """[sentences, 7] p(y | x)."""
    given_both: Floats
    """[sentences, 7] p(y | x, a)."""


@dataclass(frozen=True)
class StandIn:
    """Draw labels and attributes of sentences from their embeddings."""

    severity: Floats
    topic: Floats
    threshold: Floats

    @classmethod
    def fit(cls, x: Floats, generator: np.random.Generator) -> StandIn:
        """Draw directions and fit thresholds to the training sentences."""
        whiten = PCA(min(COMPONENTS, *x.shape), whiten=True, random_state=0).fit(x)
        axes = whiten.components_.T / np.sqrt(whiten.explained_variance_)
        shared, own = generator.normal(size=(axes.shape[1], 1)), generator.normal(size=(axes.shape[1], KINDS))
        severity, topic = axes @ (shared + own), axes @ generator.normal(size=(axes.shape[1], ATTRIBUTES))
        severity, topic = severity / (x @ severity).std(0), topic / (x @ topic).std(0)
        score = x @ severity
        threshold = [np.quantile(score[:, kind], 1 - rate) for kind, rate in enumerate(RATES)]
        return cls(severity, topic, np.array(threshold))

    def draw(self, x: Floats, generator: np.random.Generator) -> Drawn:
        """Draw labels and attributes of sentences."""
        clean = (x @ self.severity > self.threshold).astype(float)
        odds = MENTIONED / (1 - MENTIONED) * np.exp(TOPIC * BY_TOPIC * (x @ self.topic))
        mention = odds / (1 + odds)
        seen = np.where(generator.random(mention.shape) < mention, SEEN, IMAGINED)
        a = generator.binomial(READERS, seen) / READERS
        given_both = report_probability(clean, a)
        # Attributes are independent given x: the mean of a product is the product of the means.
        given_x = report_probability(clean, SEEN * mention + IMAGINED * (1 - mention))
        y = (generator.random(clean.shape) < given_both).astype(float)
        return Drawn(a, y, clean, given_x, given_both)


def report_probability(clean: Floats, a: Floats) -> Floats:
    """Return the probability that labels are reported as on, [sentences, labels], given clean labels and attributes."""
    stays_off, stays_on = (np.prod(1 - a[:, :, np.newaxis] * part, axis=1) for part in (ADDED, REMOVED))
    return np.asarray(np.where(clean > 0, stays_on, 1 - stays_off))
