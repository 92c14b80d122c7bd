"""Call functions in two processes that keep 400 MB after each call, so that loky replaces them."""

import time
from functools import partial

from lupi._internal.parallel import run_parallel


def grow(number: int) -> int:
    vars(time).setdefault("kept", []).append(b"x" * 400_000_000)  # globals of this file travel with each call
    time.sleep(1.1)  # loky looks at the memory of a process once a second
    return number


if __name__ == "__main__":
    print(sorted(number for _, number in run_parallel([partial(grow, number) for number in range(6)], jobs=2)))
