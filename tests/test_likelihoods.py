import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.special import expit, log_expit, log_softmax, softmax
from scipy.stats import norm
from sklearn.metrics import log_loss

from lupi.likelihoods import MIN_MOMENT, Bernoulli, Categorical, Gaussian

properties = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)
weights = st.floats(0, 1)


def normal(rng, *shape):
    """Numbers that are no logits of a probability below `MIN_MOMENT`."""
    return torch.from_numpy(np.clip(3 * rng.normal(size=shape), -7, 7))


def gaussian_output(rng, rows):
    """Means and variances."""
    return torch.from_numpy(np.stack([3 * rng.normal(size=rows), rng.uniform(0.05, 4, size=rows)], axis=1))


def close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- losses


@properties
@given(seeds, st.integers(1, 20), st.integers(2, 6))
def test_categorical_loss(seed, rows, classes):
    rng = np.random.default_rng(seed)
    output, y = normal(rng, rows, classes), rng.integers(classes, size=rows)
    each = Categorical().loss_per_annotation(output, torch.from_numpy(y))
    close(each, -log_softmax(output.numpy(), axis=1)[np.arange(rows), y])
    probabilities = softmax(output.numpy(), axis=1)
    close(each.mean(), log_loss(y, probabilities, labels=range(classes)), 1e-6)


@properties
@given(seeds, st.integers(1, 20), st.integers(1, 6))
def test_bernoulli_loss_is_averaged_over_the_labels(seed, rows, labels):
    rng = np.random.default_rng(seed)
    output, y = normal(rng, rows, labels), rng.integers(2, size=(rows, labels))
    each = Bernoulli().loss_per_annotation(output, torch.from_numpy(y).double())
    logits = output.numpy()
    close(
        each,
        np.mean([np.where(y[:, k], -log_expit(logits[:, k]), -log_expit(-logits[:, k])) for k in range(labels)], 0),
    )
    per_label = [log_loss(y[:, k], expit(logits[:, k]), labels=[0, 1]) for k in range(labels)]
    close(each.mean(), np.mean(per_label), 1e-6)


@properties
@given(seeds, st.integers(1, 20))
def test_gaussian_loss(seed, rows):
    rng = np.random.default_rng(seed)
    output, y = gaussian_output(rng, rows), normal(rng, rows)
    mean, variance = output.numpy().T
    close(Gaussian().loss_per_annotation(output, y), -norm.logpdf(y, mean, np.sqrt(variance)))
    close(Gaussian().loss_per_annotation(output[:, :1], y), -norm.logpdf(y, mean, 1))


def cases(rng, rows=7):
    """Of every likelihood: an output, labels, and the means that another model predicts, all of one batch."""
    probabilities = torch.from_numpy(rng.dirichlet(np.ones(4), size=rows))
    labels = torch.from_numpy(rng.integers(4, size=rows))
    several = torch.from_numpy(rng.integers(2, size=(rows, 3))).double()
    return [
        (Categorical(), normal(rng, rows, 4), labels, probabilities),
        (Bernoulli(), normal(rng, rows, 3), several, torch.from_numpy(rng.uniform(size=(rows, 3)))),
        (Gaussian(), normal(rng, rows, 1), normal(rng, rows), normal(rng, rows)),
        (Gaussian(), gaussian_output(rng, rows), normal(rng, rows), normal(rng, rows)),
    ]


@properties
@given(seeds)
def test_loss_is_the_mean_over_annotations(seed):
    for likelihood, output, y, _ in cases(np.random.default_rng(seed)):
        each = likelihood.loss_per_annotation(output, y)
        assert each.shape == (7,)
        close(likelihood.loss(output, y), sum(each.tolist()) / 7)


def test_losses_of_sure_outputs_are_finite():
    assert Categorical().loss_per_annotation(torch.tensor([[500.0, -500.0]]), torch.tensor([1])).tolist() == [1000]
    assert Bernoulli().loss_per_annotation(torch.tensor([[500.0]]), torch.tensor([[0.0]])).tolist() == [500]


# ---------------------------------------------------------------- soft targets


@properties
@given(seeds, weights)
def test_loss_of_a_soft_target_is_the_distillation_loss(seed, weight):
    """λ·CE(p) + (1−λ)·CE(y), written out, is the loss at the target λp + (1−λ)y."""
    rng = np.random.default_rng(seed)
    for likelihood, output, y, soft in cases(rng)[:2]:
        hard = likelihood.target(y, output.shape[1]).double()
        logits = output.numpy()
        if isinstance(likelihood, Categorical):
            log_p = log_softmax(logits, axis=1)
            of_soft, of_hard = (-(target * log_p).sum(1) for target in (soft.numpy(), np.eye(4)[y]))
        else:
            of_soft, of_hard = (
                -(target * log_expit(logits) + (1 - target) * log_expit(-logits)).mean(1)
                for target in (soft.numpy(), y.numpy())
            )
        close(
            likelihood.loss_per_annotation(output, weight * soft + (1 - weight) * hard),
            weight * of_soft + (1 - weight) * of_hard,
        )


@properties
@given(seeds, weights)
def test_the_gaussian_one_is_so_up_to_a_constant_of_the_output(seed, weight):
    rng = np.random.default_rng(seed)
    y, soft = normal(rng, 7), normal(rng, 7)
    target = weight * soft + (1 - weight) * y
    differences = []
    for _ in range(2):
        output = normal(rng, 7, 1)
        mixed = -weight * norm.logpdf(soft, output[:, 0]) - (1 - weight) * norm.logpdf(y, output[:, 0])
        differences.append(mixed - Gaussian().loss_per_annotation(output, target).numpy())
    close(differences[0], differences[1])
    constant = weight * (1 - weight) * (soft - y).square().numpy() / 2
    close(differences[0], constant)
    # With a variance of its own it is not: the constant is divided by that variance.
    output = gaussian_output(rng, 7)
    mean, variance = output.numpy().T
    mixed = -weight * norm.logpdf(soft, mean, variance**0.5) - (1 - weight) * norm.logpdf(y, mean, variance**0.5)
    close(mixed - Gaussian().loss_per_annotation(output, target).numpy(), constant / variance)


@given(seeds)
def test_labels_in_the_form_of_the_mean(seed):
    for likelihood, output, y, _ in cases(np.random.default_rng(seed))[:3]:
        target, mean = likelihood.target(y, output.shape[1]), likelihood.mean(output)
        assert target.shape == mean.shape
        close(likelihood.loss_per_annotation(output, target.double()), likelihood.loss_per_annotation(output, y))
    assert Categorical().target(torch.tensor([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]


# ---------------------------------------------------------------- means


@properties
@given(seeds, st.floats(0.25, 8))
def test_mean_with_a_temperature(seed, temperature):
    rng = np.random.default_rng(seed)
    output = normal(rng, 2, 5, 4)
    close(Categorical().mean(output, temperature), softmax(output.numpy() / temperature, axis=-1))
    close(Bernoulli().mean(output, temperature), expit(output.numpy() / temperature))
    close(Categorical().mean(output), softmax(output.numpy(), axis=-1))
    close(Bernoulli().mean(output), expit(output.numpy()))
    numbers = gaussian_output(rng, 5)
    assert Gaussian().mean(numbers, temperature).tolist() == numbers[:, 0].tolist()
    assert Gaussian().mean(numbers[:, :1], temperature).tolist() == numbers[:, 0].tolist()


# ---------------------------------------------------------------- mixtures


def mixture(likelihood, output, weight):
    """Output of the mixture of outputs[0] and outputs[1]."""
    moments = likelihood.moments(output)
    return likelihood.from_moments(weight * moments[0] + (1 - weight) * moments[1])


@properties
@given(seeds, weights)
def test_mixture_of_two_classifiers_has_the_mixed_probabilities(seed, weight):
    output = normal(np.random.default_rng(seed), 2, 5, 4)
    for likelihood, probabilities in (
        (Categorical(), softmax(output.numpy(), axis=-1)),
        (Bernoulli(), expit(output.numpy())),
    ):
        expected = weight * probabilities[0] + (1 - weight) * probabilities[1]
        close(likelihood.mean(mixture(likelihood, output, weight)), expected, 1e-6)  # clipped at 1e-7


@properties
@given(seeds, weights)
def test_mixture_of_two_gaussians_has_the_moments_of_the_mixed_density(seed, weight):
    output = gaussian_output(np.random.default_rng(seed), 2)
    (m1, v1), (m2, v2) = output.tolist()
    y = np.linspace(min(m1, m2) - 25, max(m1, m2) + 25, 20_001)
    density = weight * norm.pdf(y, m1, math.sqrt(v1)) + (1 - weight) * norm.pdf(y, m2, math.sqrt(v2))
    mean = trapezoid(y * density, y)
    close(mixture(Gaussian(), output, weight), [mean, trapezoid((y - mean) ** 2 * density, y)], 1e-7)
    close(mixture(Gaussian(), output[:, :1], weight), [mean], 1e-7)


@properties
@given(seeds, st.integers(1, 9))
def test_variance_of_a_mixture_is_the_mean_variance_plus_the_variance_of_the_means(seed, components):
    rng = np.random.default_rng(seed)
    output = gaussian_output(rng, components)
    share = rng.dirichlet(np.ones(components))
    mean, variance = output.numpy().T
    mixed = Gaussian().from_moments(torch.from_numpy(share) @ Gaussian().moments(output))
    expected = np.average(variance, weights=share) + np.cov(mean, aweights=share, ddof=0)
    close(mixed, [np.average(mean, weights=share), expected])


@properties
@given(seeds)
def test_a_mixture_of_one_is_itself(seed):
    for likelihood, output, _, _ in cases(np.random.default_rng(seed)):
        result = likelihood.from_moments(likelihood.moments(output))
        if isinstance(likelihood, Categorical):  # logits are free up to a constant
            result, output = torch.log_softmax(result, -1), torch.log_softmax(output, -1)
        close(result, output, 1e-8)


@properties
@given(seeds, weights)
def test_log_probabilities_mix_to_the_mixed_moments(seed, weight):
    output = normal(np.random.default_rng(seed), 2, 5, 4)
    log_weight = torch.tensor([weight, 1 - weight], dtype=torch.float64).log()
    for likelihood in (Categorical(), Bernoulli()):
        log_p = likelihood.log_probabilities(output)
        log_p = log_p + log_weight.view(2, *[1] * (log_p.ndim - 1))
        mixed = likelihood.from_log_probabilities(torch.logsumexp(log_p, 0))
        close(likelihood.mean(mixed), likelihood.mean(mixture(likelihood, output, weight)), 1e-6)


@properties
@given(seeds, st.floats(0.1, 300))
def test_log_probabilities_are_those_of_double_precision_wherever(seed, size):
    output = size * torch.from_numpy(np.random.default_rng(seed).normal(size=(5, 4, 3)))
    for kind, tolerance in ((torch.float64, 3e-9), (torch.float32, 1e-5), (torch.bfloat16, 1e-5)):
        rounded = output.to(kind)
        exact = rounded.double().numpy()
        close(Categorical().log_probabilities(rounded, 1), log_softmax(exact, axis=1), tolerance * (1 + size))
        labels = Bernoulli().log_probabilities(rounded)
        close(labels, np.stack([log_expit(-exact), log_expit(exact)], -1), tolerance * (1 + size))
        close(Bernoulli().from_log_probabilities(labels), exact, tolerance * (1 + size))


def test_moments_at_the_edge_are_clipped():
    assert Categorical().from_moments(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([math.log(MIN_MOMENT), 0])
    logit = math.log(MIN_MOMENT / (1 - MIN_MOMENT))
    edge = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert Bernoulli().from_moments(edge).tolist() == pytest.approx([logit, -logit])
    assert Gaussian().from_moments(torch.tensor([3.0, 9.0])).tolist() == pytest.approx([3, MIN_MOMENT])
    assert MIN_MOMENT == 1e-7
