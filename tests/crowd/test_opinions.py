import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from lupi.crowd import infer
from lupi.crowd.likelihood import label_evidence
from lupi.crowd.opinions import CONCENTRATIONS, compare_with_opinions

PEOPLE, EACH, CLASSES = 12, 4, 3


def draw(seed, *, opinions, examples=300):
    """Draw labels of examples with a true label, or with a share of people who would give each answer."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(CLASSES), examples)
    example = np.arange(examples).repeat(EACH)
    who = np.concatenate([rng.permutation(PEOPLE)[:EACH] for _ in range(examples)])
    if opinions:
        share = np.stack([rng.dirichlet(3 * row + 0.05) for row in p])
    else:
        truth = np.eye(CLASSES)[[rng.choice(CLASSES, p=row) for row in p]]
        reliability = rng.beta(4, 1.5, PEOPLE)
        share = truth
    label = np.array([rng.choice(CLASSES, p=share[i]) for i in example])
    if not opinions:
        label = np.where(rng.random(len(label)) < reliability[who], label, rng.integers(CLASSES, size=len(label)))
    return infer(p[example], label, example=example, annotator=who)


@pytest.mark.parametrize("seed", range(3))
def test_errors_and_opinions_are_told_apart(seed):
    assert compare_with_opinions(draw(seed, opinions=False))[1] > 0
    assert compare_with_opinions(draw(seed, opinions=True))[2] < 0


def test_labels_are_predicted_from_the_others_of_their_example():
    """The same difference, computed label by label."""
    found = draw(0, opinions=False, examples=60)
    v, differences = found.votes, {}
    share = np.bincount(v.label) / len(v.label)
    for prior in (np.exp(found.log_prior), np.broadcast_to(share, found.log_prior.shape)):
        for alpha in CONCENTRATIONS:
            total = 0.0
            for n, (i, y) in enumerate(zip(v.example, v.label, strict=True)):
                others = [m for m in np.flatnonzero(v.example == i) if m != n]
                evidence = label_evidence(v, found.model, np.array(others)).sum(0)
                posterior = softmax(found.log_prior[i] + found.exponent * evidence)
                own = label_evidence(v, found.model, np.array([n]))[0]
                counted = alpha * prior[i, y] + (v.label[others] == y).sum()
                total += logsumexp(np.log(posterior) + own) - np.log(counted / (alpha + len(others)))
            differences[total] = alpha
    assert compare_with_opinions(found)[0] == pytest.approx(min(differences) / len(v.label))


def test_too_few_examples_with_several_labels():
    p = np.full((80, 2), 0.5)
    assert compare_with_opinions(infer(p, np.arange(80) % 2, example=np.arange(80) // 2)) is None
