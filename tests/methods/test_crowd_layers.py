"""Crowd layers, against matrices and losses that numpy computes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from lupi import PrivilegedClassifier, load, testing
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical
from lupi.methods import NoPI, build
from lupi.methods.crowd_layers import SMALLEST_EIGENVALUE, mix_annotations
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit

NAMES = ["crowd-layer", "geo-crowd-net", "annot-mix"]
LIKELIHOODS = [Categorical(), Bernoulli()]


def prepare(name, likelihood=Categorical(), data=None, **options):
    """Make a method in evaluation mode, with matrices that differ, and the batch of its stage."""
    method = testing.make_method(partial(build, name, **options), likelihood).eval()
    torch.manual_seed(1)
    for part in (getattr(method, "layer", None), getattr(method, "transition", None)):
        if part is not None:
            nn.init.normal_(part.weight)
    data = testing.make_data(likelihood) if data is None else data
    (stage,) = method.stages(data)
    return method, stage.prepare(data).by_annotation(torch.arange(len(data)))


def softmax(logits, axis):
    shifted = np.exp(logits - logits.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def find_matrices(method, classes=3):
    """Return the matrix of weights of each annotator, in numpy."""
    layer = method.layer
    return (layer.weight.T + layer.bias).detach().numpy().reshape(-1, classes, classes)


def predict(method, batch):
    with torch.no_grad():
        return torch.softmax(method.predictor()(batch.x), -1).double().numpy()[batch.row]


def test_crowd_layer_is_the_softmax_of_a_matrix_times_probabilities():
    method, batch = prepare("crowd-layer")
    weights, who = find_matrices(method), testing.make_data(Categorical()).annotator
    q = np.stack([softmax(weights[r] @ p, 0) for r, p in zip(who, predict(method, batch), strict=True)])
    expected = -np.log(q[np.arange(len(q)), batch.y]).mean()
    assert float(method(batch).detach()) == pytest.approx(expected, rel=1e-5)


def test_geo_crowd_net_is_a_stochastic_matrix_times_probabilities_and_a_log_determinant():
    method, batch = prepare("geo-crowd-net", penalty=0.2)
    weights, who, p = find_matrices(method), testing.make_data(Categorical()).annotator, predict(method, batch)
    q = np.stack([softmax(weights[r], 0) @ own for r, own in zip(who, p, strict=True)])
    with torch.no_grad():
        losses = method.losses(batch)
    assert float(losses["conditional"]) == pytest.approx(-np.log(q[np.arange(len(q)), batch.y]).mean(), rel=1e-5)
    sign, log_determinant = np.linalg.slogdet(p.T @ p / len(p) + SMALLEST_EIGENVALUE * np.eye(3))
    assert sign == 1
    assert float(losses["volume"]) == pytest.approx(-0.2 * log_determinant, rel=1e-4)


def test_the_volume_is_largest_for_certain_and_balanced_predictions():
    method, _ = prepare("geo-crowd-net")
    certain = torch.eye(3).repeat(4, 1).clamp_min(1e-9).log()
    assert float(method.measure_volume(certain, None)) == pytest.approx(3 * np.log(3), rel=1e-4)
    constant = torch.full((12, 3), 1 / 3).log()
    assert float(method.measure_volume(constant, None)) == pytest.approx(
        np.log(3) - 2 * np.log(SMALLEST_EIGENVALUE), rel=1e-3
    )


@pytest.mark.parametrize("classes", [3, 40])
def test_the_volume_has_a_finite_gradient_with_fewer_labels_than_classes(classes):
    method, _ = prepare("geo-crowd-net")
    log_p = torch.log_softmax(torch.randn(2, classes), -1).requires_grad_()
    method.measure_volume(log_p, None).backward()
    assert bool(log_p.grad.isfinite().all())


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_perfect_annotators_give_no_pi(likelihood):
    method, batch = prepare("geo-crowd-net", likelihood)
    plain = NoPI(method.trunk, method.marginal, likelihood=likelihood)
    with torch.no_grad():
        method.layer.weight.zero_()
        method.layer.bias.mul_(100)
        torch.testing.assert_close(method.losses(batch)["conditional"], plain(batch))
    method, batch = prepare("annot-mix", likelihood)
    with torch.no_grad():
        method.transition.weight.zero_()
        method.transition.bias.mul_(200)
        torch.testing.assert_close(method(batch), NoPI(method.trunk, method.marginal, likelihood=likelihood)(batch))


@pytest.mark.parametrize("name", NAMES)
def test_annotators_may_be_numbered_in_any_order(name):
    data = testing.make_data(Categorical())
    method, batch = prepare(name, data=data)
    order = torch.tensor([2, 0, 3, 1])
    (stage,) = method.stages(data)
    renamed = stage.prepare(replace(data, annotator=order[data.annotator])).by_annotation(torch.arange(len(data)))
    with torch.no_grad():
        before = method(batch)
        weight = method.layer.weight if hasattr(method, "layer") else method.tower.first.weight
        assert not torch.allclose(method(renamed), before)
        weight.copy_(weight.index_select(1, torch.argsort(order)))
        torch.testing.assert_close(method(renamed), before)


def test_the_mixed_loss_is_that_of_mixed_inputs_annotators_and_labels():
    method, batch = prepare("annot-mix")
    weight = torch.rand(len(batch.row)) + 0.5
    torch.manual_seed(3)
    mixed = method.train().losses(batch._replace(weight=weight))["conditional"]
    torch.manual_seed(3)
    share, key = torch.rand(2, len(batch.row)).double().numpy()
    other = np.argsort(key)
    x, a = batch.x[batch.row].numpy(), batch.a.numpy()
    x, a = ((1 - share)[:, None] * own + share[:, None] * own[other] for own in (x, a))
    with torch.no_grad():
        features = method.trunk(torch.from_numpy(x).float())
        p = torch.softmax(method.marginal(features), -1).numpy()
        logits = method.transition(method.tower(features, torch.from_numpy(a).float())).numpy()
    q = np.einsum("nyk,nk->ny", softmax(logits.reshape(-1, 3, 3), 1), p)
    target = np.eye(3)[batch.y] * weight.numpy()[:, None]
    target = (1 - share)[:, None] * target + share[:, None] * target[other]
    assert mixed.item() == pytest.approx(-(target * np.log(q)).sum(1).mean(), rel=1e-5)
    assert sorted(other) == list(range(len(other)))


def test_the_annotator_model_does_not_train_the_trunk():
    method, batch = prepare("annot-mix")
    features = method.trunk(batch.x)[batch.row].requires_grad_()
    log_p = torch.log_softmax(torch.randn(len(batch.row), 3), -1)
    assert torch.autograd.grad(
        method.annotator_output(features, log_p, batch.a).sum(), features, allow_unused=True
    ) == (None,)


def test_pixels_stay_pixels_and_tokens_cannot_be_mixed():
    _, batch = prepare("annot-mix")
    share, other = torch.full((len(batch.row),), 0.25), torch.arange(len(batch.row)).roll(1)
    pixels = torch.randint(255, batch.x.shape, dtype=torch.uint8)
    mixed = mix_annotations(batch._replace(x=pixels), share, other).x
    exact = pixels[batch.row].numpy().astype(float)
    np.testing.assert_array_equal(mixed, np.round(0.75 * exact + 0.25 * np.roll(exact, 1, 0)))
    assert mixed.dtype == torch.uint8
    with pytest.raises(ValueError, match=r"x .*'annot-mix'.*int64"):
        mix_annotations(batch._replace(x=pixels.long()), share, other)


@pytest.mark.parametrize("name", NAMES)
def test_true_labels_have_no_annotator(name):
    data = testing.make_data(Categorical())
    gold = torch.full((testing.EXAMPLES,), -1)
    gold[:6] = 1
    known = replace(data, gold=gold).with_gold()
    _, batch = prepare(name, data=known)
    assert torch.equal(batch.a.sum(1) == 0, data.row < 6)
    _, batch = prepare(name, data=replace(data, annotator=None))
    assert torch.equal(batch.a, torch.tensor([[1.0, 0, 0, 0]]).expand(len(data), -1))
    method = testing.make_method(partial(build, name), Categorical())
    (stage,) = method.stages(data)
    assert not stage.prepare(replace(data, annotator=None)).a.value.any()  # held-out labels of nobody who is known


@pytest.mark.parametrize("name", NAMES[:2])
def test_replicas_train_as_alone(name):
    data = [testing.make_data(Categorical(), seed) for seed in range(2)]
    alone, together = (
        [testing.make_method(partial(build, name), Categorical(), seed) for seed in range(2)] for _ in range(2)
    )
    settings = Settings(epochs=3, batch_size=8)
    for seed, (method, own) in enumerate(zip(alone, data, strict=True)):
        fit(method, own, settings, seed=seed)
    fit(Replicas(together), StackedAnnotations(data), settings, seed=range(2))
    for one, other in zip(alone, together, strict=True):
        for key, value in one.state_dict().items():
            torch.testing.assert_close(other.state_dict()[key], value, rtol=1e-3, atol=1e-5)


def test_replicas_mix_annotations_each_by_its_own_draws():
    data = testing.make_data(Categorical())
    replicas = Replicas([testing.make_method(partial(build, "annot-mix"), Categorical()) for _ in range(2)])
    history = fit(replicas, StackedAnnotations([data] * 2), Settings(epochs=3), seed=[0, 0])
    first, second = history[0]["train_conditional"]
    assert first != second


@pytest.mark.parametrize("name", NAMES)
def test_spammers_are_found(name):
    """Three of five annotators label two classes at random; the others are right."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=generator)
    true = (x[:, 0] > 0).long()
    who = torch.randint(5, (400, 3), generator=generator)
    y = torch.where(who < 3, torch.randint(2, who.shape, generator=generator), true[:, None])
    row = torch.arange(400).repeat_interleave(3)
    data = Annotations(x, row, torch.ones(1200, 1), y.flatten(), who.flatten())
    parts = replace(
        testing.make_parts(Categorical()), trunk=lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU()), outputs=2
    )
    losses = {}
    torch.manual_seed(0)
    for method in (build(name, replace(parts, annotators=5)), build("no-pi", parts)):
        fit(method, data, Settings(epochs=30, batch_size=32, learning_rate=3e-3))
        with torch.no_grad():
            losses[method.name] = float(nn.functional.cross_entropy(method.predictor()(x), true))
    assert losses[name] < 0.9 * losses["no-pi"]


@pytest.mark.parametrize("name", NAMES)
def test_estimators_count_the_annotators_and_save_them(name, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.normal(size=60), "annotator": rng.choice(["a", "b", "c"], 60), "y": rng.choice(2, 60)}
    )
    model = PrivilegedClassifier(name, epochs=2, random_state=0)
    model.fit(table[["x"]], table["y"], privileged=table[["annotator"]])
    assert model.method_.annotators == 3
    for privileged in (True, False):
        model.save(tmp_path / str(privileged), privileged=privileged)
        restored = load(tmp_path / str(privileged))
        np.testing.assert_allclose(restored.predict_proba(table[["x"]]), model.predict_proba(table[["x"]]))
