"""Start two workers that take a minute to import the function they are to call."""

import os
import sys
import time
from pathlib import Path

from lupi._internal.parallel import run_parallel


class Slow:
    """A call that is slow to unpickle, as one that imports torch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __setstate__(self, state: dict[str, Path]) -> None:
        (state["folder"] / f"importing-{os.getpid()}").touch()
        time.sleep(60)

    def __call__(self) -> None:
        """Return nothing."""


if __name__ == "__main__":
    list(run_parallel([Slow(Path(sys.argv[1])) for _ in range(2)], jobs=2))
