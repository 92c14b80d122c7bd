"""Random numbers in training, such as dropout: seeded for a run, and restored afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def seed_noise(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators, and restore them on exit.

    Parameters
    ----------
    seed : int
        The seed.
    device : torch.device
        The device whose generator is seeded, besides the CPU's.

    Examples
    --------
    >>> with seed_noise(0, torch.device("cpu")):
    ...     first = torch.randn(1)
    >>> with seed_noise(0, torch.device("cpu")):
    ...     bool(torch.randn(1) == first)
    True
    """
    devices = [device] if device.type == "cuda" else []  # the default is all GPUs, which costs memory on each
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        for used in devices:
            with torch.cuda.device(used):
                torch.cuda.manual_seed(seed)
        yield


def get_noise_state(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators, by kind of device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_noise_state(states: dict[str, Tensor], device: torch.device) -> None:
    """Restore the states of the generators."""
    torch.set_rng_state(states["cpu"].clone())  # torch crashes on a slice of a larger tensor
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].clone(), device)
