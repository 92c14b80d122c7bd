"""What sizes a job: speed by batch size, gradients, and what a cluster is sent. ``python -m benchmarks.scale``.

Speeds are annotations per second of processor time on one thread, for `lupi.training.fit` with a 64-64 MLP on 20
numbers, ten classes, and who of 1000 annotators gave the label, encoded sparsely.
"""

from __future__ import annotations

import time
from functools import partial

import cloudpickle
import numpy as np
import pandas as pd
import torch

from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import fit

INPUTS, CLASSES, ANNOTATORS = 20, 10, 1000
BATCHES, STEPS, ROUNDS = (32, 256, 4096), 60, 3


def make_data(rows: int) -> Annotations:
    x, y = torch.randn(rows, INPUTS), torch.randint(CLASSES, (rows,))
    who = torch.randint(ANNOTATORS, (rows, 1))
    a = SparseRows(who, torch.ones(rows, 1), ANNOTATORS)
    return Annotations(x, torch.arange(rows), a, y)


def make_parts() -> Parts:
    trunk = partial(MLP, INPUTS, (64, 64))
    return Parts(trunk, features=64, privileged=ANNOTATORS, outputs=CLASSES, likelihood=Categorical())


def measure_speed(name: str, batch: int) -> float:
    data, settings = make_data(STEPS * batch), Settings(epochs=1, batch_size=batch)
    speeds = []
    for _ in range(ROUNDS + 1):  # the first one warms up
        method, start = build(name, make_parts()), time.process_time()
        fit(method, data, settings)
        speeds.append(len(data) / (time.process_time() - start))
    return float(np.median(speeds[1:]))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, 1 thread\n")
    for name in ("no-pi", "tram"):
        method = build(name, make_parts())
        speeds = {batch: measure_speed(name, batch) for batch in BATCHES}
        text = ", ".join(f"{speed:,.0f} in batches of {batch}" for batch, speed in speeds.items())
        weights = sum(value.numel() for value in method.parameters())
        print(f"{name}: {text}; {weights:,} parameters, {4 * weights / 1e6:.2f} MB of gradients per step", flush=True)
    rows = 100_000
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, INPUTS)))
    frame["who"] = pd.Categorical(np.arange(rows) % ANNOTATORS)
    size = len(cloudpickle.dumps(frame)) / rows
    print(f"a table of 20 numbers and one name, as it is sent to a cluster: {size:.0f} bytes per row")


if __name__ == "__main__":
    main()
