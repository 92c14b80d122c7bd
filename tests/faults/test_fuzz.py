"""A sample of the hostile cases that `make fuzz` runs by the thousands, full disks and two writers."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_hostile_cases_end_with_a_result_or_a_sentence():
    options = ["--cases", "60", "--real", "1", "--scenarios", "60", "--jobs", "2"]
    command = [sys.executable, "-m", "tests.faults.fuzz", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", errors="replace")
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]
    assert "60 cases" not in done.stdout  # the others ran as well
    assert "two-writers-train" in done.stdout
