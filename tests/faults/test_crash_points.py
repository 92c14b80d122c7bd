"""Whatever a command was writing when it died, the same command gives the result of an uninterrupted run, bit for bit.

CI dies at a few points of a few commands. With the environment variable `LUPI_CRASH_POINTS` set to `all`, all commands
die at every write call; with a number, at that number of points each. `make nightly` sets it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.programs.crash_points import CASES

FEW = ("train again", "train with checkpoints", "compare again", "predict again")
"""Cases of CI, with two points each."""
POINTS = os.environ.get("LUPI_CRASH_POINTS")
SHARES = [f"{share}/8" for share in range(1, 9)] if POINTS == "all" else [POINTS or "2"]
"""The points of a case in parts, since all of them take longer than a test may on a busy machine."""


@pytest.fixture(scope="module")
def program():
    """The running program of that name, which imports what commands need only once."""
    path = Path(__file__).parent / "programs" / "crash_points.py"
    started = subprocess.Popen(
        [sys.executable, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    yield started
    started.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("points", SHARES)
@pytest.mark.parametrize("case", CASES if POINTS else FEW)
def test_a_command_that_died_gives_the_same_when_run_again(case, points, program, tmp_path):
    program.stdin.write(json.dumps([str(tmp_path / "points"), case, points]) + "\n")
    program.stdin.flush()
    found = json.loads(program.stdout.readline())
    assert found["wrong"] == {}
    assert found["points"] >= found["checked"] >= 1
