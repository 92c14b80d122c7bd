"""Random numbers that follow from a seed and leave torch's global generators as they were."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

turn = threading.RLock()
"""Lock of the thread that uses torch's global generators: what is seeded in threads of one process takes turns."""


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's global generators, of the CPU and of a GPU, within a block; restore them on exit."""
    device = torch.device(device)
    gpus = [find_gpu(device)] if device.type == "cuda" else []
    with turn, torch.random.fork_rng(gpus):
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` would also seed every other device
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


def get_random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Return the states of the generators of the CPU and, if the device is one, of a GPU."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(find_gpu(device))
    return states


def set_random_state(device: torch.device, states: dict[str, torch.Tensor]) -> None:
    """Restore what `get_random_state` returned; states of other devices are ignored."""
    torch.set_rng_state(states["cpu"].clone())  # torch crashes on a slice of a larger tensor
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].clone(), find_gpu(device))


def find_gpu(device: torch.device) -> int:
    """Return the number of a GPU, that of the current one if the device has none."""
    return torch.cuda.current_device() if device.index is None else device.index
