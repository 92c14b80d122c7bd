"""Call functions in several processes, which end with their parent process, or on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import joblib

from lupi._internal.checks import import_extra
from lupi._internal.files import library_versions

if TYPE_CHECKING:
    from distributed import Client, Future

Cluster = Any
"""A `distributed.Client`; the library is optional."""
Result = TypeVar("Result")
PARENT_CHECK_SECONDS = 0.1
"""Seconds between two checks whether the parent is alive."""
CONNECTION_SECONDS = 5.0
"""Seconds to wait for the scheduler of a cluster, and for its first worker."""
SMALL_TYPES = (type(None), bool, int, float, str, range)
"""Types of arguments that are sent to a cluster with each call."""


def run_parallel(
    calls: Sequence[Callable[[], Result]], jobs: int, cluster: Client | None = None
) -> Iterator[tuple[int, Result]]:
    """Call functions, and yield the index and the result of each as soon as it has returned.

    At most one process per function is started. With a cluster, its workers call the functions, whatever `jobs` is.
    """
    if cluster is not None:
        yield from run_on_cluster(cluster, [call if isinstance(call, partial) else partial(call) for call in calls])
        return
    # loky warns in the thread that replaces a worker. As an error, the warning would end the thread, and we would wait
    # forever. That thread sees only the filters of the whole process.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
    workers = max(1, min(joblib.effective_n_jobs(jobs), len(calls)))
    work = (joblib.delayed(_call)(place, call) for place, call in enumerate(calls))
    start: Any = {"initializer": end_with_parent, "initargs": (os.getpid(),)} if workers > 1 else {}
    with ignore_interrupts() if workers > 1 else nullcontext():
        results = joblib.Parallel(n_jobs=workers, return_as="generator_unordered", **start)(work)
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


def _call(place: int, call: Callable[[], Result]) -> tuple[int, Result]:
    """Call a function, and return its place too."""
    return place, call()


def end_with_parent(parent: int) -> None:
    """End this worker process when its parent dies. A worker calls this first, before it imports what calls need."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


@contextmanager
def open_cluster(address: str | None) -> Iterator[Client | None]:
    """Connect to a Dask cluster and check its workers; without an address, yield None."""
    if address is None:
        yield None
        return
    distributed = import_extra("distributed", "cluster")
    for name in ("distributed.client", "tornado.application"):  # lost tasks are repeated, and errors are raised
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=CONNECTION_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        why = str(error).rstrip(".")
        raise ValueError(
            f"Expected `cluster` to be the address of a Dask scheduler, but got {address!r}: {why}."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECTION_SECONDS)
        except TimeoutError:
            raise ValueError(f"Expected `cluster` to have workers, but {address} has none.") from None
        try:
            client.run(check_versions, needed_versions())
        except ImportError as error:
            raise ValueError(f"Expected the workers of `cluster` to have lupi, but one raised: {error}.") from None
        yield client


def run_on_cluster(client: Client, calls: Sequence[partial[Any]]) -> Iterator[tuple[int, Any]]:
    """Call functions on the workers of a cluster; calls on workers that die are repeated on other workers."""
    from distributed import CancelledError, KilledWorker, as_completed

    shared, versions = send_shared(client, calls), needed_versions()
    places: dict[Future[Any], int] = {}
    for place, call in enumerate(calls):
        args = [shared.get(id(value), value) for value in call.args]
        places[client.submit(check_and_call, versions, call.func, *args, pure=False, **call.keywords)] = place
    try:
        for future in as_completed(list(places), loop=client.loop):
            yield places.pop(future), future.result()
    except KilledWorker:
        raise OSError(
            "Expected the workers of `cluster` to live, but one training ended several of them; they may need more "
            "memory."
        ) from None
    except CancelledError:
        raise OSError("Expected the scheduler of `cluster` to live, but the connection is lost.") from None
    finally:
        client.cancel(list(places))


def send_shared(client: Client, calls: Sequence[partial[Any]]) -> dict[int, Future[Any]]:
    """Send each argument that several calls share to the scheduler once, as a task that returns it, by its id.

    Workers get them from there and from each other. Scattered data would be lost if their worker died.
    """
    import cloudpickle
    import dask

    arguments = {id(value): value for call in calls for value in call.args}
    uses = Counter(id(value) for call in calls for value in call.args)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        return {
            key: client.submit(cloudpickle.loads, cloudpickle.dumps(value), pure=False)
            for key, value in arguments.items()
            if uses[key] > 1 and not isinstance(value, SMALL_TYPES)
        }


def check_and_call(versions: Mapping[str, str], call: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Call a function on a worker, which may have joined the cluster after its workers were checked."""
    check_versions(versions)
    return call(*args, **more)


def check_versions(expected: Mapping[str, str]) -> None:
    """Raise a `ValueError` unless this process, a worker, has the expected versions."""
    for name, version in needed_versions().items():
        if version != expected[name]:
            raise ValueError(
                f"Expected the workers of `cluster` to have {name} {expected[name]}, but one has {version}."
            )


def needed_versions() -> dict[str, str]:
    """Return the versions of this process that all processes of a comparison must have."""
    versions = library_versions()
    return {name: versions[name] for name in ("lupi", "torch")} | {"Python": versions["python"].rpartition(".")[0]}
