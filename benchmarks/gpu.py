"""Items a second of plain loops and of `lupi.training.fit` on one GPU, in bfloat16: ResNet-50, ViT-S/16 and BERT-base.

``python -m benchmarks.gpu [--networks resnet vit bert] [--trainings plain compiled fit ...]``; ``--tiny`` is for a CPU.

All trainings of a network take turns in one process. Each has three epochs, the first of which does not count, so the
numbers are those of mid-training: code is compiled in the first training and kept.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig, BertModel, ViTConfig, ViTModel

from benchmarks.image_loading import Trunk as ResNet
from benchmarks.image_loading import finish
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.nn import Parts
from lupi.settings import Settings
from lupi.training import fit, pick_device

CLASSES, PRIVILEGED, WORDS, EPOCHS = 100, 16, 30_000, 3
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SMALL = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}


class Encoder(nn.Module):
    """A transformer; its features are those of the first token."""

    def __init__(self, model: nn.Module, width: int) -> None:
        super().__init__()
        self.model, self.features = model, width

    def forward(self, x: Tensor) -> Tensor:
        """Return features."""
        x = x.float() / 127.5 - 1 if x.dtype == torch.uint8 else x
        states: Tensor = self.model(x).last_hidden_state
        return states[:, 0]


def make_vit(tiny: bool) -> nn.Module:
    sizes: dict[str, Any] = TINY | {"image_size": 32} if tiny else SMALL
    return Encoder(ViTModel(ViTConfig(**sizes), add_pooling_layer=False), sizes["hidden_size"])


def make_bert(tiny: bool) -> nn.Module:
    config = BertConfig(vocab_size=WORDS, **(TINY if tiny else {}))
    return Encoder(BertModel(config, add_pooling_layer=False), config.hidden_size)


class Network(NamedTuple):
    """A trunk, its batch size and the shape of its inputs; tokens have one dimension."""

    make: Callable[[bool], nn.Module]
    batch: int
    shape: tuple[int, ...]


NETWORKS = {
    "resnet": Network(ResNet, 256, (3, 224, 224)),
    "vit": Network(make_vit, 256, (3, 224, 224)),
    "bert": Network(make_bert, 64, (128,)),
}


class Training:
    """The trainings of one network on one data set; each returns the time at the end of every epoch."""

    def __init__(self, network: Network, steps: int, tiny: bool) -> None:
        batch, shape = (4, (3, 32, 32)[: len(network.shape)]) if tiny else (network.batch, network.shape)
        shape = (16,) if tiny and len(network.shape) == 1 else shape
        generator, self.device = torch.Generator().manual_seed(0), pick_device("auto")
        self.make, self.batch, self.items = lambda: network.make(tiny), batch, steps * batch
        images = len(shape) > 1
        x = torch.randint(256 if images else WORDS, (self.items, *shape), generator=generator)
        self.data = Annotations(
            x.to(torch.uint8) if images else x,
            torch.arange(self.items),
            torch.rand(self.items, PRIVILEGED, generator=generator),
            torch.randint(CLASSES, (self.items,), generator=generator),
        ).to(self.device)

    def plain(self, *, compiled: bool) -> list[float]:
        """Train No PI with a plain loop."""
        torch.manual_seed(0)
        trunk: Any = self.make()
        network = nn.Sequential(trunk, nn.Linear(trunk.features, CLASSES)).to(self.device)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's types
        optimizer = torch.optim.Adam(network.parameters(), eps=1e-7, fused=True)
        x, y, ends = self.data.x, self.data.y, []
        assert isinstance(x, Tensor)

        def compute(inputs: Tensor, target: Tensor) -> Tensor:
            return F.cross_entropy(network(inputs), target)

        loss = torch.compile(compute) if compiled else compute
        for _ in range(EPOCHS):
            for index in torch.randperm(self.items).to(self.device).split(self.batch):
                with torch.autocast(self.device.type, torch.bfloat16):
                    value = loss(x[index], y[index])
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
            ends.append(finish(self.device))
        return ends

    def fit(self, method: str, *, compiled: bool) -> list[float]:
        """Train a method with `fit`."""
        torch.manual_seed(0)
        width: int = self.make().features  # type: ignore[assignment]
        parts = Parts(self.make, features=width, privileged=PRIVILEGED, outputs=CLASSES, likelihood=Categorical())
        settings = Settings(epochs=EPOCHS, batch_size=self.batch, precision="bfloat16", compile=compiled)
        ends: list[float] = []
        fit(build(method, parts), self.data, settings, callbacks=[lambda *_: ends.append(finish(self.device))])
        return ends


TRAININGS: dict[str, Callable[[Training], list[float]]] = {
    "plain": lambda training: training.plain(compiled=False),
    "fit": lambda training: training.fit("no-pi", compiled=False),
    "compiled": lambda training: training.plain(compiled=True),
    "compiled-fit": lambda training: training.fit("no-pi", compiled=True),
    "compiled-tram": lambda training: training.fit("tram", compiled=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--trainings", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--steps", type=int, default=20, help="steps of an epoch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"torch {torch.__version__}, {name}; items a second, median and range\n", flush=True)
    print(f"| network | {' | '.join(options.trainings)} |\n|{'---|' * (1 + len(options.trainings))}")
    start = time.monotonic()
    for network in options.networks:
        training = Training(NETWORKS[network], options.steps, options.tiny)
        rates: dict[str, list[float]] = {name: [] for name in options.trainings}
        for _ in range(options.rounds):
            for name in options.trainings:
                ends = TRAININGS[name](training)
                rates[name] += [training.items / (end - before) for before, end in pairwise(ends)]
        cells = [f"{statistics.median(all_):,.0f} ({min(all_):,.0f} to {max(all_):,.0f})" for all_ in rates.values()]
        print(f"| {network} | {' | '.join(cells)} |", flush=True)
    print(f"\n{time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
