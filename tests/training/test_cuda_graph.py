import contextlib
import copy
import gc
import random
import warnings
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from lupi import testing
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.nn.noise import Noise
from lupi.training import Checkpoint, Replicas, Settings, StackedAnnotations, fit, fitting
from lupi.training.batches import Batches
from lupi.training.cuda_graph import SMALL, WARM, GraphedSteps
from lupi.training.loop import OneDevice, StageLoop

HOW = Settings(epochs=4, batch_size=20, learning_rate=0.01)
GPU, GENERATOR = "cuda:1", torch.Generator()
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Graph:
    """Stands in for a CUDA graph: a recorded step runs when it is replayed, not before."""

    def __init__(self):
        self.steps, self.generators = [], []

    def register_generator_state(self, generator):
        self.generators.append(generator)

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
        assert graph.generators == [GENERATOR], "its replays would draw the same noise"
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

    steps = GraphedSteps(GPU, GENERATOR)
    for number in range(WARM + 3):
        assert steps(step, torch.full((4,), number)) == 4 * number
        if number % 2:
            assert steps(step, torch.full((2,), number)) == 2 * number
    assert [row[0] for row in done if len(row) == 4] == list(range(WARM + 3))
    assert len(graphs) == 1  # the other shape was too rare
    assert len(recording) == 1


def test_a_replayed_step_reads_all_its_inputs(graphs):
    """Whose values change, in the place where they were recorded."""
    done, recording = [], []

    def step(index, weight):
        def work():
            done.append((index[0].item(), weight.item()))

        if len(graphs) > len(recording):
            recording.append(index)
            graphs[-1].steps.append(work)
        else:
            work()

    steps = GraphedSteps(GPU, GENERATOR)
    for number in range(WARM + 3):
        steps(step, torch.full((4,), number), torch.tensor(number / 2))
    assert done == [(number, number / 2) for number in range(WARM + 3)]
    assert len(graphs) == 1


def test_an_interruption_while_recording_is_raised_as_such(graphs, monkeypatch):
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

    steps = GraphedSteps(GPU, GENERATOR)
    for number in range(WARM):
        steps(step, torch.full((4,), number))
    with pytest.raises(KeyboardInterrupt):
        steps(step, torch.full((4,), WARM))
    with pytest.raises(RuntimeError, match="previous error"):
        steps(step, torch.full((4,), WARM + 1))
    assert graphs == []


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
    members = [network or torch.nn.Linear(2, 2)]
    return StageLoop.can_record(SimpleNamespace(batches=batches, settings=settings, place=place, members=members))


def test_by_default_small_networks_are_recorded():
    data = Annotations(torch.zeros(6, 2), torch.arange(6), torch.zeros(6, 1), torch.zeros(6))
    assert would_record(data, Settings())
    assert not would_record(data, Settings(cuda_graph=False))
    with torch.device("meta"):
        large = torch.nn.Linear(SMALL, 1)
    assert not would_record(data, Settings(), large)
    assert would_record(data, Settings(cuda_graph=True), large)
    for more in ({"compile": True}, {"accumulate": 2}, {"optimizer": torch.optim.RMSprop}, {"draw": "examples"}):
        assert not would_record(data, Settings(**more)), more
    fabric = SimpleNamespace(device=torch.device("cuda"), world_size=1, global_rank=0)
    assert not would_record(data, Settings(), place=fabric)
    assert not would_record(data, Settings(), place=OneDevice("cpu", "float32"))


def steps_taken(watched, step, monkeypatch):
    """Take a few steps that are recorded where possible, and return whether they were."""
    modes = ["default"]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    steps = GraphedSteps(GPU, GENERATOR, watched)
    for number in range(WARM + 3):
        steps(lambda index: step(index, modes[-1]), torch.full((4,), number))
    assert modes[-1] == "default"
    return steps.recorded


def test_steps_that_a_graph_cannot_repeat_are_not_recorded(graphs, monkeypatch):
    """They wait for the GPU, or draw random numbers on the CPU; nobody asked for a graph."""
    watched, done = torch.Generator(), []

    def wait(_, mode):
        done.append("wait")
        if mode == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    def draw(*_):
        torch.rand(1, generator=watched)
        done.append("draw")

    def draw_in_python(*_):
        random.random()
        done.append("python")

    before = random.getstate()
    for step in (wait, draw, draw_in_python):
        assert not steps_taken(watched, step, monkeypatch)
    random.setstate(before)
    assert graphs == []
    assert done == ["wait"] * (WARM + 3) + ["draw"] * (WARM + 3) + ["python"] * (WARM + 3)
    assert steps_taken(watched, lambda *_: None, monkeypatch)
    assert len(graphs) == 1


@pytest.mark.usefixtures("graphs")
def test_other_warnings_of_a_step_are_shown(monkeypatch):
    with pytest.warns(UserWarning, match="beware") as shown:
        steps_taken(torch.Generator(), lambda *_: warnings.warn("beware", stacklevel=1), monkeypatch)
    assert len(shown) == WARM + 1


@pytest.mark.usefixtures("graphs")
def test_a_recording_that_fails_falls_back(monkeypatch):
    done = []

    def refuse(*_, **__):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    assert not steps_taken(torch.Generator(), lambda index, _: done.append(int(index[0])), monkeypatch)
    assert done == list(range(WARM + 3))


def test_only_batches_of_one_shape_from_memory_are_recorded():
    """Another source of x is read by the CPU, which a recorded step cannot wait for."""

    class Source:
        shape = (6, 2)

        def __getitem__(self, index):
            return torch.zeros(len(index), 2)

    def can_record(data, **changes):
        return would_record(data, Settings(cuda_graph=True, **changes))

    data = Annotations(torch.zeros(6, 2), torch.arange(6), torch.zeros(6, 1), torch.zeros(6))
    assert can_record(data)
    assert can_record(StackedAnnotations([data] * 2))
    assert not can_record(replace(data, x=Source()))
    assert not can_record(StackedAnnotations([replace(data, x=Source())] * 2))
    assert not can_record(data, draw="examples")
    assert not can_record(data.take(torch.tensor([0, 2])))


def test_a_resumed_optimizer_reads_its_own_learning_rate(tmp_path):
    """A graph reads a tensor on the GPU; a checkpoint has a learning rate of its own."""
    data, kept = testing.make_data(Categorical()), Checkpoint(tmp_path / "state.pt")
    fit(make("no-pi", [0])[0], data, replace(HOW, epochs=1), checkpoint=kept)
    (method,) = make("no-pi", [0])
    place = OneDevice("cpu", "float32")
    (stage,) = method.stages(data)
    loop = StageLoop(
        stage=stage, number=0, data=data, validation=None, settings=HOW, place=place, seeds=[0], noise=Noise(0)
    )
    rate = torch.tensor(0.01)
    for group in loop.optimizer.param_groups:
        group.update(lr=rate, capturable=True)
    loop.resume(torch.load(kept.path, weights_only=True))
    assert loop.epoch == 1
    assert all(group["lr"] is rate and group["capturable"] for group in loop.optimizer.param_groups)
    assert len(loop.optimizer.state) == len(list(method.parameters()))


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
        ("adam", {"mixup": 0.4, "clip": 0.5}),
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
