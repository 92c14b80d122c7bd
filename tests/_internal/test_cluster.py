"""Functions on a Dask cluster."""

import os
import threading
from functools import partial

import pytest

from lupi._internal import parallel
from lupi._internal.parallel import open_cluster, run_parallel

distributed = pytest.importorskip("distributed")


@pytest.fixture
def threads():
    """A cluster of one worker in this process, with a number of threads."""
    made = []

    def start(count, workers=1):
        options = {"n_workers": workers, "threads_per_worker": count, "processes": False, "protocol": "tcp"}
        made.append(distributed.LocalCluster(dashboard_address=":0", **options))
        return made[-1].scheduler_address

    yield start
    for one in made:
        one.close()


class Counted:
    """Counts how often it is pickled."""

    pickled = 0

    def __reduce__(self):
        Counted.pickled += 1
        return Counted, ()


def third(_, number, *, factor):
    return factor * number


def test_calls_come_back_with_their_places_and_what_they_share_is_sent_once(cluster):
    shared = Counted()
    with open_cluster(cluster) as workers:
        calls = [partial(third, shared, number, factor=10) for number in range(6)]
        assert sorted(run_parallel(calls, 1, workers)) == [(place, 10 * place) for place in range(6)]
        processes = {number for _, number in run_parallel([os.getpid] * 4, 1, workers)}
    assert Counted.pickled == 1
    assert os.getpid() not in processes
    assert len(processes) <= 2


def test_one_worker_is_enough_and_does_the_work(threads):
    with open_cluster(threads(1)) as workers:
        found = run_parallel([threading.get_ident] * 2, 1, workers)
        assert threading.get_ident() not in {ident for _, ident in found}


def test_errors_of_functions_are_raised_here(cluster):
    with (
        open_cluster(cluster) as workers,
        pytest.raises(ValueError, match=r"invalid literal for int\(\) with base 10: 'x'"),
    ):
        list(run_parallel([partial(int, "x")], 1, workers))


def test_a_call_that_ends_workers_ends_too(cluster):
    with open_cluster(cluster) as workers, pytest.raises(OSError, match="one training ended several of them"):
        list(run_parallel([os.abort], 1, workers))


def test_workers_need_the_same_versions(cluster, monkeypatch):
    usual = parallel.library_versions()
    for name in ("lupi", "torch", "python"):
        monkeypatch.setattr(parallel, "library_versions", lambda name=name: {**usual, name: "0.0.0"})
        expected = rf"to have (?i:{name}) 0\.0(\.0)?, but one has \d"
        with pytest.raises(ValueError, match=expected), open_cluster(cluster):
            pass


def test_a_worker_that_joins_later_is_checked_too(cluster, monkeypatch):
    with open_cluster(cluster) as workers:
        monkeypatch.setattr(parallel, "needed_versions", lambda: {"lupi": "0.0", "torch": "0.0", "Python": "0.0"})
        with pytest.raises(ValueError, match=r"to have lupi 0\.0, but one has \d"):
            list(run_parallel([os.getpid], 1, workers))


def test_a_cluster_needs_workers(threads, monkeypatch):
    monkeypatch.setattr(parallel, "CONNECTION_SECONDS", 1.0)
    with pytest.raises(ValueError, match="Expected `cluster` to have workers"), open_cluster(threads(1, workers=0)):
        pass
