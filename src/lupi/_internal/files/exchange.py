"""Exchange two folders atomically, for which Python has no function."""

import ctypes
import errno
import os
import sys
from pathlib import Path

HERE = -100
"""AT_FDCWD: relative paths are relative to the working directory."""
EXCHANGE = 2
"""RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS."""
UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths atomically; change nothing and return False if the operating system cannot."""
    system = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(system, "renameat2"):
        failed = system.renameat2(HERE, names[0], HERE, names[1], EXCHANGE)
    elif sys.platform == "darwin":
        failed = system.renamex_np(*names, EXCHANGE)
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(other))
