"""Train methods that cross-fit in one process of a Fabric, without it, and with it in two parts."""

import sys
from pathlib import Path

import torch
from lightning.fabric import Fabric

from lupi import testing
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.settings import Settings
from lupi.training import Checkpoint, fit
from lupi.training.loop import StageLoop

torch.set_num_threads(1)
folder = Path(sys.argv[1])
fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
data = testing.make_data(Categorical())
settings = Settings(epochs=2, batch_size=1000)  # one batch, whose order does not matter
cases = {
    "auto": {"methods": ["no-pi", "mean-imputation"], "folds": 5},
    "stack": {"methods": ["no-pi", "mean-imputation"], "folds": 5},
    "label-posterior": {"folds": 5},
}


def make(name, seed=1):
    torch.manual_seed(seed)
    return build(name, testing.make_parts(Categorical()), **cases[name])


def result(method, history):
    return {"weights": {name: value.clone() for name, value in method.state_dict().items()}, "history": history}


class InterruptionError(Exception):
    pass


def train_in_two_parts(name, path):
    """Break off before the eighth step, in the fourth network, and resume."""
    train_step, steps = StageLoop.train_step, []

    def counted(*arguments):
        if len(steps) == 7:
            raise InterruptionError
        steps.append(arguments)
        train_step(*arguments)

    checkpoint = Checkpoint(path, every=1)
    StageLoop.train_step = counted
    try:
        fit(make(name), data, settings, fabric=fabric, checkpoint=checkpoint)
    except InterruptionError:
        StageLoop.train_step = train_step
    method = make(name, seed=2)
    return result(method, fit(method, data, settings, fabric=fabric, checkpoint=checkpoint))


results = {}
for name in cases:
    through, plain = make(name), make(name)
    results[name] = {
        "fabric": result(through, fit(through, data, settings, fabric=fabric)),
        "plain": result(plain, fit(plain, data, settings)),
        "resumed": train_in_two_parts(name, folder / f"{name}.pt"),
    }
torch.save(results, folder / "results.pt")
