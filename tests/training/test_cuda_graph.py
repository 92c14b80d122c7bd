import contextlib
import copy
import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from lupi.nn.layers import use_small_kernels

from lupi import testing
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.training import loop as training
from lupi.training.cuda_graph import WARM, Recorded
from lupi.training.loop import Checkpoint, OneDevice, Settings, StageLoop, fit
from lupi.training.replicas import Replicas, StackedAnnotations

HOW = Settings(epochs=4, batch_size=20, learning_rate=0.01)
GPU = "cuda:1"
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Graph:
    """Stands for a CUDA graph: what is recorded is not done, and a replay does it."""

    def __init__(self):
        self.steps = []

    def replay(self):
        for step in self.steps:
            step()


@pytest.fixture
def graphs(monkeypatch):
    made, entered = [], []

    class Stream:
        def __init__(self, device=GPU):
            assert device == GPU

        def wait_stream(self, other):
            assert other is not self

    @contextlib.contextmanager
    def on(device):
        entered.append(device)
        yield
        entered.pop()

    @contextlib.contextmanager
    def record(graph, stream):
        assert isinstance(stream, Stream)
        assert entered == [GPU]
        made.append(graph)
        yield

    current = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    return made


def test_a_shape_is_recorded_once_and_then_replayed(graphs):
    done, recording = [], []

    def step(index):
        place = torch.zeros(())

        def work():
            done.append(index.tolist())
            place.copy_(index.sum())

        if len(graphs) > len(recording):
            recording.append(index)
            graphs[-1].steps.append(work)
        else:
            work()
        return place

    recorded = Recorded(GPU)
    for number in range(WARM + 3):
        assert recorded(step, torch.full((4,), number)) == 4 * number
        if number % 2:
            assert recorded(step, torch.full((2,), number)) == 2 * number
    assert [row[0] for row in done if len(row) == 4] == list(range(WARM + 3))
    assert len(graphs) == 1  # the other shape was too rare
    assert len(recording) == 1


def test_an_interruption_while_recording_is_one(graphs, monkeypatch):
    @contextlib.contextmanager
    def broken(*_, **__):
        try:
            yield
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    monkeypatch.setattr(torch.cuda, "graph", broken)

    def step(index):
        if index[0] == WARM:
            raise KeyboardInterrupt
        return index

    recorded = Recorded(GPU)
    for number in range(WARM):
        recorded(step, torch.full((4,), number))
    with pytest.raises(KeyboardInterrupt):
        recorded(step, torch.full((4,), WARM))
    with pytest.raises(RuntimeError, match="previous error"):
        recorded(step, torch.full((4,), WARM + 1))
    assert graphs == []


def make(kind, seeds):
    methods = []
    for seed in seeds:
        torch.manual_seed(seed)
        methods.append(build(kind, testing.make_parts(Categorical())))
    return methods


def test_a_cpu_has_no_graphs():
    data = testing.make_data(Categorical())
    one, other = make("tram", [0]), make("tram", [0])
    assert fit(one[0], data, HOW) == fit(other[0], data, replace(HOW, cuda_graph=True))


def test_not_with_a_fabric():
    with pytest.raises(ValueError, match="`cuda_graph` to be False with a `fabric`"):
        fit(make("tram", [0])[0], testing.make_data(Categorical()), replace(HOW, cuda_graph=True), fabric=object())


def test_only_what_lies_in_memory_is_recorded():
    """A source of x is asked by row numbers on the CPU, for which a recording cannot wait."""

    class Source:
        shape = (6, 2)

        def __getitem__(self, index):
            return torch.zeros(len(index), 2)

    def recordable(data, **changes):
        place = SimpleNamespace(device=torch.device("cuda"))
        loop = SimpleNamespace(data=data, settings=Settings(cuda_graph=True, **changes), place=place)
        return StageLoop.recordable(loop)

    data = Annotations(torch.zeros(6, 2), torch.arange(6), torch.zeros(6, 1), torch.zeros(6))
    assert recordable(data)
    assert recordable(StackedAnnotations([data] * 2))
    assert not recordable(replace(data, x=Source()))
    assert not recordable(StackedAnnotations([replace(data, x=Source())] * 2))
    assert not recordable(data, draw="examples")
    assert not recordable(data.take(torch.tensor([0, 2])))


@pytest.mark.parametrize("recorded", [True, False])
def test_small_layers_have_kernels_of_their_own_in_a_recorded_step(recorded, graphs, monkeypatch):
    """In another the CPU would have to start them."""
    (method,), data, seen = make("tram", [0]), apart(testing.make_data(Categorical())), []
    method.tower.first.register_forward_hook(lambda *_: seen.append(use_small_kernels.get()))
    monkeypatch.setattr(StageLoop, "recordable", lambda _: recorded)
    monkeypatch.setattr(training, "Recorded", lambda _: graphs)
    loop = StageLoop(method, next(method.stages(data)), 0, data, None, HOW, OneDevice("cpu", "float32"), 0)
    loop.losses(data.by_annotation(torch.arange(5)))
    assert seen == [recorded]
    assert not use_small_kernels.get()


def test_a_resumed_optimizer_reads_its_own_learning_rate(tmp_path):
    """It lies on the GPU, where a graph reads it; a checkpoint, which may be of a CPU, has it elsewhere."""
    data, kept = testing.make_data(Categorical()), Checkpoint(tmp_path / "state.pt")
    fit(make("no-pi", [0])[0], data, replace(HOW, epochs=1), checkpoint=kept)
    (method,) = make("no-pi", [0])
    loop = StageLoop(method, next(method.stages(data)), 0, data, None, HOW, OneDevice("cpu", "float32"), 0)
    rate = torch.tensor(0.01)
    for group in loop.optimizer.param_groups:
        group.update(lr=rate, capturable=True)
    loop.resume(torch.load(kept.path, weights_only=True))
    assert loop.epoch == 1
    assert all(group["lr"] is rate and group["capturable"] for group in loop.optimizer.param_groups)
    assert len(loop.optimizer.state) == len(list(method.parameters()))


def test_a_training_leaves_nothing_to_the_garbage_collector(monkeypatch):
    """Data, momenta and graphs on a GPU are too large to wait for it."""
    loops = []

    class Watched(StageLoop):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            loops.append(weakref.ref(self))

    monkeypatch.setattr(training, "StageLoop", Watched)
    gc.disable()
    try:
        fit(make("distillation", [0])[0], testing.make_data(Categorical()), HOW)
        assert [loop() for loop in loops] == [None, None]
    finally:
        gc.enable()


def apart(data):
    """The same annotations, one per example."""
    return Annotations(data.x[data.row], torch.arange(len(data)), data.a, data.y)


@on_a_gpu
@pytest.mark.parametrize("kind", ["no-pi", "tram", "het-tram", "heteroscedastic-dropout", "distilled-tram"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_replayed_training_is_the_same_training(kind, optimizer):
    data = apart(testing.make_data(Categorical()))
    how = replace(HOW, optimizer=optimizer, schedule="cosine")
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
