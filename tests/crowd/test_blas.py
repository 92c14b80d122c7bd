from threading import Barrier, Thread

import pytest
import scipy.linalg  # noqa: F401 - loads BLAS
from threadpoolctl import threadpool_info, threadpool_limits

from lupi.crowd.inference import one_blas_thread


@pytest.fixture(autouse=True)
def two_threads():
    usual = threadpool_limits(2, user_api="blas")
    with threadpool_limits(2, user_api="blas"):
        pass  # at the end of a block, other threads may set limits
    yield
    with usual:
        pass


def count_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_inside_and_its_own_number_afterwards():
    with one_blas_thread():
        assert count_threads() == {1}
    assert count_threads() == {2}


def test_threads_that_meet_do_not_leave_the_limit_behind():
    counts, start = [], Barrier(2)

    def work():
        start.wait()
        for _ in range(20):
            with one_blas_thread():
                counts.append(count_threads())

    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [{1}] * 40
    assert count_threads() == {2}
