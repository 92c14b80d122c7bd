import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import joblib
import pytest
from joblib.externals.loky import get_reusable_executor

from lupi._internal.parallel import run_parallel


def until(condition, seconds=60):
    """Wait for a condition that holds after a moment, or never."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def is_alive(number):
    try:
        return "State:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(kill, tmp_path):
    program = Path(__file__).parent / "programs" / "work_in_parallel.py"
    parent = subprocess.Popen([sys.executable, program, tmp_path], stderr=subprocess.DEVNULL)
    assert until(lambda: all((tmp_path / name).exists() for name in ("one", "two")))
    workers = [int((tmp_path / name).read_text()) for name in ("one", "two")]
    assert parent.pid not in workers
    assert all(map(is_alive, workers))
    parent.send_signal(kill)
    assert parent.wait() == -kill
    assert until(lambda: not any(map(is_alive, workers)))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_end_with_a_parent_that_dies_while_they_import(tmp_path):
    program = Path(__file__).parent / "programs" / "import_in_parallel.py"
    parent = subprocess.Popen([sys.executable, program, tmp_path], stderr=subprocess.DEVNULL)
    assert until(lambda: any(tmp_path.glob("importing-*")))
    workers = [int(path.name.removeprefix("importing-")) for path in tmp_path.glob("importing-*")]
    parent.kill()
    parent.wait()
    assert until(lambda: not any(map(is_alive, workers)), seconds=10)


@pytest.mark.parametrize(("jobs", "calls", "started"), [(8, 2, 2), (2, 3, 2), (4, 1, 1), (3, 0, 1)])
def test_no_more_workers_start_than_there_is_work(jobs, calls, started, monkeypatch):
    asked = []

    class Parallel(joblib.Parallel):
        def __init__(self, n_jobs, return_as, **_):
            asked.append(n_jobs)
            super().__init__(n_jobs=1, return_as=return_as)

    monkeypatch.setattr(joblib, "Parallel", Parallel)
    found = list(run_parallel([partial(pow, 2, place) for place in range(calls)], jobs))
    assert found == [(place, 2**place) for place in range(calls)]
    assert asked == [started]


def test_all_cores_are_no_more_than_the_work(monkeypatch):
    monkeypatch.setattr(joblib, "effective_n_jobs", lambda jobs: 64 if jobs == -1 else jobs)
    processes = {number for _, number in run_parallel([os.getpid] * 3, jobs=-1)}
    assert len(processes) <= 3
    assert os.getpid() not in processes


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_for_the_parent_alone():
    """Workers that Ctrl-C reached while they start would print a traceback each."""
    look = partial(signal.getsignal, signal.SIGINT)
    usual = look()
    get_reusable_executor().shutdown(kill_workers=True)  # workers of earlier tests
    assert [handler for _, handler in run_parallel([look] * 2, jobs=2)] == [signal.SIG_IGN] * 2
    assert look() == usual == signal.default_int_handler


def test_workers_that_are_replaced_lose_nothing_where_warnings_are_errors():
    """loky warns in the thread that replaces a worker; as an error, the warning would end it: nothing would return."""
    pytest.importorskip("psutil")  # without it loky replaces nobody
    program = Path(__file__).parent / "programs" / "grow_in_parallel.py"
    options = {"capture_output": True, "text": True, "timeout": 100}
    result = subprocess.run([sys.executable, "-W", "error::UserWarning", program], **options)
    assert result.stdout == "[0, 1, 2, 3, 4, 5]\n", result.stderr
    assert result.stderr == ""
