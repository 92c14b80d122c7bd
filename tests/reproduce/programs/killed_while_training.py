"""Run the command `lupi` with these arguments, and kill all its processes after some checkpoints have been written."""

import os
import signal
import sys

from lupi.cli import app
from lupi.training import Checkpoint

write = Checkpoint.write
written = 0


def write_and_die(self, state):
    global written
    write(self, state)
    written += 1
    if written == int(os.environ["DIE_AFTER"]):
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    Checkpoint.write = write_and_die
    app(sys.argv[1:])
