"""Mixed precision, the precision of matrix products, and compilation."""

import copy
import dataclasses
import math
import shutil

import pytest
import torch
from torch import nn

from lupi.likelihoods import Bernoulli
from lupi.methods import NoPI, build
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit
from tests.training.helpers import HOW, make_data, make_method, make_parts, weights


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
    method = build(name, make_parts(likelihood=Bernoulli()), **options)
    history = fit(method, dataclasses.replace(data, y=y), Settings(epochs=60, learning_rate=0.1, precision="bfloat16"))
    assert all(math.isfinite(value) for value in history[-1].values() if isinstance(value, float))
    assert bool(method.predictor()(data.inputs(data.row)).isfinite().all())


def test_matrix_precision_is_set_in_training_alone():
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
        assert len(graphs) == min(count + 1, 5)  # the last batch, which is smaller, is computed eagerly
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
