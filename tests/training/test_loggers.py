"""Adapters of loggers, with stand-ins for their packages."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from lupi.training import Replicas, StackedAnnotations, fit, to_mlflow, to_tensorboard, to_wandb
from tests.training.helpers import HOW, SEED, make_data, make_method


class Writer:
    def __init__(self, folder=None):
        self.folder, self.scalars, self.flushed = folder, [], 0
        Writer.made = self

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def flush(self):
        self.flushed += 1


@pytest.fixture
def install(monkeypatch):
    """Put modules of these names in place."""

    def put(name, **contents):
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)

    return put


def expected_scalars(history):
    return [
        (f"{row['stage']}/{name}", row[name], row["epoch"])
        for row in history
        for name in row
        if name not in ("stage", "epoch")
    ]


def train(callback, name="two-step-tram"):
    return fit(make_method(name), make_data(), HOW, seed=SEED, validation=make_data(seed=1), callbacks=[callback])


def test_tensorboard(install, tmp_path):
    writer = Writer()
    assert writer.scalars == []
    history = train(to_tensorboard(writer))
    assert writer.scalars == expected_scalars(history)
    assert writer.flushed == len(history) == 8
    install("torch.utils.tensorboard", SummaryWriter=Writer)
    for folder in (tmp_path, str(tmp_path)):
        assert train(to_tensorboard(folder)) == history  # a logger never ends a stage
        assert Writer.made.folder == folder
        assert Writer.made.scalars == writer.scalars


def test_mlflow(install):
    logged = []
    install("mlflow", log_metrics=lambda metrics, step: logged.append((metrics, step)))
    history = train(to_mlflow())
    assert [(name, value, step) for metrics, step in logged for name, value in metrics.items()] == expected_scalars(
        history
    )


def test_wandb(install):
    logged = []
    run = SimpleNamespace(log=logged.append)
    history = train(to_wandb(run))
    numbers = [name for name, *_ in expected_scalars(history)]
    assert [name for metrics in logged for name in metrics if not name.endswith("/epoch")] == numbers
    assert [metrics[f"{row['stage']}/epoch"] for metrics, row in zip(logged, history, strict=True)] == [1, 2, 3, 4] * 2
    install("wandb", run=run)
    assert train(to_wandb()) == history
    assert logged[8:] == logged[:8]
    install("wandb", run=None)
    with pytest.raises(ValueError, match=r"^Expected `run` to be a run of Weights & Biases, .*, but there is none\.$"):
        to_wandb()


def test_replicas_are_logged_one_by_one():
    writer, members = Writer(), [make_method("no-pi", seed=seed) for seed in range(2)]
    data = StackedAnnotations([make_data()] * 2)
    history = fit(Replicas(members), data, HOW, seed=[0, 1], callbacks=[to_tensorboard(writer)])
    losses = {name: value for name, value, step in writer.scalars if step == 4 and "train_" in name}
    assert losses == {f"train/train_marginal/{number}": history[-1]["train_marginal"][number] for number in (0, 1)}


@pytest.mark.parametrize(
    ("make", "module", "package"),
    [
        (lambda: to_tensorboard("folder"), "torch.utils.tensorboard", "tensorboard"),
        (to_mlflow, "mlflow", "mlflow"),
        (to_wandb, "wandb", "wandb"),
    ],
)
def test_a_package_is_missing(monkeypatch, make, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"^Expected {package} to be installed \(pip install {package}\), but .*\.$"):
        make()
