"""Start two workers that write down their process numbers, and that nothing but the death of their parent ends soon."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from lupi._internal.parallel import run_parallel


def wait(folder, name):
    (folder / f"{name}.tmp").write_text(str(os.getpid()))
    (folder / f"{name}.tmp").rename(folder / name)
    time.sleep(300)


if __name__ == "__main__":
    list(run_parallel([partial(wait, Path(sys.argv[1]), name) for name in ("one", "two")], jobs=2))
