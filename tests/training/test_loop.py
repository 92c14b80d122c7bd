"""Training is checked against loops written by hand, and against itself: interrupted, or in two processes."""

import copy
import dataclasses
import importlib.util
import json
import math
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Bernoulli, Categorical
from lupi.methods import Method, NoPI, Stage, build
from lupi.nn import MLP, Parts
from lupi.training import Checkpoint, Settings, fit, fit_seeds
from lupi.training import loop as training
from lupi.training.replicas import Replicas, StackedAnnotations

SEED = 3


def make_data(examples=11, annotations=23, seed=0, dtype=torch.float32):
    """Ragged: every example has an annotation, some have several; in no order."""
    generator = torch.Generator().manual_seed(seed)
    more = torch.randint(examples, (annotations - examples,), generator=generator)
    row = torch.cat([torch.arange(examples), more])[torch.randperm(annotations, generator=generator)]
    x = torch.randn(examples, 4, generator=generator, dtype=dtype)
    a = torch.randn(annotations, 3, generator=generator, dtype=dtype)
    return Annotations(x, row, a, torch.randint(3, (annotations,), generator=generator))


def make_method(name="tram", seed=1, width=8, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        parts = Parts(lambda: MLP(4, (width,)), width, 3, 3, Categorical(), (6, 5))
        return build(name, parts, **options)


def weights(method):
    return {name: value.clone() for name, value in method.state_dict().items()}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def exactly(message):
    return f"^{re.escape(message)}$"


def shuffled(n, epoch, stage=0, seed=SEED):
    """The order of batches as it is documented: it follows from seed, stage and epoch."""
    entropy = np.random.SeedSequence((seed, stage, epoch)).generate_state(1)
    return torch.randperm(n, generator=torch.Generator().manual_seed(int(entropy[0])))


# By hand ------------------------------------------------------------------------------------------------------------


def tram_losses(tram, data, index):
    """The two losses of TRAM, annotation by annotation, in plain torch."""
    x, a, y = data.x[data.row[index]], data.a[index], data.y[index]
    phi = torch.relu(x @ tram.trunk[0].weight.T + tram.trunk[0].bias)
    hidden = torch.relu(a @ tram.tower.first.weight.T + tram.tower.first.bias)
    psi = torch.relu(torch.cat([hidden, phi], 1) @ tram.tower.second.weight.T + tram.tower.second.bias)
    conditional = psi @ tram.conditional.weight.T + tram.conditional.bias
    marginal = phi.detach() @ tram.marginal.weight.T + tram.marginal.bias
    each = torch.arange(len(y))
    return [-torch.log_softmax(logits, 1)[each, y].mean() for logits in (marginal, conditional)]


def rate_by_hand(how, time):
    rate = 1.0
    if how.warmup > time:
        rate = time / how.warmup
    if how.schedule == "step":
        for milestone in how.milestones:
            rate = rate * how.factor if time >= milestone else rate
    if how.schedule == "cosine" and time > how.warmup:
        rate *= math.cos(math.pi / 2 * (time - how.warmup) / (how.epochs - how.warmup)) ** 2
    return rate


def train_by_hand(tram, data, how):
    """Train TRAM with the textbook's optimizers."""
    parameters = list(tram.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    units = len(data) if how.draw == "annotations" else data.x.shape[0]
    per_epoch, step = math.ceil(units / how.batch_size), 0
    for epoch in range(how.epochs):
        order = shuffled(units, epoch)
        for start in range(0, units, how.batch_size):
            index = order[start : start + how.batch_size]
            if how.draw == "examples":
                index = torch.cat([(data.row == example).nonzero().squeeze(1) for example in index])
            loss = sum(tram_losses(tram, data, index))
            loss = loss + how.l2 * sum((p**2).sum() for n, p in tram.named_parameters() if n.endswith("weight"))
            gradients = torch.autograd.grad(loss, parameters)
            if how.clip is not None:
                norm = torch.cat([g.flatten() for g in gradients]).norm()
                gradients = [g * min(1.0, how.clip / (float(norm) + 1e-6)) for g in gradients]  # as torch does
            rate = how.learning_rate * rate_by_hand(how, epoch + (start // how.batch_size) / per_epoch)
            step += 1
            with torch.no_grad():
                for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                    if how.optimizer == "sgd":
                        m.copy_(how.momentum * m + g)
                        p -= rate * m
                        continue
                    if p.ndim > 1:
                        p -= rate * how.weight_decay * p
                    m.copy_(0.9 * m + 0.1 * g)
                    v.copy_(0.999 * v + 0.001 * g**2)
                    p -= rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + how.eps)
    return tram


BY_HAND = {
    "adam": Settings(learning_rate=0.01),
    "adam-examples": Settings(learning_rate=0.01, draw="examples"),
    "adam-eps": Settings(learning_rate=0.01, eps=0.1),
    "adam-l2": Settings(learning_rate=0.01, l2=0.05),
    "adamw": Settings(optimizer="adamw", learning_rate=0.01, weight_decay=0.3),
    "sgd": Settings(optimizer="sgd", learning_rate=0.1),
    "sgd-l2": Settings(optimizer="sgd", learning_rate=0.1, momentum=0.5, l2=0.05, draw="examples"),
    "sgd-clip": Settings(optimizer="sgd", learning_rate=0.1, clip=0.3),
    "sgd-step": Settings(optimizer="sgd", learning_rate=0.1, schedule="step", milestones=(1, 2.5), factor=0.2),
    "adam-cosine": Settings(learning_rate=0.02, schedule="cosine", warmup=1.5, clip=0.3),
}


@pytest.mark.parametrize("how", BY_HAND.values(), ids=BY_HAND)
def test_fit_is_the_loop_written_by_hand(how):
    how = dataclasses.replace(how, epochs=4, batch_size=5)
    data, tram = make_data(dtype=torch.float64), make_method("tram").double()
    expected = train_by_hand(copy.deepcopy(tram), data, how)
    start = weights(tram)
    fit(tram, data, how, seed=SEED)
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(tram.state_dict()[name], value, rtol=0, atol=1e-9, msg=name)
        if name.endswith("weight"):
            assert not torch.allclose(value, start[name], atol=1e-4)


@pytest.mark.parametrize("how", [Settings(), Settings(optimizer="adamw", weight_decay=0.1), Settings(optimizer="sgd")])
def test_fit_is_torch_bit_for_bit(how):
    how = dataclasses.replace(how, epochs=3, batch_size=7)
    data = make_data(examples=20, annotations=20)
    data = Annotations(data.x, torch.arange(20), data.a, data.y)
    model = nn.Sequential(MLP(4, (8,)), nn.Linear(8, 3))
    method = NoPI(copy.deepcopy(model[0]), copy.deepcopy(model[1]))
    weight = [p for p in model.parameters() if p.ndim == 2]
    bias = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": weight}, {"params": bias, "weight_decay": 0.0}]
    optimizer = {
        "adam": lambda: torch.optim.Adam(groups, 1e-3, eps=1e-7, fused=True),
        "adamw": lambda: torch.optim.AdamW(groups, 1e-3, eps=1e-7, weight_decay=0.1, fused=True),
        "sgd": lambda: torch.optim.SGD(groups, 1e-3, momentum=0.9),
    }[how.optimizer]()
    for epoch in range(3):
        for index in shuffled(20, epoch).split(7):
            optimizer.zero_grad()
            F.cross_entropy(model(data.x[index]), data.y[index]).backward()
            optimizer.step()
    fit(method, data, how, seed=SEED)
    assert_equal(method.predictor().state_dict(), model.state_dict())


def test_eps_is_the_papers_by_default():
    for kind in ("adam", "adamw"):
        optimizer = Settings(optimizer=kind).make_optimizer(make_method())
        assert {group["eps"] for group in optimizer.param_groups} == {1e-7}


def test_frozen_parameters_stay():
    method, data = make_method("no-pi"), make_data()
    method.trunk.requires_grad_(False)
    start = weights(method)
    fit(method, data, Settings(epochs=1, l2=0.1))
    assert_equal(weights(method.trunk), {n[6:]: v for n, v in start.items() if n.startswith("trunk.")})
    assert not torch.equal(method.marginal.weight, start["marginal.weight"])


# Schedules ----------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(["constant", "step", "cosine"]),
    st.integers(1, 50),
    st.floats(0, 0.9),
    st.lists(st.floats(0, 50), max_size=3),
    st.floats(0, 1),
    st.floats(0, 1, exclude_max=True),
)
@settings(deadline=None)
def test_rate(schedule, epochs, warm, milestones, factor, time):
    how = Settings(epochs=epochs, schedule=schedule, milestones=tuple(milestones), factor=factor, warmup=warm * epochs)
    time = time * epochs
    assert how.rate(time) == pytest.approx(rate_by_hand(how, time), rel=1e-9, abs=1e-12)


def test_rate_at_its_ends():
    assert Settings(warmup=2).rate(0.0) == 0.0
    assert Settings(warmup=2).rate(1.0) == 0.5
    assert Settings(epochs=10, schedule="cosine").rate(0.0) == 1.0
    assert Settings(epochs=10, schedule="cosine").rate(5.0) == pytest.approx(0.5)
    assert Settings(epochs=10, schedule="cosine").rate(10.0) == pytest.approx(0.0)
    assert Settings(epochs=2, schedule="cosine", warmup=4).rate(1.0) == 0.25  # ends before it is warm
    step = Settings(schedule="step", milestones=(3,), factor=0.5)
    assert [step.rate(time) for time in (2.99, 3.0)] == [1.0, 0.5]


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_history_has_the_rate_of_the_last_step(optimizer):
    how = Settings(epochs=5, batch_size=6, learning_rate=0.3, optimizer=optimizer, schedule="cosine", warmup=1, l2=0.0)
    history = fit(make_method(), make_data(), how)
    expected = [0.3 * rate_by_hand(how, epoch + 3 / 4) for epoch in range(5)]  # ceil(23 / 6) = 4 steps
    assert [row["learning_rate"] for row in history] == pytest.approx(expected)


# Clipping and precision ---------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e3))
@settings(max_examples=20, deadline=None)
def test_clip_limits_the_step(clip):
    data, method = make_data(), make_method("no-pi")
    start = weights(method)
    loss = F.cross_entropy(method.predictor()(data.x)[data.row], data.y)
    norm = float(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(method.parameters()))]).norm())
    how = Settings(epochs=1, batch_size=99, optimizer="sgd", momentum=0, learning_rate=1, clip=clip)
    fit(method, data, how)
    moved = math.sqrt(sum(float((value - start[name]).square().sum()) for name, value in weights(method).items()))
    assert moved == pytest.approx(min(norm, clip), rel=1e-3)


def test_bfloat16_is_mixed_precision():
    data = make_data()
    full, mixed = make_method(), make_method()
    seen = set()
    mixed.trunk[0].register_forward_hook(lambda _, __, output: seen.add(output.dtype))
    how = Settings(epochs=20, learning_rate=0.01, batch_size=8)
    expected = fit(full, data, how)
    history = fit(mixed, data, dataclasses.replace(how, precision="bfloat16"), validation=data)
    assert seen == {torch.bfloat16}
    assert {value.dtype for value in mixed.parameters()} == {torch.float32}
    for name in ("train_marginal", "train_conditional"):
        assert history[-1][name] < 0.9 * history[0][name]
        assert history[-1][name] == pytest.approx(expected[-1][name], abs=0.02)
    assert not torch.equal(mixed.trunk[0].weight, full.trunk[0].weight)


@pytest.mark.parametrize(("name", "options"), [("pi-transition", {}), ("het-tram", {"factors": 0}), ("het-tram", {})])
def test_bfloat16_stays_finite_where_probabilities_are_near_1(name, options):
    data = make_data()
    y = nn.functional.one_hot(data.y, 3).float()
    parts = Parts(lambda: MLP(4, (8,)), 8, 3, 3, Bernoulli(), (6, 5))
    method = build(name, parts, **options)
    history = fit(method, data.with_targets(y), Settings(epochs=60, learning_rate=0.1, precision="bfloat16"))
    assert all(math.isfinite(value) for value in history[-1].values() if isinstance(value, float))
    assert bool(method.predictor()(data.inputs(data.row)).isfinite().all())


def test_a_training_that_diverges_says_so():
    message = r"^Expected the marginal loss to be finite, but it is \S+ in epoch \d+ of stage 'train': a lower "
    with pytest.raises(FloatingPointError, match=message):
        fit(make_method("no-pi"), make_data(), Settings(epochs=50, learning_rate=1e30, optimizer="sgd"))


def test_a_student_stops_early_by_the_labels():
    data, held_out = make_data(), make_data(seed=1)
    method = make_method("generalized-distillation", weight=1.0)
    history = fit(method, data, Settings(epochs=2), validation=held_out)
    output = method.predictor()(held_out.inputs(held_out.row)).detach()
    assert history[-1]["validation_marginal"] == pytest.approx(Categorical().loss(output, held_out.y).item(), rel=1e-5)


def test_history_is_not_of_low_precision():
    """The penalty is a bfloat16 number, three hundred of which do not add up in bfloat16."""
    data, method = make_data(200, 600), make_method("heteroscedastic-dropout")
    penalty = -0.1 * F.logsigmoid(method.scale(data.a)).mean()
    history = fit(method, data, Settings(epochs=1, batch_size=2, learning_rate=0, precision="bfloat16"))
    assert history[0]["train_penalty"] == pytest.approx(penalty.item(), rel=5e-3)


# What is drawn ------------------------------------------------------------------------------------------------------


class Recorder(Method):
    """Writes down its batches; the gradient of its one weight is 1."""

    gradients = {"only": ("weight",)}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.batches = []

    def losses(self, batch):
        self.batches.append(batch)
        return {"only": self.weight.sum()}

    def predictor(self):
        return nn.Identity()


def numbered(counts):
    """Annotations whose x, a and y are the numbers of their example and of themselves."""
    row = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    row = row[torch.randperm(len(row), generator=torch.Generator().manual_seed(0))]
    number = torch.arange(len(row))
    return Annotations(torch.arange(len(counts)).float()[:, None], row, number.float()[:, None], number)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=10).filter(any),
    st.integers(1, 8),
    st.sampled_from(["annotations", "examples"]),
    st.integers(0, 2**40),
)
@settings(max_examples=40, deadline=None)
def test_every_annotation_once_per_epoch(counts, size, draw, seed):
    data, method = numbered(counts), Recorder()
    fit(method, data, Settings(epochs=2, batch_size=size, draw=draw), seed=seed)
    units = len(data) if draw == "annotations" else sum(count > 0 for count in counts)
    per_epoch = math.ceil(units / size)
    assert len(method.batches) == 2 * per_epoch
    for epoch in (method.batches[:per_epoch], method.batches[per_epoch:]):
        assert sorted(torch.cat([batch.y for batch in epoch]).tolist()) == list(range(len(data)))
        for number, batch in enumerate(epoch):
            examples = batch.x[:, 0].long()
            held = len(batch.y) if draw == "annotations" else len(examples)
            assert held == (size if number < per_epoch - 1 else units - size * (per_epoch - 1))
            assert len(examples.unique()) == len(examples), "the trunk sees an example once"
            assert torch.equal(examples[batch.row], data.row[batch.y])
            assert torch.equal(batch.a[:, 0].long(), batch.y)
            if draw == "examples":
                assert len(batch.y) == sum(counts[example] for example in examples.tolist())


def orders(seed):
    data, method = numbered([1] * 40), Recorder()
    fit(method, data, Settings(epochs=3, batch_size=40), seed=seed)
    return [batch.y.tolist() for batch in method.batches]


def test_order_follows_from_seed_and_epoch():
    first, other = orders(5), orders(6)
    assert first == orders(5)
    assert first == [shuffled(40, epoch, seed=5).tolist() for epoch in range(3)]
    assert len({tuple(order) for order in first + other}) == 6


def test_order_follows_from_stage():
    class Twice(Recorder):
        def stages(self, data):  # noqa: ARG002
            yield Stage("one", self)
            yield Stage("two", self, lambda data: data.with_targets(-data.y))

    data, method = numbered([1] * 40), Twice()
    history = fit(method, data, Settings(epochs=2, batch_size=40), seed=SEED)
    expected = [shuffled(40, epoch, stage) for stage in range(2) for epoch in range(2)]
    assert [batch.y.abs().tolist() for batch in method.batches] == [order.tolist() for order in expected]
    assert [bool((batch.y <= 0).all()) for batch in method.batches] == [False, False, True, True]
    assert [(row["stage"], row["epoch"]) for row in history] == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]


# Early stopping -----------------------------------------------------------------------------------------------------


class Scripted(Method):
    """In training its weight falls by the learning rate at each step; held out, its losses follow a script."""

    gradients = {"marginal": ("weight",)}  # noqa: RUF012

    def __init__(self, script):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.script, self.epoch = script, 0

    def losses(self, batch):  # noqa: ARG002
        if self.training:
            return {name: self.weight.sum() / len(self.script) for name in self.script}
        self.epoch += 1
        return {name: torch.tensor(values[self.epoch - 1]) for name, values in self.script.items()}

    def predictor(self):
        return nn.Identity()


def stop_by_hand(watched, patience):
    """Where training stops, and the epoch whose weights it keeps."""
    best = None
    for epoch, loss in enumerate(watched):
        if not math.isnan(loss) and (best is None or loss < watched[best]):
            best = epoch
        if epoch - (-1 if best is None else best) >= patience:
            break
    return epoch, epoch if best is None else best


@given(
    st.lists(st.tuples(*[st.sampled_from([0.25, 0.5, 1.0, 2.0, math.nan])] * 2), min_size=1, max_size=12),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_early_stopping_keeps_the_best_weights(losses, patience, has_marginal):
    first, second = (list(values) for values in zip(*losses, strict=True))
    method = Scripted({"penalty": second, "marginal" if has_marginal else "conditional": first})
    watched = first if has_marginal else [a + b for a, b in losses]
    last, best = stop_by_hand(watched, patience)
    data = numbered([1] * 6)
    how = Settings(epochs=len(losses), batch_size=3, optimizer="sgd", momentum=0, learning_rate=0.5, patience=patience)
    history = fit(method, data, how, validation=data)
    assert len(history) == last + 1
    seen = [row["validation_marginal" if has_marginal else "validation_conditional"] for row in history]
    assert seen == pytest.approx(first[: last + 1], nan_ok=True)
    assert method.weight.item() == -0.5 * 2 * (best + 1)  # two steps in an epoch


def learnable(data):
    """Labels that follow from x, one in three of them wrong."""
    clean = (data.x @ torch.linspace(-1, 1, 12).reshape(3, 4).T.sin()).argmax(1)[data.row]
    return data.with_targets(torch.where(torch.arange(len(data)) % 3 == 0, data.y, clean))


def test_early_stopping_of_a_network():
    """The weights of the best epoch, those of a run that ends there."""
    data, held_out = (learnable(make_data(60, 90, seed)) for seed in (0, 7))
    how = Settings(epochs=60, learning_rate=0.05, batch_size=8, patience=3)
    method = make_method()
    history = fit(method, data, how, validation=held_out, seed=SEED)
    losses = [row["validation_marginal"] for row in history]
    best = int(np.argmin(losses))
    assert 0 < best == len(history) - 4 < 56
    shorter = make_method()
    fit(shorter, data, dataclasses.replace(how, epochs=best + 1, patience=None), seed=SEED)
    assert_equal(weights(method), weights(shorter))
    loss = F.cross_entropy(method.predictor()(held_out.x)[held_out.row], held_out.y)
    assert loss.item() == pytest.approx(losses[best], rel=1e-5)


def test_early_stopping_in_every_stage():
    data, held_out = (learnable(make_data(60, 90, seed)) for seed in (0, 7))
    how = Settings(epochs=60, learning_rate=0.02, batch_size=8, patience=2)
    history = fit(make_method("two-step-tram"), data, how, validation=held_out)
    for stage, name in (("transfer", "validation_conditional"), ("marginalize", "validation_marginal")):
        losses = [row[name] for row in history if row["stage"] == stage]
        assert 0 < int(np.argmin(losses)) == len(losses) - 3 < 57


def test_validation_alone_only_adds_to_the_history():
    data, held_out = make_data(), make_data(examples=1100, annotations=1500, seed=7)  # more than one part
    alone, watched = make_method("heteroscedastic-dropout"), make_method("heteroscedastic-dropout")
    how = Settings(epochs=3, learning_rate=0.05, batch_size=8)
    plain, history = fit(alone, data, how), fit(watched, data, how, validation=held_out)
    assert_equal(weights(alone), weights(watched))
    assert [{k: v for k, v in row.items() if not k.startswith("validation_")} for row in history] == plain
    loss = F.cross_entropy(watched.predictor()(held_out.x)[held_out.row], held_out.y)
    penalty = -0.1 * F.logsigmoid(watched.scale(held_out.a)).mean()
    assert history[-1]["validation_marginal"] == pytest.approx(loss.item(), rel=1e-5)
    assert history[-1]["validation_penalty"] == pytest.approx(penalty.item(), rel=1e-5)


# Stages and history -------------------------------------------------------------------------------------------------


def after_each_stage(method, data, how):
    """Weights after each stage."""
    stages, snapshots = method.stages, []

    def spied(data):
        for stage in stages(data):
            yield stage
            snapshots.append(weights(method))

    method.stages = spied
    fit(method, data, how)
    return snapshots


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("two-step-tram", ("trunk.", "tower.", "conditional.")),
        ("distillation", ("teacher.",)),
        ("generalized-distillation", ("teacher.",)),
        ("distilled-tram", ("teacher.",)),
    ],
)
def test_a_stage_trains_its_own_part(name, first):
    method = make_method(name)
    start = weights(method)
    one, two = after_each_stage(method, make_data(), Settings(epochs=2, learning_rate=0.05, l2=0.01))
    for key, value in weights(method).items():
        is_weight = key.endswith((".weight", ".bias"))
        assert torch.equal(value, two[key])
        assert torch.equal(start[key], one[key]) == (not is_weight or not key.startswith(first)), key
        assert torch.equal(one[key], two[key]) == (not is_weight or key.startswith(first)), key


def test_history_of_both_heads():
    data, tram = make_data(), make_method(beta=1.0)
    expected = [loss.item() for loss in tram_losses(tram, data, torch.arange(len(data)))]
    whole = fit(copy.deepcopy(tram), data, Settings(epochs=2, batch_size=99))
    assert list(whole[0]) == ["stage", "epoch", "learning_rate", "train_marginal", "train_conditional"]
    assert [whole[0]["train_marginal"], whole[0]["train_conditional"]] == pytest.approx(expected, rel=1e-5)
    assert whole[1]["train_conditional"] < whole[0]["train_conditional"]
    for draw in ("annotations", "examples"):  # unequal batches weigh by their annotations
        how = Settings(epochs=2, batch_size=5, learning_rate=0, draw=draw)
        for row in fit(copy.deepcopy(tram), data, how):
            assert [row["train_marginal"], row["train_conditional"]] == pytest.approx(expected, rel=1e-5)


def test_sparse_privileged_information_is_the_same():
    data = make_data()
    sparse = Annotations(data.x, data.row, SparseRows.from_matrix(data.a), data.y)
    one, other = make_method(), make_method()
    assert fit(one, data, Settings(epochs=2)) == fit(other, sparse, Settings(epochs=2))
    assert_equal(weights(one), weights(other))


def test_inputs_from_another_source():
    class Source:
        def __init__(self, x):
            self.x, self.shape = x.numpy(), x.shape

        def __getitem__(self, index):
            return torch.from_numpy(self.x[index.numpy()])

    data = make_data()
    for name in ("tram", "two-step-tram", "distillation"):
        one, other = make_method(name), make_method(name)
        fit(one, data, Settings(epochs=2), validation=data)
        fit(other, dataclasses.replace(data, x=Source(data.x)), Settings(epochs=2), validation=data)
        assert_equal(weights(one), weights(other))


# Random numbers, modes, errors, progress ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tram", "het-tram", "heteroscedastic-dropout", "distilled-tram"])
def test_fit_is_repeatable_and_leaves_no_trace(name):
    data, results = make_data(), []
    for seed, before in ((0, 11), (0, 12), (1, 13)):
        method = make_method(name)
        torch.manual_seed(before)
        state = torch.get_rng_state()
        history = fit(method, data, Settings(epochs=2, learning_rate=0.01, batch_size=8), seed=seed)
        assert torch.equal(torch.get_rng_state(), state)
        assert not any(part.training for part in method.modules())
        results.append((weights(method), history))
    assert_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert results[0][1] != results[2][1]


def test_noise_follows_from_seed():
    data = make_data().take(torch.zeros(20, dtype=torch.long))  # annotations that are equal: their order cannot matter
    how = Settings(epochs=1)
    losses = [fit(make_method("heteroscedastic-dropout"), data, how, seed=seed)[0]["train_marginal"] for seed in (0, 1)]
    assert abs(losses[0] - losses[1]) > 1e-3


def test_random_state_comes_back_after_an_error():
    class Fails(Recorder):
        def losses(self, batch):  # noqa: ARG002
            raise RuntimeError("no loss")

    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="no loss"):
        fit(Fails(), make_data())
    assert torch.equal(torch.get_rng_state(), state)


def test_what_fit_refuses():
    data = make_data()
    empty = data.take(torch.zeros(0, dtype=torch.long))
    for arguments, message in (
        ({"settings": Settings(patience=2)}, "Expected `validation` where `patience` is given, but got None."),
        ({"data": empty}, "Expected `data` to have annotations, but it is empty."),
        ({"validation": empty}, "Expected `validation` to have annotations, but it is empty."),
        ({"seed": -1}, "Expected `seed` to be an integer of at least 0, but got -1."),
        ({"seed": 0.5}, "Expected `seed` to be an integer of at least 0, but got 0.5."),
    ):
        method = make_method()
        start = weights(method)
        with pytest.raises(ValueError, match=exactly(message)):
            fit(method, **{"data": data, **arguments})
        assert_equal(start, weights(method))


def test_progress(capsys):
    data, how = make_data(), Settings(epochs=3, batch_size=8)
    fit(make_method("distillation"), data, how)
    assert capsys.readouterr() == ("", "")
    history = fit(make_method("distillation"), data, how, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{stage} epoch 3/3 train_marginal {row['train_marginal']:.4f} (9/9)"
        for stage, row in (("teacher", history[2]), ("student", history[5]))
    ]


def test_progress_of_a_training_that_stops_early(capsys):
    data = numbered([1] * 6)
    method = Scripted({"marginal": [1.0, 2.0, 2.0, 0.0]})
    fit(method, data, Settings(epochs=4, batch_size=3, patience=2), validation=data, progress=True)
    line = "train epoch 3/4 train_marginal -0.0045, validation_marginal 2.0000 (6/8)"
    assert capsys.readouterr().err.splitlines() == [line]


# Checkpoints --------------------------------------------------------------------------------------------------------

HOW = Settings(epochs=4, batch_size=8, learning_rate=0.01)
"""On `make_data()`: three steps in each of four epochs."""


@pytest.mark.parametrize("every", [0, -1, 2.5, None, True])
def test_checkpoint_refuses(every):
    with pytest.raises(ValueError, match=f"^Expected `every` to be an integer of at least 1, but got {every!r}.$"):
        Checkpoint("here", every=every)


class InterruptionError(Exception):
    pass


def interrupted(method, data, how, step, **options):
    """Train, and break off before a step."""
    train_step, steps = training.StageLoop.train_step, []

    def counted(*arguments):
        if len(steps) == step:
            raise InterruptionError
        steps.append(arguments)
        train_step(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.StageLoop, "train_step", counted)
        try:
            return fit(method, data, how, **options), len(steps)
        except InterruptionError:
            return None, len(steps)


def test_a_finished_run_is_not_run_again(tmp_path):
    data, checkpoint = make_data(), Checkpoint(tmp_path / "new" / "run.pt")
    for name in ("tram", "two-step-tram", "full-marginalization"):
        method, again = make_method(name), make_method(name, seed=2)
        history = fit(method, data, HOW, checkpoint=checkpoint)
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.pt"]
        assert interrupted(again, data, HOW, None, checkpoint=checkpoint) == (history, 0)
        assert_equal(weights(method), weights(again))
        (tmp_path / "new" / "run.pt").unlink()


def test_a_stage_ends_with_a_checkpoint(tmp_path):
    data, checkpoint = make_data(), Checkpoint(tmp_path / "run.pt")  # every 1000 steps; a stage has 12
    uninterrupted, method = make_method("two-step-tram"), make_method("two-step-tram")
    history = fit(uninterrupted, data, HOW)
    assert interrupted(method, data, HOW, 15, checkpoint=checkpoint) == (None, 15)
    again = make_method("two-step-tram", seed=2)
    assert interrupted(again, data, HOW, None, checkpoint=checkpoint) == (history, 12)
    assert_equal(weights(uninterrupted), weights(again))


@pytest.mark.parametrize("seed", [4, np.int64(4)])
def test_numpy_numbers_survive_a_checkpoint(tmp_path, seed):
    data, checkpoint = make_data(), Checkpoint(tmp_path / "run.pt", every=np.int64(2))
    how = dataclasses.replace(HOW, learning_rate=np.float64(0.01), schedule="cosine", epochs=np.int64(4))
    method, again = make_method(), make_method(seed=2)
    history = fit(method, data, how, seed=seed)
    assert interrupted(make_method(), data, how, 5, seed=seed, checkpoint=checkpoint) == (None, 5)
    assert interrupted(again, data, how, None, seed=seed, checkpoint=checkpoint) == (history, 8)
    assert_equal(weights(method), weights(again))


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint at step 6."""
    path = tmp_path / "run.pt"
    interrupted(make_method(), make_data(), HOW, 7, seed=SEED, checkpoint=Checkpoint(path, every=3))
    return path


def resume(path, method=None, data=None, how=HOW, **options):
    method = make_method() if method is None else method
    fit(method, make_data() if data is None else data, how, checkpoint=Checkpoint(path), **{"seed": SEED, **options})


def changed(part, value):
    return dataclasses.replace(make_data(), **{part: value(getattr(make_data(), part))})


OTHER_RUNS = {
    "seed": {"seed": 4},
    "learning_rate": {"how": dataclasses.replace(HOW, learning_rate=0.02)},
    "epochs": {"how": dataclasses.replace(HOW, epochs=5)},
    "method": {"method": make_method("no-pi")},
    "checksum of the network and its options": {"method": make_method(width=9)},
    "annotations": {"data": make_data(annotations=24)},
    "checksum of the validation": {"validation": make_data()},
}
CHANGES = {
    "x": lambda x: x.index_fill(0, torch.tensor([10]), 0.5),
    "row": lambda row: row.flip(0),
    "a": lambda a: a + 1,
    "y": lambda y: (y + (torch.arange(23) == 22)) % 3,
}


@pytest.mark.parametrize(
    ("name", "options", "others"),
    [
        ("generalized-distillation", {"weight": 0.0}, {"weight": 1.0}),
        ("tram", {"beta": 1.0}, {"beta": 2.0}),
        ("full-marginalization", {"samples": 3}, {"samples": 4}),
    ],
)
def test_the_checkpoint_of_other_options_is_refused(tmp_path, name, options, others):
    checkpoint, data = Checkpoint(tmp_path / "run.pt"), make_data()
    fit(make_method(name, **options), data, HOW, seed=SEED, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="but its `checksum of the network and its options` is "):
        fit(make_method(name, **others), data, HOW, seed=SEED, checkpoint=checkpoint)


def test_the_checkpoint_of_another_activation_is_refused(tmp_path):
    checkpoint, data = Checkpoint(tmp_path / "run.pt"), make_data()
    one, other = (NoPI(MLP(4, (8,), activation=kind), nn.Linear(8, 3)) for kind in (nn.ReLU, nn.Tanh))
    fit(one, data, HOW, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="but its `checksum of the network and its options` is "):
        fit(other, data, HOW, checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("named", "run"),
    [*OTHER_RUNS.items(), *[("checksum of the data", {"data": changed(*change)}) for change in CHANGES.items()]],
)
def test_the_checkpoint_of_another_run_is_refused(checkpoint, named, run):
    method = run.get("method") or make_method()
    start, stored = weights(method), checkpoint.read_bytes()
    begin = re.escape(f"Expected {checkpoint} to be a checkpoint of this run, but its `{named}` is ")
    with pytest.raises(ValueError, match=rf"^{begin}.* and not .*; remove it to start anew\.$"):
        resume(checkpoint, **{**run, "method": method})
    assert_equal(start, weights(method))
    assert checkpoint.read_bytes() == stored


@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_is_no_checkpoint_is_refused(checkpoint, seed):
    stored = checkpoint.read_bytes()
    cut = int(np.random.default_rng(seed).integers(len(stored)))
    noise = np.random.default_rng(seed).bytes(1000)
    for content in (stored[:cut], noise, b"", b"run: 1\n"):
        checkpoint.write_bytes(content)
        message = f"Expected {checkpoint} to be a checkpoint of a training, but it cannot be read."
        with pytest.raises(ValueError, match=exactly(message)):
            resume(checkpoint)
        assert checkpoint.read_bytes() == content


@pytest.mark.parametrize("content", [torch.ones(3), {"weight": torch.ones(3)}, [1, 2], {"run": 3}])
def test_another_file_of_torch_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "run.pt")
    with pytest.raises(ValueError, match=r"run.pt to be a checkpoint of a training, but it cannot be read\.$"):
        resume(tmp_path / "run.pt")


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_runs_no_code(checkpoint, tmp_path):
    trap = tmp_path / "trap"
    pickle.loads(pickle.dumps(Malicious(trap)))
    assert trap.exists()  # the trap works
    trap.rmdir()
    state = torch.load(checkpoint, weights_only=True)
    torch.save({**state, "history": Malicious(trap)}, checkpoint)
    with pytest.raises(ValueError, match="cannot be read"):
        resume(checkpoint)
    checkpoint.write_bytes(pickle.dumps(Malicious(trap), protocol=2))
    with pytest.raises(ValueError, match="cannot be read"):
        resume(checkpoint)
    assert not trap.exists()


def test_a_full_disk_leaves_the_last_checkpoint(checkpoint, monkeypatch):
    def full(state, file):  # noqa: ARG001
        file.write(b"the beginning")
        raise OSError("No space left on device")

    stored = checkpoint.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(OSError, match="No space left"):
            fit(make_method(), make_data(), HOW, seed=SEED, checkpoint=Checkpoint(checkpoint, every=3))
    assert checkpoint.read_bytes() == stored
    expected, method = make_method(), make_method(seed=2)
    fit(expected, make_data(), HOW, seed=SEED)
    resume(checkpoint, method)
    assert_equal(weights(expected), weights(method))
    assert [path.name for path in checkpoint.parent.iterdir()] == ["run.pt"]


# Many seeds ---------------------------------------------------------------------------------------------------------


class Branching(nn.Module):
    """A trunk that looks at the inputs of an epoch's last batch, which vmap cannot take."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, x):
        return self.layer(-x if x.shape[0] < 8 and x.sum() > 0 else x)


def branching(seed):
    torch.manual_seed(seed)
    return NoPI(Branching(), nn.Linear(8, 3))


@pytest.fixture
def fits(monkeypatch):
    """The methods that `fit` trains."""
    seen, plain = [], training.fit

    def spied(method, *arguments, **options):
        seen.append(method)
        return plain(method, *arguments, **options)

    monkeypatch.setattr(training, "fit", spied)
    return seen


def seeds_and_alone(methods, sets, how=HOW, **options):
    """Train seeds, and copies of them alone; then compare all."""
    alone, numbers = copy.deepcopy(methods), range(5, 5 + len(methods))
    histories = fit_seeds(methods, sets, how, seeds=numbers, **options)
    held_out = options.get("validation") or [None] * len(methods)
    for method, other, history, part, held, seed in zip(
        methods, alone, histories, sets, held_out, numbers, strict=True
    ):
        expected = fit(other, part, how, seed=seed, validation=held)
        assert [row["epoch"] for row in history] == [row["epoch"] for row in expected]
        for name in ("train_marginal", "validation_marginal"):
            if name in expected[-1]:
                assert history[-1][name] == pytest.approx(expected[-1][name], rel=1e-4)
        for name, value in weights(other).items():
            torch.testing.assert_close(weights(method)[name], value, rtol=0, atol=1e-4, msg=name)
        for own, value in zip(method.parameters(), other.parameters(), strict=True):
            assert own.requires_grad == value.requires_grad
            assert own.untyped_storage().nbytes() == value.untyped_storage().nbytes()
    return alone


def test_four_seeds_train_together(fits):
    methods, sets = [make_method(seed=seed) for seed in range(4)], [make_data(seed=seed) for seed in range(4)]
    seeds_and_alone(methods, sets, validation=[make_data(seed=9)] * 4)
    assert [type(method) for method in fits] == [Replicas]
    assert list(fits[0].members) == methods


def test_fewer_seeds_train_one_after_the_other(fits):
    methods, sets = [make_method(seed=seed) for seed in range(3)], [make_data(seed=seed) for seed in range(3)]
    seeds_and_alone(methods, sets)
    assert fits == methods


def test_seeds_train_with_those_that_are_alike(fits):
    """By their layers, their options and the number of their annotations."""
    alike = [make_method(seed=seed) for seed in range(4)]
    others = [make_method(beta=0.5, seed=seed) for seed in range(4)]
    wide, small = make_method(width=9), make_method()
    methods = [part for pair in zip(alike, others, strict=True) for part in pair] + [wide, small]
    sets = [make_data(seed=seed) for seed in range(9)] + [make_data(annotations=17)]
    seeds_and_alone(methods, sets)
    assert [list(method.members) for method in fits[:2]] == [alike, others]
    assert fits[2:] == [wide, small]


def test_unlike_privileged_information_does_not_matter_without_it(fits):
    sets = [dataclasses.replace(make_data(seed=seed), a=torch.ones(23, 1 + seed)) for seed in range(4)]
    seeds_and_alone([make_method("no-pi", seed=seed) for seed in range(4)], sets, validation=sets[::-1])
    assert [type(method) for method in fits] == [Replicas]


@pytest.mark.parametrize("case", ["clip", "branching", "ragged"])
def test_seeds_that_cannot_train_together_train_as_if_never_tried(case, fits):
    how, sets = HOW, [make_data(seed=seed) for seed in range(4)]
    methods = [make_method(seed=seed) for seed in range(4)]
    if case == "clip":
        how, reason = dataclasses.replace(HOW, clip=0.1), "Expected `clip` to be None for replicas, whose gradients "
    if case == "branching":
        methods, reason = [branching(seed) for seed in range(4)], "vmap: It looks like you're attempting to use a "
    if case == "ragged":
        how = dataclasses.replace(HOW, draw="examples")
        reason = "Expected the same number of annotations for every example, but got [1, "
    start = copy.deepcopy(methods)
    with pytest.warns(UserWarning, match=f"^4 seeds train one after the other, not together: {re.escape(reason)}"):
        histories = fit_seeds(methods, sets, how, seeds=range(5, 9))
    assert all(part.requires_grad for method in methods for part in method.parameters())
    assert fits[1:] == methods
    for method, alone, history, part, seed in zip(methods, start, histories, sets, range(5, 9), strict=True):
        assert fit(alone, part, how, seed=seed) == history
        assert_equal(weights(method), weights(alone))


def test_a_seed_that_diverges_says_so():
    methods = [make_method("no-pi", seed=seed) for seed in range(4)]
    message = r"^Expected the marginal loss to be finite, but it is \S+ in epoch \d+ of stage 'train' with seed 0: a "
    with pytest.raises(FloatingPointError, match=message):
        fit_seeds(methods, [make_data()] * 4, Settings(learning_rate=1e30, optimizer="sgd"), seeds=[0, 0, 0, 0])


# Compiled -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def graphs(monkeypatch):
    """Trace as for compilation, without the time that it takes; count the graphs."""
    torch.compiler.reset()
    traced = []

    def count(graph, example_inputs):  # noqa: ARG001
        traced.append(graph)
        return graph.forward

    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda losses, **options: plain(losses, backend=count, **options))
    yield traced
    torch.compiler.reset()


def test_code_is_made_once_for_a_batch_shape(graphs):
    """Also where more methods than torch's usual limit train in one process."""
    sets = StackedAnnotations([make_data(seed=seed) for seed in range(2)])
    how = dataclasses.replace(HOW, compile=True, epochs=2)
    for count, width in enumerate((3, 4, 5, 6, 7, 3, 5)):
        members = [make_method("no-pi", seed=seed, width=width) for seed in range(2)]
        alone = copy.deepcopy(members)
        fit(Replicas(members), sets, how, seed=(0, 1))
        assert len(graphs) == 2 * min(count + 1, 5)  # whole batches and the last
        for seed, (member, other) in enumerate(zip(members, alone, strict=True)):
            fit(other, sets.parts[seed], dataclasses.replace(how, compile=False), seed=seed)
            torch.testing.assert_close(weights(member), weights(other), rtol=0, atol=1e-4)


def test_batches_of_many_shapes_do_not_compile_for_each(graphs):
    """With several annotations per example, every batch has another number of examples."""
    data, how = make_data(60, 90), Settings(epochs=2, batch_size=20, learning_rate=0.01, compile=True)
    method, alone = make_method(), make_method()
    fit(method, data, how)
    fit(alone, data, dataclasses.replace(how, compile=False))
    assert 1 <= len(graphs) <= 3
    torch.testing.assert_close(weights(method), weights(alone), rtol=0, atol=1e-4)


@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "cl"))), reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_compiled_replicas_are_as_eager_ones():
    sets = StackedAnnotations([make_data(seed=seed) for seed in range(3)])
    members = [make_method(seed=seed) for seed in range(3)]
    eager = copy.deepcopy(members)
    how = dataclasses.replace(HOW, batch_size=23)
    history = fit(Replicas(members), sets, dataclasses.replace(how, compile=True), seed=range(3))
    expected = fit(Replicas(eager), sets, how, seed=range(3))
    assert history[-1]["train_conditional"] == pytest.approx(expected[-1]["train_conditional"], rel=1e-4)
    for member, other in zip(members, eager, strict=True):
        torch.testing.assert_close(weights(member), weights(other), rtol=0, atol=1e-4)
        assert all(value.requires_grad for value in member.parameters())


# Killed -------------------------------------------------------------------------------------------------------------

KILLED = '''
"""Train in children of this process; kill them at given points, let others go on."""
import json, os, signal, sys
from pathlib import Path

import torch

from lupi.training import loop as training
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.nn import MLP, Parts

torch.set_num_threads(1)
folder = Path(sys.argv[1])
cases = json.loads(sys.argv[2])


def child(case, number, point, name):
    """Train until a kill point, or to the end; say which steps were done."""
    torch.manual_seed(number)  # another start each time: what matters must come from the checkpoint
    generator = torch.Generator().manual_seed(0)
    row = torch.cat([torch.arange(20), torch.randint(20, (20,), generator=generator)])
    x, a = torch.randn(20, 4, generator=generator), torch.randint(3, (40, 3), generator=generator).float()
    data = Annotations(x, row, a, torch.randint(3, (40,), generator=generator))
    held_out = data.with_targets(torch.randint(3, (40,), generator=generator))
    parts = Parts(lambda: MLP(4, (8,)), 8, 3, 3, Categorical(), (6, 5))
    if number == 0 or point is None:
        torch.manual_seed(1)
    method = build(case["method"], parts)
    kind, count = point or (None, None)
    steps = 0
    train_step, replace, save = training.StageLoop.train_step, Path.replace, torch.save

    def counted(*arguments):
        nonlocal steps
        if kind == "step" and steps == count:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        train_step(*arguments)

    def unmoved(self, target):
        nonlocal count
        count -= 1
        if count < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    def torn(state, file):
        nonlocal count
        count -= 1
        save(state, file)
        if count < 0:
            file.truncate(file.tell() // 2)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    training.StageLoop.train_step = counted
    if kind == "unmoved":
        Path.replace = unmoved
    if kind == "torn":
        torch.save = torn
    checkpoint = None if name is None else training.Checkpoint(folder / name, every=case["every"])
    settings = training.Settings(**case["settings"])
    validation = held_out if settings.patience else None
    history = training.fit(method, data, settings, validation=validation, seed=5, checkpoint=checkpoint)
    save({"weights": method.state_dict(), "history": history, "steps": steps}, folder / "result.pt")


def run(case, number, point, name):
    """Run a child; its result, or the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            child(case, number, point, name)
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.WEXITSTATUS(status) == 0, (case, point)
    return torch.load(folder / "result.pt", weights_only=True)


# The first step of an optimizer imports for seconds; here it does so once, and without autograd, which may not fork.
warm = torch.nn.Parameter(torch.ones(2))
warm.grad = torch.ones(2)
torch.optim.Adam([warm], fused=True).step()
report = []
for case in cases:
    whole = run(case, 0, None, None)
    report.append({"method": case["method"], "epochs": len(whole["history"]), "steps": whole["steps"], "kills": []})
    for attempt, points in enumerate(case["kills"]):
        name = f"{case['method']}-{attempt}.pt"
        for number, point in enumerate(points):
            assert run(case, number, point, name) == signal.SIGKILL, (case, point)
        partial = (folder / (name + ".partial")).exists()
        readable = not (folder / name).exists() or "run" in torch.load(folder / name, weights_only=True)
        result = run(case, len(points), None, name)
        same = [torch.equal(value, result["weights"][key]) for key, value in whole["weights"].items()]
        report[-1]["kills"].append({
            "partial": partial,
            "readable": readable,
            "weights": all(same) and len(same) == len(result["weights"]),
            "history": result["history"] == whole["history"],
            "steps": result["steps"],
        })
print(json.dumps(report))
'''

EVERY = 3
STEPS = 20
"""In a stage: four epochs of forty annotations, eight at a time."""


def kill_points(number):
    """One kill at a random step; two of which the second hits the run that went on; two while a file is written."""
    rng = np.random.default_rng(number)
    first, second = (int(step) for step in rng.integers(1, STEPS, 2))
    return [
        [("step", first)],
        [("step", 11), ("step", second % 9 + 1)],
        [("step", 17), ("torn", 0)],
        [("unmoved", 2)],
    ]


def left_over(kills, stages):
    """How many steps the last run has to do, from where checkpoints are: each third step of a stage, and its end."""
    saved = 0
    for kind, count in kills:
        in_stage = saved % STEPS
        if kind == "step":
            reached = saved + count
            saved = max([saved, *(reached // STEPS * STEPS + s for s in range(0, reached % STEPS + 1, EVERY))])
        else:
            saved += {0: 0, 2: 2 * EVERY}[count]
            assert in_stage + 2 * EVERY < STEPS or count == 0
    return stages * STEPS - saved


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_and_resumed_is_not_interrupted(tmp_path):
    stages = {"tram": 1, "tram-plus-plus": 1, "full-marginalization": 1, "het-tram": 1, "distilled-tram": 2}
    plain = {"epochs": 4, "batch_size": 8, "learning_rate": 0.01}
    cases = [
        {"method": name, "every": EVERY, "settings": plain, "kills": kill_points(number)}
        for number, name in enumerate(stages)
    ]
    cases[-1]["kills"].append([("step", 27)])  # in the second stage
    cases[-1]["kills"].append([("step", 13), ("step", 20), ("unmoved", 0)])
    stops = {"epochs": 40, "batch_size": 8, "learning_rate": 0.05, "patience": 3, "schedule": "cosine", "clip": 1.0}
    cases.append({"method": "heteroscedastic-dropout", "every": 7, "settings": stops, "kills": kill_points(9)[:3]})
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, "-W", "error", str(script), str(tmp_path), json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=one_thread())
    assert done.returncode == 0, done.stderr
    for case, result in zip(cases, json.loads(done.stdout), strict=True):
        name = case["method"]
        for kills, after in zip(case["kills"], result["kills"], strict=True):
            assert after["readable"], (name, kills)
            assert after["partial"] == (kills[-1][0] != "step"), (name, kills)
            assert after["weights"], (name, kills)
            assert after["history"], (name, kills)
            if name in stages:
                assert result["steps"] == stages[name] * STEPS
                assert after["steps"] == left_over(kills, stages[name]), (name, kills)
    assert 3 < result["epochs"] < 40, "the last one stops early"
    assert all(after["steps"] < result["steps"] for after in result["kills"])


def one_thread():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


# Two processes ------------------------------------------------------------------------------------------------------

TWO = '''
"""Train everything in two processes and in one."""
import sys
import warnings
from pathlib import Path

warnings.simplefilter("error")
import torch
from lightning.fabric import Fabric
from torch import nn

from lupi.training import loop as training
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import NoPI, build
from lupi.nn import MLP, Parts
from lupi.training import Checkpoint, Settings, fit

torch.set_num_threads(1)
folder = Path(sys.argv[1])
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()

generator = torch.Generator().manual_seed(0)
counts = [1, 3, 1, 4, 2, 1, 1, 5, 2, 1, 2]
row = torch.repeat_interleave(torch.arange(11), torch.tensor(counts))[torch.randperm(23, generator=generator)]
x, a = torch.randn(11, 4, generator=generator), torch.randn(23, 3, generator=generator)
data = Annotations(x, row, a, torch.randint(3, (23,), generator=generator))
held_out = data.with_targets(torch.randint(3, (23,), generator=generator))


def make(name, normed=False):
    torch.manual_seed(1)
    trunk = lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)) if normed else MLP(4, (8,))
    return build(name, Parts(trunk, 8, 3, 3, Categorical(), (6, 5)))


def result(method, history):
    weights = {name: value.clone() for name, value in method.state_dict().items()}
    return {"weights": weights, "history": history}


cases = {
    "annotations": ("tram", Settings(epochs=3, batch_size=11)),  # 11, 11, 1
    "examples": ("tram", Settings(epochs=3, batch_size=5, draw="examples")),  # 5, 5, 1
    "odd": ("tram", Settings(epochs=2, batch_size=9, draw="examples")),  # 9, 2
    "single": ("tram", Settings(epochs=1, batch_size=1, draw="examples", optimizer="sgd", learning_rate=0.01)),
    "clipped": ("tram", Settings(epochs=3, batch_size=6, optimizer="sgd", l2=0.01, clip=0.3, schedule="cosine")),
    "two-step": ("two-step-tram", Settings(epochs=2, batch_size=11, learning_rate=0.01)),
    "distilled": ("distilled-tram", Settings(epochs=2, batch_size=5, draw="examples", learning_rate=0.01)),
    "stopped": ("tram", Settings(epochs=40, batch_size=8, learning_rate=0.05, patience=2)),
}
results = {}
for case, (name, settings) in cases.items():
    two, one = make(name), make(name)
    history = fit(two, data, settings, validation=held_out, seed=3, fabric=fabric)
    results[case] = {"two": result(two, history)}
    results[case]["one"] = result(one, fit(one, data, settings, validation=held_out, seed=3))

# Running means of a normalisation are each process's own; both must stop at the same time nevertheless.
settings = Settings(epochs=30, batch_size=8, learning_rate=0.1, patience=2)
normed = make("no-pi", normed=True)
results["normed"] = result(normed, fit(normed, data, settings, validation=held_out, fabric=fabric))


class Interruption(Exception):
    pass


def broken(method, settings, path, at):
    """Break off before a step, in both processes."""
    train_step, steps = training.StageLoop.train_step, []

    def counted(*arguments):
        if len(steps) == at:
            raise Interruption
        steps.append(arguments)
        train_step(*arguments)

    training.StageLoop.train_step = counted
    try:
        fit(method, data, settings, seed=3, fabric=fabric, checkpoint=Checkpoint(path, every=3))
    except Interruption:
        return
    finally:
        training.StageLoop.train_step = train_step
    raise AssertionError("not interrupted")


# Interrupted in the middle of an epoch, with noise that differs between processes.
settings = Settings(epochs=3, batch_size=5, learning_rate=0.01)
whole, again = make("het-tram"), make("het-tram")
results["noise"] = {"two": result(whole, fit(whole, data, settings, seed=3, fabric=fabric))}
broken(make("het-tram"), settings, folder / "noise.pt", 8)
checkpoint = Checkpoint(folder / "noise.pt", every=100)
history = fit(again, data, settings, seed=3, fabric=fabric, checkpoint=checkpoint)
results["noise"]["resumed"] = result(again, history)

# The same, then on with one process.
whole, again = make("tram"), make("tram")
results["fewer"] = {"two": result(whole, fit(whole, data, settings, seed=3, fabric=fabric))}
broken(make("tram"), settings, folder / "fewer.pt", 8)
if fabric.global_rank == 0:
    results["fewer"]["one"] = result(
        again, fit(again, data, settings, seed=3, checkpoint=Checkpoint(folder / "fewer.pt"))
    )
torch.save(results, folder / f"rank{fabric.global_rank}.pt")
fabric.barrier()
'''


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def assert_close(one, other, tolerance, case):
    assert one["weights"].keys() == other["weights"].keys()
    for name, value in one["weights"].items():
        message = f"{case}: {name}"
        torch.testing.assert_close(other["weights"][name], value, rtol=0, atol=tolerance, msg=message)
    assert len(one["history"]) == len(other["history"]), case
    for row, second in zip(one["history"], other["history"], strict=True):
        assert row.keys() == second.keys(), case
        for name, value in row.items():
            assert second[name] == (value if name in ("stage", "epoch") else pytest.approx(value, abs=tolerance)), case


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs the extra `distributed`")
def test_two_processes_are_one(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(TWO)
    env = {**one_thread(), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    if sys.platform == "linux":
        env["GLOO_SOCKET_IFNAME"] = "lo"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, env=env, timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    first, second = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))

    normed = [results.pop("normed") for results in (first, second)]
    assert normed[0]["history"] == normed[1]["history"]
    assert 3 <= len(normed[0]["history"]) < 30
    means = [results["weights"]["trunk.1.running_mean"] for results in normed]
    assert not torch.equal(*means), "the processes' own, so that the test can fail"

    noise, noise_second = first.pop("noise"), second.pop("noise")
    for results, others in ((noise["two"], noise_second["two"]), (noise["resumed"], noise_second["resumed"])):
        assert_close(results, others, 0, "noise")
    assert_equal(noise["two"]["weights"], noise["resumed"]["weights"])
    assert_close(noise["two"], noise["resumed"], 1e-6, "resumed")

    fewer, _ = first.pop("fewer"), second.pop("fewer")
    assert_close(fewer["two"], fewer["one"], 1e-5, "fewer")

    assert len(first) == 8
    for case, results in first.items():
        assert_close(results["one"], results["two"], 1e-5, case)
        assert_close(results["two"], second[case]["two"], 0, case)
    assert len(first["stopped"]["one"]["history"]) < 40
    assert {row["stage"] for row in first["two-step"]["two"]["history"]} == {"transfer", "marginalize"}


def test_matrix_products_are_rounded_in_training_alone():
    """The setting is the process's, so it must not stay."""
    before = torch.get_float32_matmul_precision()
    seen = []

    class Looks(NoPI):
        def losses(self, batch):
            seen.append(torch.get_float32_matmul_precision())
            return super().losses(batch)

    for precision in ("tfloat32", "float32"):
        fit(Looks(nn.Identity(), nn.Linear(4, 3)), make_data(8, 8), Settings(epochs=1, precision=precision))
    assert seen == ["high", before]
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(("largest", "together"), [(10**6, [4]), (10, [])])
def test_large_networks_train_one_after_the_other_on_a_cpu(monkeypatch, largest, together):
    stacked, usual = [], training.fit_replicas

    def counted(members, *rest):
        stacked.append(len(members))
        return usual(members, *rest)

    monkeypatch.setattr(training, "fit_replicas", counted)
    monkeypatch.setattr(training, "LARGEST", largest)
    methods, data = [make_method(seed=seed) for seed in range(4)], make_data()
    histories = training.fit_seeds(methods, [data] * 4, Settings(epochs=2), seeds=range(4))
    assert stacked == together
    assert [len(history) for history in histories] == [2, 2, 2, 2]
