"""`torch.compile` by default, its failures, and checkpoints across compiled and eager training."""

import dataclasses
import shutil

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from lupi.methods import NoPI
from lupi.training import Checkpoint, Replicas, fit, stepper
from lupi.training.stepper import COMPILED_WORK, OneDevice, pays_to_compile
from tests.training.helpers import HOW, assert_equal, interrupted, make_data, make_method, weights

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
HOW = dataclasses.replace(HOW, cuda_graph=False)
COMPILED = dataclasses.replace(HOW, compile=True)


@pytest.fixture(autouse=True)
def _without_old_code():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def compile_by(monkeypatch, backend):
    """Compile with a backend that takes less time than torch's default."""
    usual = torch.compile
    monkeypatch.setattr(torch, "compile", lambda losses, **options: usual(losses, backend=backend, **options))


def one_to_one():
    """Each example has one label, so that all batches but the last of an epoch have one shape."""
    return dataclasses.replace(make_data(23, 23), row=torch.arange(23))


def test_long_trainings_of_large_networks_on_a_gpu_are_compiled_by_default():
    gpu, cpu = OneDevice("cuda", "float32"), OneDevice("cpu", "float32")
    with torch.device("meta"):
        large = NoPI(nn.Linear(9_999, 10_000), nn.Linear(10_000, 2))  # 100 million parameters
    steps = round(COMPILED_WORK / 1e8)
    assert pays_to_compile(large, steps, gpu)
    assert not pays_to_compile(large, steps // 2, gpu)
    assert not pays_to_compile(large, steps, cpu)
    assert not pays_to_compile(Replicas([large]), steps, gpu)


def test_a_cpu_compiles_only_if_told_to(monkeypatch):
    compile_by(monkeypatch, "eager")
    executions = [fit(make_method(), make_data(), how)[-1]["execution"] for how in (HOW, COMPILED)]
    assert executions == ["eager", "compiled"]


@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "cl"))), reason="needs a C++ compiler")
def test_compiled_training_equals_eager_training():
    data, how = one_to_one(), dataclasses.replace(HOW, clip=0.5, weight_decay=0.1, optimizer="adamw")
    eager, compiled = make_method(), make_method()
    expected = fit(eager, data, how)
    history = fit(compiled, data, dataclasses.replace(how, compile=True))
    assert history[-1]["execution"] == "compiled"
    assert history[-1]["train_conditional"] == pytest.approx(expected[-1]["train_conditional"], rel=1e-4)
    torch.testing.assert_close(weights(compiled), weights(eager), rtol=0, atol=1e-4)


@pytest.mark.parametrize("first", [True, False])
def test_checkpoints_resume_across_compiled_and_eager(monkeypatch, tmp_path, first):
    compile_by(monkeypatch, "aot_eager")
    data, kept = one_to_one(), Checkpoint(tmp_path / "state.pt", every=1)
    alone, method = make_method(), make_method()
    fit(alone, data, HOW)
    start, rest = (dataclasses.replace(HOW, compile=compiles) for compiles in (first, not first))
    interrupted(fit, 5, make_method(), data, start, checkpoint=kept)
    history = fit(method, data, rest, checkpoint=kept)
    names = {True: "compiled", False: "eager"}
    assert [row["execution"] for row in history] == [names[first], *[names[not first]] * 3]
    torch.testing.assert_close(weights(method), weights(alone), rtol=0, atol=1e-4)


@pytest.fixture
def by_default(monkeypatch):
    """Compile by default, as on a GPU."""
    monkeypatch.setattr(stepper, "pays_to_compile", lambda *_: True)


class Own(nn.Module):
    """A layer whose operator has no rule for the compiler."""

    def forward(self, x):
        return torch.ops.lupi_tests.double(x)


@pytest.fixture(scope="module")
def _double():
    @torch.library.custom_op("lupi_tests::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def make_own():
    torch.manual_seed(0)
    return NoPI(Own(), nn.Linear(4, 3))


@pytest.mark.usefixtures("by_default", "_double")
def test_a_network_that_cannot_be_compiled_is_trained_eagerly_with_a_warning():
    method, alone = make_own(), make_own()
    with pytest.warns(UserWarning, match="Training eagerly, since the network cannot be compiled: .*double"):
        history = fit(method, one_to_one(), HOW)
    assert [row["execution"] for row in history] == ["eager"] * 4
    fit(alone, one_to_one(), dataclasses.replace(HOW, compile=False))
    assert_equal(weights(method), weights(alone))


@pytest.mark.usefixtures("_double")
def test_compiling_on_demand_fails_with_the_compilers_error():
    with pytest.raises(RuntimeError, match="double"):
        fit(make_own(), one_to_one(), COMPILED)


@pytest.mark.usefixtures("by_default")
@pytest.mark.parametrize("accumulate", [1, 3])
def test_gradients_that_cannot_be_compiled_are_computed_eagerly(monkeypatch, accumulate):
    """Torch compiles them in the first backward pass."""

    def fail(_, inputs):
        raise ValueError(f"a gradient of {len(inputs)} inputs")

    compile_by(monkeypatch, aot_autograd(fw_compiler=lambda graph, _: graph.forward, bw_compiler=fail))
    method, alone, how = make_method(), make_method(), dataclasses.replace(HOW, accumulate=accumulate)
    with pytest.warns(UserWarning, match="cannot be compiled.*a gradient of"):
        fit(method, one_to_one(), how)
    fit(alone, one_to_one(), dataclasses.replace(how, compile=False))
    assert_equal(weights(method), weights(alone))


@pytest.mark.usefixtures("by_default")
def test_an_error_of_the_network_is_raised_as_it_is():
    with pytest.raises(RuntimeError, match=r"\Amat1 and mat2 shapes cannot be multiplied"):
        fit(NoPI(nn.Linear(9, 2), nn.Linear(2, 3)), one_to_one(), HOW)
