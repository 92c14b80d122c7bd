"""Call functions in several processes, which end with their parent process, or on a cluster."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol, TypeVar

import joblib

Result = TypeVar("Result")
INTERVAL = 0.1
"""Seconds between two checks whether the parent is alive."""


class Cluster(Protocol):
    """A cluster of machines that call functions."""

    @property
    def workers(self) -> int:
        """Number of workers."""

    def run(self, calls: Sequence[partial[Any]]) -> Iterator[tuple[int, Any]]:
        """Call functions; yield the index and the result of each as soon as it has returned."""


@contextmanager
def open_cluster(address: str | None) -> Iterator[Cluster | None]:
    """Connect to a Dask cluster; without an address, yield None.

    Parameters
    ----------
    address : str, optional
        The address of the scheduler, such as ``tcp://10.0.0.1:8786``. This needs the extra `cluster`.

    Examples
    --------
    >>> with open_cluster(None) as cluster:
    ...     cluster is None
    True
    """
    if address is None:
        yield None
        return
    try:
        from lupi._internal.cluster import connect
    except ImportError as error:
        raise ImportError(f"Expected the extra `cluster` (pip install 'lupi[cluster]'), but {error}.") from error
    with connect(address) as cluster:
        yield cluster


def run_parallel(
    calls: Sequence[Callable[[], Result]], jobs: int, cluster: Cluster | None = None
) -> Iterator[tuple[int, Result]]:
    """Call functions with joblib, and yield the index and the result of each as soon as it has returned.

    Parameters
    ----------
    calls : sequence of callable
        The functions; results should not depend on which process calls them.
    jobs : int
        Number of processes; -1 for one per core. At most one process per function is started.
    cluster : Cluster, optional
        Result of `open_cluster`. Its workers call the functions, whatever `jobs` is.

    Examples
    --------
    >>> sorted(run_parallel([lambda: "a", lambda: "b"], jobs=1))
    [(0, 'a'), (1, 'b')]
    """
    if cluster is not None:
        yield from cluster.run([call if isinstance(call, partial) else partial(call) for call in calls])
        return
    # loky warns in the thread that replaces a worker. As an error, the warning would end the thread, and we would wait
    # forever. That thread sees only the filters of the whole process.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
    workers = max(1, min(joblib.effective_n_jobs(jobs), len(calls)))
    work = (joblib.delayed(_call)(place, call, os.getpid()) for place, call in enumerate(calls))
    with ignore_interrupts() if workers > 1 else nullcontext():
        results = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")(work)
    yield from results


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C within a block. Processes started there ignore it too, since their parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change signal handlers
        return
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


def _call(place: int, call: Callable[[], Any], parent: int) -> tuple[int, Any]:
    """Call a function in a process that ends with its parent."""
    end_with_parent(parent)
    return place, call()


def end_with_parent(parent: int) -> None:
    """End this process when its parent dies, if that is the process with number `parent`."""
    name = "end with parent"
    if os.getppid() != parent or any(thread.name == name for thread in threading.enumerate()):
        return  # the parent itself, a scheduler's process, or not the first call

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, name=name, daemon=True).start()
