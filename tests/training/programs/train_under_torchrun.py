"""Train TRAM in the processes that torchrun has started, and in one: `train_under_torchrun.py NODES FOLDER`."""

import os
import sys
from pathlib import Path

import torch
from lightning.fabric import Fabric

from lupi import testing
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.settings import Settings
from lupi.training import fit

torch.set_num_threads(1)
nodes, folder = int(sys.argv[1]), Path(sys.argv[2])
fabric = Fabric(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=nodes, strategy="ddp")
fabric.launch()
data, settings = testing.make_data(Categorical()), Settings(epochs=3, batch_size=11)
results = {"processes": fabric.world_size, "node": fabric.node_rank}
for name, through in (("fabric", fabric), ("one", None)):
    torch.manual_seed(1)
    method = build("tram", testing.make_parts(Categorical()))
    history = fit(method, data, settings, seed=3, fabric=through)
    results[name] = {"weights": {key: value.clone() for key, value in method.state_dict().items()}, "history": history}
torch.save(results, folder / f"rank{fabric.global_rank}.pt")
fabric.barrier()
