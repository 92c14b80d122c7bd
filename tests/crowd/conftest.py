import numpy as np
import pytest

from lupi.crowd import Votes


@pytest.fixture(scope="session")
def simulate():
    return _simulate


@pytest.fixture(scope="session")
def draw_votes():
    return _draw_votes


def _simulate(seed, *, examples=200, people=12, classes=3, per_example=4, a=6.0, b=2.0, sharp=1.5):
    """Draw data from the model itself: true labels from p, accuracies from Beta(a, b), errors uniform."""
    rng = np.random.default_rng(seed)
    logits = sharp * rng.normal(size=(examples, classes))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    truth = (p.cumsum(1) > rng.random((examples, 1))).argmax(1)
    theta = rng.beta(a, b, people)
    example = np.arange(examples).repeat(per_example)
    annotator = np.concatenate([rng.choice(people, per_example, replace=False) for _ in range(examples)])
    right = rng.random(len(example)) < theta[annotator]
    other = (truth[example] + rng.integers(1, classes, len(example))) % classes
    label = np.where(right, truth[example], other)
    return p[example], label, example, annotator, truth, theta


def _draw_votes(seed, *, examples=3, people=2, classes=3, labels=5, sort=False):
    """Draw a few votes, a log-prior of the truth and confusions at random."""
    rng = np.random.default_rng(seed)
    example = rng.integers(0, examples, labels)
    votes = Votes(
        example=np.sort(example) if sort else example,
        annotator=rng.integers(0, people, labels),
        label=rng.integers(0, classes, labels),
        examples=examples,
        annotators=people,
        classes=classes,
    )
    confusion = rng.dirichlet(np.ones(classes), (people, classes))
    return votes, np.log(rng.dirichlet(np.ones(classes), examples)), confusion
