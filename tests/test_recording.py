import contextlib
import copy
from dataclasses import replace

import pytest
import torch

from lupi import testing
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.recording import WARM, Recorded
from lupi.replicas import Replicas, StackedAnnotations
from lupi.training import Settings, fit

HOW = Settings(epochs=4, batch_size=20, learning_rate=0.01)
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
    made = []

    class Stream:
        def wait_stream(self, other):
            assert other is not self

    @contextlib.contextmanager
    def record(graph, stream):
        assert isinstance(stream, Stream)
        made.append(graph)
        yield

    current = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
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

    recorded = Recorded(step)
    for number in range(WARM + 3):
        assert recorded(torch.full((4,), number)) == 4 * number
        if number % 2:
            assert recorded(torch.full((2,), number)) == 2 * number
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

    recorded = Recorded(step)
    for number in range(WARM):
        recorded(torch.full((4,), number))
    with pytest.raises(KeyboardInterrupt):
        recorded(torch.full((4,), WARM))
    with pytest.raises(RuntimeError, match="previous error"):
        recorded(torch.full((4,), WARM + 1))
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
