"""Images a second of `lupi.training.fit` and of a plain loop: ResNet-50, 224 pixels, bfloat16, on one GPU.

``python -m benchmarks.image_loading [--images 20480] [--workers 12]``; ``--smoke`` is a toy for a CPU.

All share one network, batch size and optimizer. With images on the GPU, the plain loop indexes them as `fit` does. From
JPEG files, which it makes first, both read the same dataset with the same number of workers, and the plain loop's
sampler has no pauses between epochs. The first epoch of each training does not count.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import ResNetConfig, ResNetModel

from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.nn import Parts
from lupi.settings import Settings
from lupi.training import fit

PRIVILEGED = 16
TOY = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
Loop = Callable[[], list[float]]
"""Trains, and returns the time at the end of every epoch."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20_480, help="JPEG files, and images of an epoch from them")
    parser.add_argument("--on-device", type=int, default=10_240, help="images on the device, an epoch there")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    small = {"images": 24, "on_device": 24, "workers": 2, "rounds": 1, "batch": 8, "side": 32, "file_side": 40}
    if options.smoke:
        vars(options).update(small)
    else:
        vars(options).update(batch=256, side=224, file_side=256)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"torch {torch.__version__}, {name}; batches of {options.batch}, {options.side} pixels, bfloat16", flush=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = Photos(make_files(Path(folder), options.images, options.file_side), options.side)
        print(f"made {len(files)} files of {options.file_side} pixels in {time.monotonic() - start:.0f} seconds\n")
        compare(options, files, device)
    print(f"\n{time.monotonic() - start:.0f} seconds")


def compare(options: argparse.Namespace, files: Photos, device: torch.device) -> None:
    """Measure every loop in turn, and print images a second and ratios."""
    x = torch.randint(0, 256, (options.on_device, 3, options.side, options.side), dtype=torch.uint8, device=device)
    settings = Settings(
        epochs=3, batch_size=options.batch, optimizer="sgd", learning_rate=0.01, precision="bfloat16"
    )  # what a newcomer has, apart from the precision
    loops: dict[str, tuple[int, Loop]] = {
        "plain loop, x on the device": (len(x), lambda: run_plain(options, x, device)),
        "fit, x on the device, No PI": (len(x), lambda: run_fit("no-pi", options, x, settings, device)),
        "fit, x on the device, TRAM": (len(x), lambda: run_fit("tram", options, x, settings, device)),
        f"plain loop, files, {options.workers} workers": (len(files), lambda: run_plain(options, files, device)),
        f"fit, files, {options.workers} workers, No PI": (
            len(files),
            lambda: run_fit("no-pi", options, files, replace(settings, workers=options.workers), device),
        ),
    }
    rates: dict[str, list[float]] = {title: [] for title in loops}
    for _ in range(options.rounds):
        for title, (images, loop) in loops.items():
            ends = loop()
            rates[title] += [images / (end - before) for before, end in pairwise(ends)]
    each = {title: statistics.median(values) for title, values in rates.items()}
    print("| training | images a second | range |\n|---|---|---|")
    for title, rate in each.items():
        print(f"| {title} | {rate:,.0f} | {min(rates[title]):,.0f} to {max(rates[title]):,.0f} |")
    plain, no_pi, tram, plain_files, fit_files = each.values()
    print("\n| ratio | measured | goal |\n|---|---|---|")
    print(f"| fit / plain loop, x on the device | {no_pi / plain:.3f} | ≥ 0.95 |")
    print(f"| TRAM / No PI, x on the device | {tram / no_pi:.3f} | ≥ 0.95 |")
    print(f"| fit / plain loop, files | {fit_files / plain_files:.3f} | ≥ 0.90 |")


class Trunk(nn.Module):
    """ResNet-50, or a toy, for images of 8-bit integers."""

    def __init__(self, toy: bool) -> None:
        super().__init__()
        self.model = ResNetModel(ResNetConfig(**(TOY if toy else {})))
        self.features = self.model.config.hidden_sizes[-1]

    def forward(self, x: Tensor) -> Tensor:
        """Return features."""
        pooled: Tensor = self.model(x.float() / 127.5 - 1).pooler_output
        return pooled.flatten(1)


class Photos(Dataset[Tensor]):
    """JPEG files, cropped to a square in the middle."""

    def __init__(self, paths: list[Path], side: int) -> None:
        self.paths, self.side = paths, side

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Tensor:
        with Image.open(self.paths[row]) as image:
            left, top = ((extent - self.side) // 2 for extent in image.size)
            part = image.convert("RGB").crop((left, top, left + self.side, top + self.side))
        return torch.from_numpy(np.array(part)).permute(2, 0, 1).contiguous()


class Labelled(Dataset[tuple[Tensor, Tensor]]):
    """Items with their labels, for the plain loop."""

    def __init__(self, items: Dataset[Tensor], y: Tensor) -> None:
        self.items, self.y = items, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.items[row], self.y[row]


def make_files(folder: Path, count: int, side: int) -> list[Path]:
    """Make JPEG files of smooth random images, in all processes that there are."""
    paths = [folder / f"{number:06d}.jpg" for number in range(count)]
    with multiprocessing.get_context("fork").Pool() as pool:
        pool.starmap(make_file, [(path, number, side) for number, path in enumerate(paths)], chunksize=64)
    return paths


def make_file(path: Path, number: int, side: int) -> None:
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8))
    coarse.resize((side, side), Image.Resampling.BICUBIC).save(path, quality=85)


def labels(count: int) -> Tensor:
    return torch.randint(1000, (count,), generator=torch.Generator().manual_seed(0))


def run_plain(options: argparse.Namespace, x: Tensor | Photos, device: torch.device) -> list[float]:
    """Train with a plain loop."""
    torch.manual_seed(0)
    trunk = Trunk(options.smoke)
    network = nn.Sequential(trunk, nn.Linear(trunk.features, 1000)).to(device)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's types
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    y, count, ends = labels(len(x)), len(x), []
    epochs = [torch.randperm(count).split(options.batch) for _ in range(3)]
    if isinstance(x, Tensor):
        on_device = y.to(device)
        batches = ((x[part], on_device[part]) for epoch in epochs for part in (rows.to(device) for rows in epoch))
    else:
        loader = DataLoader(
            Labelled(x, y),
            batch_sampler=[rows.tolist() for epoch in epochs for rows in epoch],
            num_workers=options.workers,
            pin_memory=device.type == "cuda",
        )
        batches = ((a.to(device, non_blocking=True), b.to(device, non_blocking=True)) for a, b in loader)
    for step, (inputs, target) in enumerate(batches, 1):
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(network(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % len(epochs[0]) == 0:
            ends.append(finish(device))
    return ends


def run_fit(
    name: str, options: argparse.Namespace, x: Tensor | Photos, settings: Settings, device: torch.device
) -> list[float]:
    """Train with `fit`."""
    torch.manual_seed(0)
    count, ends = len(x), []
    parts = Parts(
        lambda: Trunk(options.smoke),
        features=Trunk(options.smoke).features,
        privileged=PRIVILEGED,
        outputs=1000,
        likelihood=Categorical(),
    )
    data = Annotations(x, torch.arange(count), torch.randn(count, PRIVILEGED), labels(count))
    fit(build(name, parts), data, settings, device=device, callbacks=[lambda *_: ends.append(finish(device))])
    return ends


def finish(device: torch.device) -> float:
    """Wait for the device, and return the time."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.monotonic()


if __name__ == "__main__":
    main()
