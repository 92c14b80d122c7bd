"""Train several methods in two processes and in one."""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from lightning.fabric import Fabric
from torch import nn

from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import Checkpoint, fit
from lupi.training.loop import StageLoop

torch.set_num_threads(1)
folder = Path(sys.argv[1])
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()

generator = torch.Generator().manual_seed(0)
counts = [1, 3, 1, 4, 2, 1, 1, 5, 2, 1, 2]
row = torch.repeat_interleave(torch.arange(11), torch.tensor(counts))[torch.randperm(23, generator=generator)]
x, a = torch.randn(11, 4, generator=generator), torch.randn(23, 3, generator=generator)
data = Annotations(x, row, a, torch.randint(3, (23,), generator=generator))
held_out = replace(data, y=torch.randint(3, (23,), generator=generator))


def make(name, normed=False, **options):
    torch.manual_seed(1)

    def trunk():
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)) if normed else MLP(4, (8,))

    parts = Parts(trunk, features=8, privileged=3, outputs=3, likelihood=Categorical(), tower_widths=(6, 5))
    return build(name, parts, **options)


def result(method, history):
    weights = {name: value.clone() for name, value in method.state_dict().items()}
    return {"weights": weights, "history": history}


RATES = {"trunk": 0.0, "tower": 0.01}
cases = {
    "annotations": ("tram", Settings(epochs=3, batch_size=11)),  # 11, 11, 1
    "examples": ("tram", Settings(epochs=3, batch_size=5, draw="examples")),  # 5, 5, 1
    "odd": ("tram", Settings(epochs=2, batch_size=9, draw="examples")),  # 9, 2
    "single": ("tram", Settings(epochs=1, batch_size=1, draw="examples", optimizer="sgd", learning_rate=0.01)),
    "clipped": ("tram", Settings(epochs=3, batch_size=6, optimizer="sgd", l2=0.01, clip=0.3, schedule="cosine")),
    "two-step": ("two-step-tram", Settings(epochs=2, batch_size=11, learning_rate=0.01)),
    "distilled": ("distilled-tram", Settings(epochs=2, batch_size=5, draw="examples", learning_rate=0.01)),
    "accumulated": ("tram", Settings(epochs=2, batch_size=3, accumulate=2, clip=0.3)),  # 2 parts and 1
    "frozen": ("tram", Settings(epochs=2, batch_size=9, optimizer=torch.optim.Adagrad, learning_rates=RATES)),
    "stopped": ("tram", Settings(epochs=40, batch_size=8, learning_rate=0.05, patience=2)),
}
results = {}
for case, (name, settings) in cases.items():
    two, one = make(name), make(name)
    history = fit(two, data, settings, validation=held_out, seed=3, fabric=fabric)
    results[case] = {"two": result(two, history)}
    results[case]["one"] = result(one, fit(one, data, settings, validation=held_out, seed=3))

# Networks of three folds train one after another in both ways, and so with the same batches.
settings, options = Settings(epochs=2, batch_size=11), {"folds": 3, "methods": ["no-pi", "mean-imputation"]}
two, one = make("auto", **options), make("auto", **options)
history = fit(two, data, settings, validation=held_out, seed=3, fabric=fabric)
results["auto"] = {"two": result(two, history)}
results["auto"]["one"] = result(one, fit(one, data, settings, validation=held_out, seed=3))

# Running means of a normalization are each process's own; both must stop at the same time nevertheless.
settings = Settings(epochs=30, batch_size=8, learning_rate=0.1, patience=2)
normed = make("no-pi", normed=True)
results["normed"] = result(normed, fit(normed, data, settings, validation=held_out, fabric=fabric))


class InterruptionError(Exception):
    pass


def broken(method, settings, path, at):
    """Break off before a step, in both processes."""
    train_step, steps = StageLoop.train_step, []

    def counted(*arguments):
        if len(steps) == at:
            raise InterruptionError
        steps.append(arguments)
        train_step(*arguments)

    StageLoop.train_step = counted
    try:
        fit(method, data, settings, seed=3, fabric=fabric, checkpoint=Checkpoint(path, every=3))
    except InterruptionError:
        return
    finally:
        StageLoop.train_step = train_step
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
