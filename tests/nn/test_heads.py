import itertools
import math
import warnings

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_softmax, softmax
from scipy.stats import norm
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lupi.estimators.onnx_export import export_network
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.nn import heads, heteroscedastic_head
from lupi.nn.heads import GaussianHead, HeteroscedasticHead, ProbitHead, average_noisy_logits, probit_logits

properties = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 2**32 - 1)
temperatures = st.floats(0.5, 5)
DRAWS = 40_000
ERRORS = 5  # Monte-Carlo standard errors that are allowed
LIKELIHOODS = [Categorical(), Bernoulli()]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def parameters(seed, outputs, factors, rows=1, size=1.0):
    """Random μ, V and d."""
    rng = np.random.default_rng(seed)
    mean = rng.uniform(-2, 2, size=(rows, outputs))
    factor = size * rng.uniform(-1, 1, size=(rows, outputs, factors))
    return mean, factor, size * rng.uniform(0.1, 1, size=(rows, outputs))


def draw_noise(seed, factors, outputs, draws=DRAWS):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(draws, width, generator=generator, dtype=torch.float64) for width in (factors, outputs))


def averaged(likelihood, mean, factor, scale, noise, temperature):
    """Probabilities of `average_noisy_logits` for numpy parameters."""
    tensors = (torch.from_numpy(part) for part in (mean, factor, scale))
    return likelihood.mean(average_noisy_logits(likelihood, *tensors, noise, temperature)).numpy()


def gauss_hermite(function, dimensions, nodes):
    """Mean and standard deviation of a function of that many standard normal numbers, by quadrature."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    points = np.stack(np.meshgrid(*[z] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
    weight = math.prod(np.meshgrid(*[w] * dimensions, indexing="ij")).ravel()
    values = function(points)
    mean = weight @ values
    return mean, np.sqrt(weight @ (values - mean) ** 2)


def assert_within_error(actual, mean, deviation, draws=DRAWS):
    error = deviation / math.sqrt(draws)
    assert np.all(np.abs(actual - mean) <= ERRORS * error + 1e-5), (actual, mean, error)
    assert np.all(error < 0.01)  # or nothing was checked


# ---------------------------------------------------------------- the average, against integration


@properties
@given(seeds, st.integers(0, 3), temperatures)
def test_two_classes_against_quadrature(seed, factors, temperature):
    mean, factor, scale = parameters(seed, 2, factors)
    gap = mean[0, 0] - mean[0, 1]
    s = math.sqrt(((factor[0, 0] - factor[0, 1]) ** 2).sum() + (scale**2).sum())
    p, deviation = gauss_hermite(lambda z: expit((gap + s * z[:, 0]) / temperature), 1, 150)
    actual = averaged(Categorical(), mean, factor, scale, draw_noise(seed % 2**31, factors, 2), temperature)
    assert_within_error(actual[0], np.array([p, 1 - p]), deviation)


@settings(deadline=None, max_examples=8)
@given(seeds, temperatures)
def test_three_classes_with_one_factor_against_quadrature(seed, temperature):
    mean, factor, scale = parameters(seed, 3, 1)
    p, deviation = gauss_hermite(
        lambda z: softmax((mean + z[:, :1] * factor[0, :, 0] + z[:, 1:] * scale) / temperature, axis=1), 4, 20
    )
    actual = averaged(Categorical(), mean, factor, scale, draw_noise(seed % 2**31, 1, 3), temperature)
    assert_within_error(actual[0], p, deviation)


@properties
@given(seeds, temperatures)
def test_labels_with_one_factor_against_quadrature(seed, temperature):
    mean, factor, scale = parameters(seed, 3, 1)
    actual = averaged(Bernoulli(), mean, factor, scale, draw_noise(seed % 2**31, 1, 3), temperature)
    for label in range(3):
        m, v, d = mean[0, label], factor[0, label, 0], scale[0, label]
        p, deviation = gauss_hermite(lambda z: expit((m + v * z[:, 0] + d * z[:, 1]) / temperature), 2, 40)  # noqa: B023
        assert_within_error(actual[0, label], p, deviation)


@properties
@given(seeds, st.integers(0, 3))
def test_at_a_low_temperature_two_classes_agree_with_the_closed_form(seed, factors):
    mean, factor, scale = parameters(seed, 2, factors, size=2)
    s = math.sqrt(((factor[0, 0] - factor[0, 1]) ** 2).sum() + (scale**2).sum())
    mean[0, 0] = mean[0, 1] + s * np.random.default_rng(seed).uniform(-2, 2)
    p = norm.cdf((mean[0, 0] - mean[0, 1]) / s)
    actual = averaged(Categorical(), mean, factor, scale, draw_noise(seed % 2**31, factors, 2), 1e-4)
    assert_within_error(actual[0], np.array([p, 1 - p]), math.sqrt(p * (1 - p)))


@properties
@given(seeds, st.integers(0, 3))
def test_at_a_low_temperature_labels_agree_with_the_probit(seed, factors):
    mean, factor, scale = parameters(seed, 3, factors, rows=2)
    s = np.sqrt((factor**2).sum(-1) + scale**2)
    mean = np.clip(mean, -2 * s, 2 * s)
    p = norm.cdf(mean / s)
    actual = averaged(Bernoulli(), mean, factor, scale, draw_noise(seed % 2**31, factors, 3), 1e-4)
    assert_within_error(actual, p, np.sqrt(p * (1 - p)))
    closed = torch.sigmoid(probit_logits(torch.from_numpy(mean), torch.from_numpy(s)))
    np.testing.assert_allclose(closed, p, atol=1e-6)


@properties
@given(seeds, st.floats(0.5, 1.5))
def test_noise_may_be_drawn_for_every_row(seed, temperature):
    """Noise of shape [n, S, ...] gives each row its own, and is the same function."""
    mean, factor, scale = map(torch.from_numpy, parameters(seed, 3, 2, rows=4))
    generator = torch.Generator().manual_seed(seed % 2**31)
    noise = tuple(torch.randn(4, 5, width, generator=generator, dtype=torch.float64) for width in (2, 3))
    together = average_noisy_logits(Categorical(), mean, factor, scale, noise, temperature)
    for i in range(4):
        row = slice(i, i + 1)
        own = (noise[0][i], noise[1][i])
        alone = average_noisy_logits(Categorical(), mean[row], factor[row], scale[row], own, temperature)
        torch.testing.assert_close(together[row], alone)


# ---------------------------------------------------------------- special cases


@properties
@given(seeds, temperatures)
def test_without_noise_it_is_the_plain_head_with_a_temperature(seed, temperature):
    mean, factor, scale = parameters(seed, 4, 2, rows=3)
    noise = draw_noise(seed % 2**31, 2, 4, draws=100)
    zero = (torch.from_numpy(mean).float(), torch.zeros(factor.shape), torch.zeros(scale.shape))
    noise = tuple(part.float() for part in noise)
    logits = average_noisy_logits(Categorical(), *zero, noise, temperature)
    np.testing.assert_allclose(logits, log_softmax(mean / temperature, axis=1), rtol=1e-5, atol=2e-6)
    logits = average_noisy_logits(Bernoulli(), *zero, noise, temperature)
    np.testing.assert_allclose(logits, mean / temperature, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_without_factors_it_is_the_diagonal_head(likelihood):
    mean, factor, scale = (torch.from_numpy(part).float() for part in parameters(0, 3, 4, rows=5))
    noise = tuple(part.float() for part in draw_noise(0, 4, 3, draws=50))
    diagonal = average_noisy_logits(likelihood, mean, None, scale, noise, 1.5)
    assert torch.equal(average_noisy_logits(likelihood, mean, torch.zeros_like(factor), scale, noise, 1.5), diagonal)
    assert not torch.allclose(average_noisy_logits(likelihood, mean, factor, scale, noise, 1.5), diagonal, atol=1e-2)
    u = (mean[:, None] + scale[:, None] * noise[1]).numpy() / 1.5
    expected = softmax(u, axis=-1) if isinstance(likelihood, Categorical) else expit(u)
    np.testing.assert_allclose(likelihood.mean(diagonal), expected.mean(1), rtol=1e-5)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("training", [True, False])
def test_a_head_without_factors_is_the_head_whose_factors_are_zero(likelihood, training):
    low_rank = HeteroscedasticHead(6, 3, likelihood, factors=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a layer of no outputs would warn
        diagonal = HeteroscedasticHead(6, 3, likelihood, factors=0)
    nn.init.zeros_(low_rank.factor.weight)
    nn.init.zeros_(low_rank.factor.bias)
    state = {name: value for name, value in low_rank.state_dict().items() if not name.startswith("factor")}
    state["evaluation_noise"] = low_rank.evaluation_noise[2:]
    diagonal.load_state_dict(state)
    phi = torch.randn(4, 6)
    if not training:
        assert torch.equal(low_rank.eval()(phi), diagonal.eval()(phi))
        return
    # Fresh noise has another shape: equal in distribution only.
    low_rank.samples = diagonal.samples = DRAWS
    first, second = (likelihood.mean(head(phi)).detach() for head in (low_rank, diagonal))
    assert (first - second).abs().max() < ERRORS * math.sqrt(2 * 0.25 / DRAWS)  # a probability varies by at most 1/4


@properties
@given(seeds, st.floats(0.1, 100), st.sampled_from(LIKELIHOODS))
def test_single_precision_agrees_with_double(seed, size, likelihood):
    """Values and gradients, also where every probability of a label is far below what float32 can average."""
    noise = draw_noise(seed % 2**31, 2, 3, draws=20)
    y = torch.from_numpy(np.random.default_rng(seed).integers(2, size=(4, 3))).double()
    y = y if isinstance(likelihood, Bernoulli) else y.argmax(1)
    losses, gradients = [], []
    for kind in (torch.float64, torch.float32):
        mean, factor, scale = (torch.from_numpy(part).to(kind) for part in parameters(seed, 3, 2, rows=4))
        mean = (size * mean).requires_grad_()
        output = average_noisy_logits(likelihood, mean, factor, scale, tuple(part.to(kind) for part in noise), 1.5)
        loss = likelihood.loss(output, y.to(kind) if y.is_floating_point() else y)
        loss.backward()
        losses.append(loss.item())
        gradients.append(mean.grad)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradients[1].double(), gradients[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("factors", [0, 2])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_head_that_is_confidently_wrong_has_a_gradient(likelihood, factors, autocast):
    head = HeteroscedasticHead(4, 2, likelihood, factors=factors, temperature=1.0)
    for part in (head.mean, head.factor, head.scale):
        if part is not None:
            nn.init.zeros_(part.weight), nn.init.zeros_(part.bias)
    with torch.no_grad():
        head.mean.bias.copy_(torch.tensor([50.0, 0.0]))
    y = torch.tensor([[0.0, 1.0]])
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = likelihood.loss(head(torch.ones(1, 4)), y)
    loss.backward()
    categorical = isinstance(likelihood, Categorical)
    # The noise, of scale log 2, changes the logits by little beside 50.
    assert loss.item() == pytest.approx(50 if categorical else 25, abs=5)
    gradient = head.mean.bias.grad
    assert gradient[0] == pytest.approx(1 if categorical else 0.5, abs=0.01)
    assert gradient[1] == pytest.approx(-1 if categorical else -0.25, abs=0.05)
    torch.testing.assert_close(head.mean.weight.grad, gradient[:, None].expand(2, 4), rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_loss_is_the_log_of_the_average_not_the_average_of_logs(likelihood):
    mean, factor, scale = parameters(1, 3, 2, rows=6, size=3)
    noise = draw_noise(1, 2, 3, draws=200)
    u = mean[:, None] + np.einsum("sr,nkr->nsk", noise[0], factor) + scale[:, None] * noise[1].numpy()
    y = np.array([0, 1, 2, 0, 1, 2])
    if isinstance(likelihood, Categorical):
        p = softmax(u / 1.5, axis=-1)[np.arange(6), :, y]
        log_of_average, average_of_logs = -np.log(p.mean(1)), -np.log(p).mean(1)
        target = torch.from_numpy(y)
    else:
        on = np.eye(3)[y]
        p = np.where(on[:, None], expit(u / 1.5), expit(-u / 1.5))
        log_of_average, average_of_logs = -np.log(p.mean(1)).mean(-1), -np.log(p).mean((1, 2))
        target = torch.from_numpy(on)
    output = average_noisy_logits(likelihood, *map(torch.from_numpy, (mean, factor, scale)), noise, 1.5)
    np.testing.assert_allclose(likelihood.loss_per_annotation(output, target), log_of_average, rtol=1e-9)
    assert np.all(average_of_logs > log_of_average + 0.05)


# ---------------------------------------------------------------- the head


def test_the_head_is_its_formula():
    for likelihood, factors in itertools.product(LIKELIHOODS, (0, 1, 3)):
        head = HeteroscedasticHead(5, 4, likelihood, factors=factors, temperature=0.7, evaluation_samples=20)
        phi = torch.randn(6, 5)

        def layer(linear):
            return phi.numpy() @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()  # noqa: B023

        noise = head.evaluation_noise.numpy().T
        d = np.log1p(np.exp(layer(head.scale))) + 1e-3
        u = layer(head.mean)[:, None] + d[:, None] * noise[:, factors:]
        if factors:
            u = u + noise[:, :factors] @ layer(head.factor).reshape(6, 4, factors).transpose(0, 2, 1)
        p = (softmax(u / 0.7, axis=-1) if isinstance(likelihood, Categorical) else expit(u / 0.7)).mean(1)
        expected = np.log(p) if isinstance(likelihood, Categorical) else np.log(p / (1 - p))
        np.testing.assert_allclose(head.eval()(phi).detach(), expected, rtol=1e-4, atol=1e-5)


def test_settings_of_the_paper_by_default():
    head = HeteroscedasticHead(5, 3, Categorical())
    assert (head.factors, head.temperature, head.samples) == (4, 3.0, 100)
    assert head.evaluation_noise.shape == (4 + 3, 1000)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("factors", [0, 3])
def test_evaluation_in_blocks_is_evaluation_at_once(likelihood, factors, monkeypatch):
    head = HeteroscedasticHead(5, 4, likelihood, factors=factors, evaluation_samples=20).eval()
    features = torch.randn(7, 5)
    expected = head(features)
    blocks = []
    average = heads.average_noisy_logits
    monkeypatch.setattr(heads, "average_noisy_logits", lambda *args: blocks.append(len(args[1])) or average(*args))
    monkeypatch.setattr(heads, "MAX_NOISY_LOGITS", 3 * head.evaluation_noise.numel())
    torch.testing.assert_close(head(features), expected)
    assert blocks == [3, 3, 1]


def test_memory_of_a_head_with_many_outputs_is_bounded():
    head = HeteroscedasticHead(2, 5000, Categorical())
    assert (head.samples, head.evaluation_noise.shape) == (20, (5004, 200))
    largest = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            largest.extend(part.numel() for part in tree_leaves(result) if isinstance(part, torch.Tensor))
            return result

    with torch.no_grad(), Watch():
        output = head.eval()(torch.randn(9, 2))
    assert output.shape == (9, 5000)
    assert max(largest) <= heads.MAX_NOISY_LOGITS < 9 * head.evaluation_noise.numel()


@pytest.mark.parametrize("training", [True, False])
def test_the_noise_of_a_head_is_standard_normal(training):
    head = HeteroscedasticHead(1, 2, Categorical(), factors=1, samples=DRAWS, evaluation_samples=DRAWS)
    mean, factor, scale = [1.0, -0.5], [2.0, -1.0], [1.5, 0.8]
    with torch.no_grad():
        for layer, value in ((head.mean, mean), (head.factor, factor), (head.scale, np.log(np.expm1(scale)))):
            layer.weight.zero_()
            layer.bias.copy_(torch.as_tensor(value))
    p = Categorical().mean(head.train(training)(torch.zeros(3, 1))).detach().numpy()
    s = math.sqrt(3.0**2 + (1.5 + 1e-3) ** 2 + (0.8 + 1e-3) ** 2)
    expected, deviation = gauss_hermite(lambda z: expit((1.5 + s * z[:, 0]) / 3.0), 1, 150)
    assert_within_error(p[:, 0], expected, deviation)
    assert (len(set(p[:, 0].tolist())) == 3) == training  # every row draws its own in training


def test_each_class_draws_its_own_noise():
    noise = HeteroscedasticHead(2, 5, Categorical(), factors=3, evaluation_samples=DRAWS).evaluation_noise.numpy()
    assert noise.shape == (8, DRAWS)
    assert np.abs(np.corrcoef(noise) - np.eye(8)).max() < ERRORS / math.sqrt(DRAWS)
    # With one ε for all classes and equal d, softmax would not change at all.
    head = HeteroscedasticHead(2, 5, Categorical(), factors=0, samples=1)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    p = Categorical().mean(head(torch.zeros(100, 2)))
    assert p.std() > 0.02


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_evaluation_repeats_itself_and_training_does_not(likelihood):
    phi = torch.randn(4, 6).repeat(2, 1)
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        head = HeteroscedasticHead(6, 3, likelihood).eval()
        torch.rand(5)  # the state of the generator does not matter any more
        outputs += [head(phi), head(phi)]
    for output in outputs:
        assert torch.equal(output, outputs[0])
    torch.testing.assert_close(outputs[0][:4], outputs[0][4:])  # nor does the place in the batch
    head.train()
    first, second = head(phi), head(phi)
    assert not torch.allclose(first, second)
    assert not torch.allclose(first[:4], first[4:])
    torch.manual_seed(4)
    assert not torch.equal(HeteroscedasticHead(6, 3, likelihood).evaluation_noise, head.evaluation_noise)


def test_a_stored_head_predicts_the_same():
    head, other = (HeteroscedasticHead(6, 3, Categorical()).eval() for _ in range(2))
    phi = torch.randn(4, 6)
    assert not torch.allclose(head(phi), other(phi))
    other.load_state_dict(head.state_dict())
    assert torch.equal(head(phi), other(phi))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_every_parameter_learns(likelihood):
    head = HeteroscedasticHead(6, 3, likelihood)
    likelihood.loss(head(torch.randn(4, 6)), torch.eye(3)[[0, 1, 2, 2]]).backward()
    assert len(list(head.parameters())) == 6
    assert all(parameter.grad.abs().sum() > 0 for parameter in head.parameters())


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_mixed_precision(likelihood):
    head = HeteroscedasticHead(6, 3, likelihood).eval()
    phi = torch.randn(4, 6)
    with torch.autocast("cpu", torch.bfloat16):
        output, extreme = head(phi), head(1e4 * phi)
    torch.testing.assert_close(likelihood.mean(output.float()), likelihood.mean(head(phi)), atol=0.01, rtol=0)
    assert extreme.isfinite().all()


# ---------------------------------------------------------------- closed forms


@properties
@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(1e-3, 20)), min_size=1, max_size=20))
def test_probit_is_the_normal_distribution_function(pairs):
    mean, scale = np.array(pairs).T
    logits = probit_logits(torch.from_numpy(mean), torch.from_numpy(scale))
    p = np.clip(norm.cdf(mean / scale), 1e-7, 1 - 1e-7)
    np.testing.assert_allclose(torch.sigmoid(logits), p, rtol=1e-7, atol=1e-12)
    single = torch.sigmoid(probit_logits(torch.from_numpy(mean).float(), torch.from_numpy(scale).float()))
    np.testing.assert_allclose(single, p, atol=1e-5)


def test_probit_head():
    head, phi = ProbitHead(5, 3), torch.randn(6, 5)
    mean, scale = ((phi @ layer.weight.T + layer.bias).detach().numpy() for layer in (head.mean, head.scale))
    expected = norm.cdf(mean / (np.log1p(np.exp(scale)) + 1e-3))
    np.testing.assert_allclose(torch.sigmoid(head(phi)).detach(), expected, rtol=1e-4)


@properties
@given(seeds, st.floats(0.01, 1000))
def test_gaussian_head(seed, size):
    torch.manual_seed(seed)
    head, phi = GaussianHead(5), size * torch.randn(8, 5)
    mean, variance = head(phi).detach().double().numpy().T
    expected, raw = (
        (phi.double() @ layer.weight.T.double() + layer.bias.double()).detach().numpy()[:, 0]
        for layer in (head.mean, head.variance)
    )
    np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-5 * size)
    np.testing.assert_allclose(variance, np.logaddexp(0, raw) + 1e-3, rtol=1e-4, atol=1e-5 * size)
    assert np.all(variance >= 0.999e-3)


def test_gaussian_variance_is_positive_wherever():
    head = GaussianHead(1)
    nn.init.ones_(head.variance.weight)
    nn.init.zeros_(head.variance.bias)
    variance = head(torch.tensor([[-1e4], [-100.0], [0.0], [1e4]]))[:, 1]
    assert variance.tolist() == pytest.approx([1e-3, 1e-3, math.log(2) + 1e-3, 1e4 + 1e-3])


@pytest.mark.parametrize(
    ("likelihood", "factors", "kind"),
    [
        (Gaussian(), 4, GaussianHead),
        (Gaussian(), 0, GaussianHead),
        (Bernoulli(), 0, ProbitHead),
        (Bernoulli(), 2, HeteroscedasticHead),
        (Categorical(), 0, HeteroscedasticHead),
        (Categorical(), 15, HeteroscedasticHead),
    ],
)
def test_the_head_of_a_likelihood(likelihood, factors, kind):
    head = heteroscedastic_head(5, 3, likelihood, factors=factors, temperature=1.5, samples=7)
    assert type(head) is kind
    assert head(torch.randn(4, 5)).shape == (4, 2 if kind is GaussianHead else 3)
    if kind is HeteroscedasticHead:
        assert (head.factors, head.temperature, head.samples) == (factors, 1.5, 7)
        assert head.likelihood == likelihood


# ---------------------------------------------------------------- export


def random_operators(program):
    return [
        str(node.target)
        for node in program.graph.nodes
        if node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    ]


def export(module, rows=4):
    return torch.export.export(module, (torch.randn(rows, 5),), dynamic_shapes=({0: torch.export.Dim("batch")},))


@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, Gaussian()], ids=lambda likelihood: type(likelihood).__name__)
@pytest.mark.parametrize("factors", [0, 4])
def test_export_is_repeatable_and_takes_any_batch(likelihood, factors):
    head = heteroscedastic_head(5, 3, likelihood, factors=factors).eval()
    program = export(head)
    assert random_operators(program) == []
    module = program.module()
    for rows in (2, 4, 9):
        phi = torch.randn(rows, 5)
        torch.testing.assert_close(module(phi), head(phi))


@pytest.mark.skipif(torch.__version__ < "2.7", reason="torch 2.6 exports no noise in blocks")
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_an_onnx_file_agrees_wherever(likelihood):
    """Also where the log of a sigmoid would be the log of zero."""
    head = HeteroscedasticHead(5, 3, likelihood, evaluation_samples=20).eval()
    content = export_network(head, torch.randn(4, 5)).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for size in (1.0, 1e2, 1e4):
        phi = size * torch.randn(20, 5)
        np.testing.assert_allclose(
            session.run(None, {"x": phi.numpy()})[0], head(phi).detach(), rtol=1e-4, atol=1e-5 * size
        )


def test_a_random_operator_would_be_seen():
    assert random_operators(export(HeteroscedasticHead(5, 3, Categorical()).train())) == ["aten.randn.default"]


def test_probit_has_a_gradient_where_evaluation_clips():
    """A prediction that is wrong by far still has a gradient; elsewhere evaluation agrees with training."""
    head = ProbitHead(1, 1)
    with torch.no_grad():
        head.mean.weight.fill_(1.0), head.mean.bias.zero_()
        head.scale.weight.zero_(), head.scale.bias.fill_(math.log(math.expm1(1 - 1e-3)))
    features = torch.tensor([[-8.0], [-2.0], [0.0], [3.0]])
    loss = Bernoulli().loss(head(features[:1]), torch.ones(1, 1))
    loss.backward()
    assert loss.item() == pytest.approx(-norm.logcdf(-8.0), rel=1e-4)
    assert head.mean.bias.grad.item() < -7
    torch.testing.assert_close(head(features[1:]), head.eval()(features[1:]), atol=1e-3, rtol=1e-3)
