"""Choose the device and the number of threads of torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch

LOCK = RLock()
"""Held while torch is limited: another thread would mistake the limit for the usual number of threads."""


def check_device(device: Any) -> None:
    """Raise a `ValueError` unless this machine has the device."""
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"Expected `device` to be a torch device such as 'cpu' or 'cuda', but got {device!r}."
        ) from None
    gpus = torch.cuda.device_count() if known.type == "cuda" and torch.cuda.is_available() else 0
    if (known.type == "cuda" and (known.index or 0) < gpus) or known.type == "cpu":
        return  # do not try the GPU, which would take memory on it in every process that checks
    why = f"torch sees {gpus or 'no'} GPU{'s' if gpus > 1 else ''}"
    if known.type != "cuda":
        try:
            torch.zeros(1, device=known).item()
        except Exception:  # each kind of device raises another error
            why = "torch cannot compute on it"
        else:
            return
    raise ValueError(f"Expected `device` to be a device of this machine, but got {str(device)!r} and {why}.")


def pick_device(name: str) -> torch.device:
    """Return a device by name; "auto" is a GPU if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    check_device(name)
    return torch.device(name)


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
