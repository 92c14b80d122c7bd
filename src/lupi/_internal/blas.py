"""Keep BLAS to one thread where matrices are small."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def find_libraries() -> ThreadpoolController:
    """Find the libraries with thread pools; the search takes milliseconds, so it is done once."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Let BLAS use a single thread.

    SciPy's optimizers call BLAS thousands of times with a few numbers. Waking other threads takes far longer than the
    work, above all if the cores are busy.

    Examples
    --------
    >>> from scipy.optimize import minimize
    >>> with one_thread():
    ...     minimize(lambda t: (t[0] - 3) ** 2, [0.0], method="L-BFGS-B").x.round(3).tolist()
    [3.0]
    """
    return find_libraries().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]
