"""`fit` equals loops written by hand; every annotation is drawn once per epoch; a fit is repeatable."""

import copy
import dataclasses
import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi.data import Annotations, SparseRows
from lupi.methods import Distillation, MeanImputation, NoPI, Stage
from lupi.nn import MLP
from lupi.settings import Settings
from lupi.training import fit, fitting
from tests.training.helpers import (
    SEED,
    Recorder,
    assert_equal,
    make_data,
    make_method,
    make_parts,
    numbered,
    rate_by_hand,
    shuffled,
    tram_losses,
    weights,
)


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
                own = [name.startswith("marginal.") for name, _ in tram.named_parameters()]
                norms = [
                    torch.cat([g.flatten() for g, head in zip(gradients, own, strict=True) if head == kind]).norm()
                    for kind in (False, True)
                ]
                factors = [min(1.0, how.clip / (float(norm) + 1e-6)) for norm in norms]  # as torch does
                gradients = [g * factors[head] for g, head in zip(gradients, own, strict=True)]
            rate = how.learning_rate * rate_by_hand(how, epoch + (start // how.batch_size) / per_epoch)
            step += 1
            with torch.no_grad():
                for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                    if how.optimizer == "sgd":
                        m.copy_(0.9 * m + g)
                        p -= rate * m
                        continue
                    if p.ndim > 1:
                        p -= rate * how.weight_decay * p
                    m.copy_(0.9 * m + 0.1 * g)
                    v.copy_(0.999 * v + 0.001 * g**2)
                    p -= rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-7)
    return tram


BY_HAND = {
    "adam": Settings(learning_rate=0.01),
    "adam-examples": Settings(learning_rate=0.01, draw="examples"),
    "adam-l2": Settings(learning_rate=0.01, l2=0.05),
    "adamw": Settings(optimizer="adamw", learning_rate=0.01, weight_decay=0.3),
    "sgd": Settings(optimizer="sgd", learning_rate=0.1),
    "sgd-l2": Settings(optimizer="sgd", learning_rate=0.1, l2=0.05, draw="examples"),
    "sgd-clip": Settings(optimizer="sgd", learning_rate=0.1, clip=0.3),
    "sgd-step": Settings(optimizer="sgd", learning_rate=0.1, schedule="step", milestones=(1, 2.5)),
    "adam-cosine": Settings(learning_rate=0.02, schedule="cosine", warmup=1.5, clip=0.3),
}


@pytest.mark.parametrize("how", BY_HAND.values(), ids=BY_HAND)
def test_fit_equals_a_loop_written_by_hand(how):
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
def test_fit_equals_plain_torch_bit_for_bit(how):
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


def test_frozen_parameters_stay():
    method, data = make_method("no-pi"), make_data()
    method.trunk.requires_grad_(False)
    start = weights(method)
    fit(method, data, Settings(epochs=1, l2=0.1))
    assert_equal(weights(method.trunk), {n[6:]: v for n, v in start.items() if n.startswith("trunk.")})
    assert not torch.equal(method.marginal.weight, start["marginal.weight"])


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


def test_order_is_determined_by_seed_and_epoch():
    first, other = orders(5), orders(6)
    assert first == orders(5)
    assert first == [shuffled(40, epoch, seed=5).tolist() for epoch in range(3)]
    assert len({tuple(order) for order in first + other}) == 6


def test_order_is_determined_by_stage():
    class Twice(Recorder):
        def stages(self, data):  # noqa: ARG002
            yield Stage("one", self)
            yield Stage("two", self, lambda data: dataclasses.replace(data, y=-data.y))

    data, method = numbered([1] * 40), Twice()
    history = fit(method, data, Settings(epochs=2, batch_size=40), seed=SEED)
    expected = [shuffled(40, epoch, stage) for stage in range(2) for epoch in range(2)]
    assert [batch.y.abs().tolist() for batch in method.batches] == [order.tolist() for order in expected]
    assert [bool((batch.y <= 0).all()) for batch in method.batches] == [False, False, True, True]
    assert [(row["stage"], row["epoch"]) for row in history] == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]


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


def test_sparse_privileged_information_gives_the_same_result():
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


def test_noise_is_determined_by_seed():
    data = make_data().take(torch.zeros(20, dtype=torch.long))  # annotations that are equal: their order cannot matter
    how = Settings(epochs=1)
    losses = [fit(make_method("heteroscedastic-dropout"), data, how, seed=seed)[0]["train_marginal"] for seed in (0, 1)]
    assert abs(losses[0] - losses[1]) > 1e-3


def test_random_state_is_restored_after_an_error():
    class Fails(Recorder):
        def losses(self, batch):  # noqa: ARG002
            raise RuntimeError("no loss")

    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="no loss"):
        fit(Fails(), make_data())
    assert torch.equal(torch.get_rng_state(), state)


EMPTY = make_data().take(torch.zeros(0, dtype=torch.long))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": Settings(patience=2)}, "`validation` .*`patience`"),
        ({"data": EMPTY}, "`data` .*empty"),
        ({"validation": EMPTY}, "`validation` .*empty"),
        ({"seed": -1}, "`seed` .*-1"),
        ({"seed": 0.5}, "`seed` .*0.5"),
        ({"settings": Settings(cuda_graph=True), "fabric": object()}, "`cuda_graph` .*`fabric`"),
    ],
)
def test_invalid_arguments_leave_the_method_untouched(arguments, message):
    method = make_method()
    start = weights(method)
    with pytest.raises(ValueError, match=message):
        fit(method, **{"data": make_data(), **arguments})
    assert_equal(start, weights(method))


class Counting(MeanImputation):
    """Counts the calls of `observe`."""

    observed = 0

    def observe(self, data):
        self.observed += 1
        super().observe(data)


def test_a_method_observes_the_data_once_before_the_first_stage():
    data, parts = make_data(), make_parts()
    method = Counting(parts.trunk(), parts.tower(), parts.tower_head())
    fit(method, data, Settings(epochs=2))
    assert method.observed == 1
    torch.testing.assert_close(method.imputed, data.a.mean(0))


def test_a_teacher_observes_the_data():
    data, parts = make_data(), make_parts()
    teacher = MeanImputation(parts.trunk(), parts.tower(), parts.tower_head())
    fit(Distillation(teacher, NoPI(parts.trunk(), parts.head())), data, Settings(epochs=1))
    torch.testing.assert_close(teacher.imputed, data.a.mean(0))


@pytest.mark.parametrize("sparse", [False, True])
def test_missing_privileged_information_gets_a_sentence(sparse):
    a = torch.tensor([[1.0], [float("nan")]])
    data = Annotations(torch.eye(2), torch.arange(2), SparseRows.from_matrix(a) if sparse else a, torch.arange(2))
    with pytest.raises(ValueError, match="`a` to have no missing values, but row 1 has NaN"):
        fit(NoPI(nn.Identity(), nn.Linear(2, 2)), data)


def test_after_training_on_a_gpu_by_default_a_method_returns_to_where_it_was(monkeypatch):
    """Also after an error."""

    def fail(*_):
        raise RuntimeError

    method, gpu, places = make_method(), torch.device("cpu", 0), []
    monkeypatch.setattr(fitting, "pick_device", lambda _: gpu)
    monkeypatch.setattr(method, "to", places.append)
    for device, callbacks in (("auto", [fail]), ("auto", []), ("cuda", [])):
        with pytest.raises(RuntimeError) if callbacks else nullcontext():
            fit(method, make_data(), Settings(epochs=1), device=device, callbacks=callbacks)
    home = torch.device("cpu")
    assert places == [gpu, home, gpu, home, gpu]
