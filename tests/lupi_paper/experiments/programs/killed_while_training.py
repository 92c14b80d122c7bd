"""Run the command `lupi` with these arguments in two processes, which are forks of this one.

Each line of standard input is a JSON pair: environment variables, and the number of checkpoints after which both
processes are killed, or null. The exit code of the first process, or minus its signal, and what it wrote to standard
error follow as a line of JSON. This process imports what the others need.
"""

import json
import os
import signal
import sys
import tempfile
import traceback

import lightning.fabric.strategies.ddp  # noqa: F401
import torch._dynamo  # noqa: F401 - the first step of an optimizer imports it

import lupi_paper.experiments.relabelled_images  # noqa: F401
from lupi.cli import app
from lupi.training import Checkpoint

write = Checkpoint.write
written = 0


def die_after(count):
    """Kill the process group after some checkpoints have been written."""

    def write_and_die(self, state):
        global written
        write(self, state)
        written += 1
        if written == count:
            os.killpg(0, signal.SIGKILL)

    Checkpoint.write = write_and_die


def start(rank, group, variables, count, errors):
    """Run the command in a fork, and return its process number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, group)
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            os.environ.update(variables | {"NODE_RANK": "0", "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"})
            if count is not None:
                die_after(count)
            app(sys.argv[1:])
        except SystemExit as done:
            code = done.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    os.setpgid(child, group or child)
    return child


if __name__ == "__main__":
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as errors:
            first = start(0, 0, *json.loads(line), errors.fileno())
            second = start(1, first, *json.loads(line), errors.fileno())
            code, _ = (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in (first, second))
            errors.seek(0)
            print(json.dumps([code, errors.read()]), flush=True)
