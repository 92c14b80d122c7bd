import scipy.linalg  # noqa: F401 - loads BLAS
from threadpoolctl import threadpool_info, threadpool_limits

from lupi._internal.blas import one_thread


def count_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_inside_and_its_own_number_afterwards():
    with threadpool_limits(2, user_api="blas"):
        with one_thread():
            assert count_threads() == {1}
        assert count_threads() == {2}
