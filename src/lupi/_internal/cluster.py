"""Call functions on the workers of a Dask cluster, with joblib. This needs the extra `cluster`."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import cloudpickle
import dask
import joblib
from distributed import Client, KilledWorker, Security, get_worker
from distributed.comm.core import connect as reach
from joblib._dask import DaskDistributedBackend  # joblib registers it as "dask"

from lupi._internal.versions import library_versions

WAIT = 5.0
"""Seconds to wait for the scheduler, and for its first worker."""
SMALL = (type(None), bool, int, float, str, range)
"""Types of arguments that are sent with each call."""


class Backend(DaskDistributedBackend):
    """The Dask backend of joblib, with two fixes.

    joblib waits forever for a task that Dask has given up, and calls functions in this process if there is only one
    worker.
    """

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Return the number of workers, or two."""
        return max(2, int(super().effective_n_jobs(n_jobs)))

    def submit(self, func: Any, callback: Any = None) -> Any:
        """Submit a task; the callback is also called with the error of a task that Dask has given up."""
        future = super().submit(func, callback)
        future.add_done_callback(lambda done: done.exception() and callback(done.exception()))
        return future

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the result of a task, or raise its error."""
        if isinstance(out, BaseException):
            raise out
        return super().retrieve_result_callback(out)


class DaskCluster:
    """A connection to a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    address : str
        The address that the user gave.
    """

    def __init__(self, client: Client, address: str) -> None:
        self.client, self.address = client, address
        self.sent: dict[int, tuple[Any, Any]] = {}

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.client.nthreads())

    def run(self, calls: Sequence[partial[Any]]) -> Iterator[tuple[int, Any]]:
        """Call functions on the workers; yield the index and the result of each as soon as it has returned.

        Shared arguments are sent to the scheduler once. Calls on workers that die are repeated on other workers.
        """
        self.send_shared(calls)
        versions = needed_versions()
        work = (
            joblib.delayed(check_and_call)(
                place, versions, call.func, list(map(self.replace, call.args)), call.keywords
            )
            for place, call in enumerate(calls)
        )
        with joblib.parallel_config(backend=Backend(client=self.client)):
            results = joblib.Parallel(batch_size=1, return_as="generator_unordered")(work)
        try:
            yield from results
        except KilledWorker:
            raise OSError(
                f"Expected the workers of {self.address} to live, but one training ended several of them; "
                "they may need more memory."
            ) from None
        except CancelledError:
            raise OSError(f"Expected the scheduler at {self.address} to live, but the connection is lost.") from None

    def send_shared(self, calls: Sequence[partial[Any]]) -> None:
        """Send the arguments that several calls share to the scheduler, as tasks that return them.

        Workers get them from there and from each other. Scattered data would be lost if their worker died, since Dask
        soon deletes all copies but one.
        """
        arguments = {id(value): value for call in calls for value in call.args}
        uses = Counter(id(value) for call in calls for value in call.args)
        for key, value in arguments.items():
            if uses[key] > 1 and key not in self.sent and not isinstance(value, SMALL):
                with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
                    future = self.client.submit(cloudpickle.loads, cloudpickle.dumps(value), pure=False)
                self.sent[key] = value, future  # keep the value alive, so that no other object gets its id

    def replace(self, value: Any) -> Any:
        """Return the future of an argument that was sent, or the argument itself."""
        return self.sent[id(value)][1] if id(value) in self.sent else value


def check_and_call(
    place: int, versions: Mapping[str, str], call: Callable[..., Any], args: Sequence[Any], more: Mapping[str, Any]
) -> tuple[int, Any]:
    """Call a function on a worker, which may have joined the cluster after its workers were checked."""
    check_worker(needed_versions(), get_worker().state.nthreads, versions)
    return place, call(*args, **more)


def needed_versions() -> dict[str, str]:
    """Return the versions of this process that all processes of a comparison must have.

    Examples
    --------
    >>> list(needed_versions())
    ['lupi', 'torch', 'Python']
    """
    versions = library_versions()
    return {name: versions[name] for name in ("lupi", "torch")} | {"Python": versions["python"].rpartition(".")[0]}


def check_worker(found: Mapping[str, str], threads: int, expected: Mapping[str, str]) -> None:
    """Raise a `ValueError` unless a worker has the expected versions and one thread.

    Training in several threads of one process would share a random number generator.

    Examples
    --------
    >>> check_worker({"torch": "2.6.0"}, 1, {"torch": "2.7.0"})
    Traceback (most recent call last):
    ...
    ValueError: Expected the workers of `cluster` to have torch 2.7.0, but one has 2.6.0.
    """
    for name, version in expected.items():
        if found[name] != version:
            raise ValueError(f"Expected the workers of `cluster` to have {name} {version}, but one has {found[name]}.")
    if threads > 1:
        raise ValueError(
            f"Expected the workers of `cluster` to have one thread each, but one has {threads}; start them with "
            "dask worker ADDRESS --nthreads 1 --nworkers NUMBER."
        )


async def try_to_connect(address: str) -> None:
    """Try to connect to a scheduler. A `Client` that fails to connect would fail again, slowly, when it is deleted."""
    secrets = Security().get_connection_args("client")  # from Dask's configuration, as for a `Client`
    try:
        comm = await asyncio.wait_for(reach(address, timeout=WAIT, **secrets), 2 * WAIT)
    except TimeoutError:
        raise OSError("it does not answer as one") from None
    comm.abort()


@contextmanager
def connect(address: str) -> Iterator[DaskCluster]:
    """Connect to a cluster and check its workers; raise an error with one sentence if that fails."""
    for name in ("distributed.client", "tornado.application"):  # lost tasks are repeated, and errors are raised
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with ThreadPoolExecutor(1) as other:  # there may be an event loop in this thread
            other.submit(asyncio.run, try_to_connect(address)).result()
    except (OSError, ValueError, TypeError) as error:
        why = str(error).rstrip(".")
        raise ValueError(
            f"Expected `cluster` to be the address of a Dask scheduler, but got {address!r}: {why}."
        ) from None
    with Client(address, timeout=WAIT, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=WAIT)
        except TimeoutError:
            raise ValueError(f"Expected `cluster` to have workers, but {address} has none.") from None
        own, threads = needed_versions(), client.nthreads()
        for worker, found in client.run(needed_versions, on_error="return").items():
            if isinstance(found, Exception):
                raise ValueError(
                    f"Expected the workers of `cluster` to have lupi {own['lupi']}, but {worker} raised: {found}."
                )
            check_worker(found, threads.get(worker, 1), own)
        yield DaskCluster(client, address)
