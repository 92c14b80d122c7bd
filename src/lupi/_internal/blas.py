"""Keep BLAS to one thread where matrices are small."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock

from threadpoolctl import ThreadpoolController

LOCK = RLock()
"""Held while BLAS is limited: a thread that enters meanwhile would take the limit for the usual number of threads."""


@cache
def find_libraries() -> ThreadpoolController:
    """Find the libraries with thread pools; the search takes milliseconds, so it is done once."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use a single thread.

    SciPy's optimizers call BLAS thousands of times with a few numbers. Waking other threads takes far longer than the
    work, above all if the cores are busy.
    """
    with LOCK, find_libraries().limit(limits=1, user_api="blas"):
        yield
