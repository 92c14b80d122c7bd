"""Set how torch computes: the device, the number of threads, random numbers and evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from torch import nn

LOCK = RLock()
"""Held while torch's global state is changed, its number of threads or its generators: Python threads take turns."""


def pick_device(device: str | torch.device) -> torch.device:
    """Return a device by name, or raise a `ValueError` if this machine does not have it.

    Parameters
    ----------
    device : str
        A torch device such as "cpu" or "cuda:1"; "auto" for a GPU if there is one, else the CPU.

    Examples
    --------
    >>> pick_device("cpu")
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"Expected `device` to be 'auto' or a torch device such as 'cpu' or 'cuda', but got {device!r}."
        ) from None
    gpus = torch.cuda.device_count() if known.type == "cuda" and torch.cuda.is_available() else 0
    if (known.type == "cuda" and (known.index or 0) < gpus) or known.type == "cpu":
        return known  # do not try the GPU, which would take memory on it in every process that checks
    why = f"torch sees {gpus or 'no'} GPU{'s' if gpus > 1 else ''}"
    if known.type != "cuda":
        try:
            torch.zeros(1, device=known).item()
        except Exception:  # each kind of device raises another error
            why = "torch cannot compute on it"
        else:
            return known
    raise ValueError(f"Expected `device` to be a device of this machine, but got {str(device)!r} and {why}.")


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread, so that small networks train faster and parallel jobs do not compete for cores.

    torch's number of threads is global to the process, so Python threads wait for one another.
    """
    with LOCK:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's global generators, of the CPU and of a GPU, within a block; restore them on exit."""
    device = torch.device(device)
    gpus = [find_gpu(device)] if device.type == "cuda" else []
    with LOCK, torch.random.fork_rng(gpus):
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


@contextmanager
def evaluation(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode and disable gradients; restore the mode of every submodule on exit."""
    training = [part for part in module.modules() if part.training]
    if training:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True
