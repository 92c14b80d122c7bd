import copy
import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from lupi import testing
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.settings import Settings
from lupi.training import Checkpoint, Replicas, StackedAnnotations, fit, fitting
from lupi.training.batches import Batches
from lupi.training.cuda_graph import MAX_RECORDED_PARAMETERS
from lupi.training.loop import StageLoop, Training
from lupi.training.stepper import OneDevice, can_record

HOW = Settings(epochs=4, batch_size=20, learning_rate=0.01)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make(kind, seeds):
    methods = []
    for seed in seeds:
        torch.manual_seed(seed)
        methods.append(build(kind, testing.make_parts(Categorical())))
    return methods


def test_cuda_graph_has_no_effect_on_a_cpu():
    data = testing.make_data(Categorical())
    one, other = make("tram", [0]), make("tram", [0])
    assert fit(one[0], data, HOW) == fit(other[0], data, replace(HOW, cuda_graph=True))


def would_record(data, settings, network=None, place=OneDevice("cuda", "float32")):  # noqa: B008
    batches = Batches(data, settings, place, seeds=[0], stage=0)
    method = SimpleNamespace(replicas=[network or torch.nn.Linear(2, 2)])
    return can_record(method, batches, settings, place)


def test_by_default_small_networks_are_recorded():
    data = Annotations(torch.zeros(6, 2), torch.arange(6), torch.zeros(6, 1), torch.zeros(6))
    assert would_record(data, Settings())
    assert not would_record(data, Settings(cuda_graph=False))
    with torch.device("meta"):
        large = torch.nn.Linear(MAX_RECORDED_PARAMETERS, 1)
    assert not would_record(data, Settings(), large)
    assert would_record(data, Settings(cuda_graph=True), large)
    for more in ({"compile": True}, {"accumulate": 2}, {"optimizer": torch.optim.RMSprop}):
        assert not would_record(data, Settings(**more)), more
    fabric = SimpleNamespace(device=torch.device("cuda"), world_size=1, global_rank=0)
    assert not would_record(data, Settings(), place=fabric)
    assert not would_record(data, Settings(), place=OneDevice("cpu", "float32"))


def test_only_batches_of_one_shape_from_memory_are_recorded():
    """Another source of x is read by the CPU, which a recorded step cannot wait for."""

    class Source:
        shape = (6, 2)

        def __getitem__(self, index):
            return torch.zeros(len(index), 2)

    def records(data, **changes):
        return would_record(data, Settings(cuda_graph=True, **changes))

    data = Annotations(torch.zeros(6, 2), torch.arange(6), torch.zeros(6, 1), torch.zeros(6))
    assert records(data)
    assert records(StackedAnnotations([data] * 2))
    assert not records(replace(data, x=Source()))
    assert not records(StackedAnnotations([replace(data, x=Source())] * 2))
    assert records(data, draw="examples")  # with one label each
    several = replace(data, x=torch.zeros(4, 2), row=torch.tensor([0, 0, 0, 1, 2, 3]))
    assert not records(several)
    assert not records(several, draw="examples")
    assert not records(data.take(torch.tensor([0, 2])))


@pytest.mark.parametrize("size", [2, 4])
def test_examples_with_one_label_are_drawn_like_labels(size):
    data = testing.make_data(Categorical()).take(torch.arange(6))
    data = replace(data, x=data.x[data.row], row=torch.arange(6))
    one, other = make("tram", [0]), make("tram", [0])
    how = replace(HOW, batch_size=size)
    assert fit(one[0], data, how) == fit(other[0], data, replace(how, draw="examples"))


def test_a_resumed_optimizer_reads_its_own_learning_rate(tmp_path):
    """A graph reads a tensor on the GPU; a checkpoint has a learning rate of its own."""
    data, kept = testing.make_data(Categorical()), Checkpoint(tmp_path / "state.pt")
    fit(make("no-pi", [0])[0], data, replace(HOW, epochs=1), checkpoint=kept)
    (method,) = make("no-pi", [0])
    place = OneDevice("cpu", "float32")
    (stage,) = method.stages(data)
    training = Training(method=method, data=data, validation=None, settings=HOW, place=place, seeds=[0], history=[])
    loop = StageLoop(training, stage, 0)
    rate = torch.tensor(0.01)
    for group in loop.stepper.optimizer.param_groups:
        group.update(lr=rate, capturable=True)
    loop.resume(torch.load(kept.path, weights_only=True))
    assert loop.epoch == 1
    assert all(group["lr"] is rate and group["capturable"] for group in loop.stepper.optimizer.param_groups)
    assert len(loop.stepper.optimizer.state) == len(list(method.parameters()))


def test_a_training_leaves_nothing_to_the_garbage_collector(monkeypatch):
    """Data, momenta and graphs take too much GPU memory to wait for it."""
    loops = []

    class Watched(StageLoop):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            loops.append(weakref.ref(self))

    monkeypatch.setattr(fitting, "StageLoop", Watched)
    gc.disable()
    try:
        fit(make("distillation", [0])[0], testing.make_data(Categorical()), HOW)
        assert [loop() for loop in loops] == [None, None]
    finally:
        gc.enable()


def apart(data):
    """Give every annotation an example of its own."""
    return Annotations(data.x[data.row], torch.arange(len(data)), data.a, data.y)


@on_a_gpu
@pytest.mark.parametrize("kind", ["no-pi", "tram", "het-tram", "heteroscedastic-dropout", "distilled-tram"])
@pytest.mark.parametrize(
    ("optimizer", "more"),
    [
        ("adam", {}),
        ("sgd", {}),
        ("adam", {"clip": 0.5}),
        ("adam", {"learning_rates": {"trunk": 0.001, "marginal": 0.02}, "l2": 0.01}),
        ("sgd", {"learning_rates": {"trunk": 0.0}}),
    ],
)
def test_a_replayed_training_equals_an_eager_one(kind, optimizer, more):
    data = apart(testing.make_data(Categorical()))
    how = replace(HOW, optimizer=optimizer, schedule="cosine", **more)
    for methods in (make(kind, [0]), make(kind, range(4))):
        histories, weights = [], []
        for graph in (False, True):
            own = copy.deepcopy(methods)
            if len(own) == 1:
                fitted, sets, seed = own[0], data, 0
            else:
                fitted, sets, seed = Replicas(own), StackedAnnotations([data] * len(own)), range(len(own))
            histories.append(fit(fitted, sets, replace(how, cuda_graph=graph), seed=seed, device="cuda"))
            weights.append([value.cpu() for member in own for value in member.state_dict().values()])
        assert histories[0][0].keys() == histories[1][0].keys()
        for one, other in zip(*weights, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
