"""`lupi compare --cluster`: the results are those of one process, whoever dies."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import refused, run

distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(0)
N = 60
LONG = 200
"""Seconds to wait on a busy machine."""
RUNS = 42
"""Runs of six arms and of the model of held-out labels."""
TABLE = pd.DataFrame({"id": np.repeat(np.arange(N), 2), "size": np.repeat(RNG.normal(size=N), 2)})
TABLE["annotator"] = RNG.choice(list("abcd"), 2 * N)
TABLE["label"] = np.where((TABLE["size"] > 0) ^ (RNG.random(2 * N) < 0.2), "yes", "no")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "table.parquet"
    TABLE.to_parquet(path)
    return path


def options(table, folder, *more):
    roles = ["--target", "label", "--privileged", "annotator", "--example", "id"]
    how = ["--methods", "tram", "--seeds", 6, "--epochs", 3, "--jobs", 1, "-o", table.parent / folder]
    return [str(option) for option in ["compare", table, *roles, *how, *more]]


@pytest.fixture(scope="module")
def alone(table):
    """The results of one process."""
    result = run(*options(table, "alone"))
    assert result.exit_code == 0, result.output
    return read_results(table.parent / "alone")


def read_results(folder):
    tables = [pd.read_csv(folder / name).drop(columns="seconds") for name in ("results.csv", "summary.csv")]
    return [*tables, pd.DataFrame({"notes": json.loads((folder / "results.json").read_text())["notes"]})]


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def list_runs(folder):
    return {path.name: path.read_bytes() for path in folder.glob("runs/[!.]*.npz")}


def wait_for_runs(folder):
    until = time.monotonic() + LONG
    while not list_runs(folder) and time.monotonic() < until:
        time.sleep(0.01)
    assert 0 < len(list_runs(folder)) < RUNS


def find_busy_worker(cluster):
    """Return the process number of a worker that is training."""
    with distributed.Client(cluster, set_as_default=False) as client:
        numbers = client.run(os.getpid)
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            for worker, tasks in client.processing().items():
                if tasks and worker in numbers:
                    return numbers[worker]
    raise AssertionError("no worker is training")


def wait_until_idle(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        until = time.monotonic() + LONG
        while any(client.processing().values()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(client.processing().values())
        time.sleep(0.5)


def test_a_killed_worker_loses_nothing(table, alone, cluster):
    folder, runs = table.parent / "run", []

    def kill_worker():
        wait_for_runs(folder)
        os.kill(find_busy_worker(cluster), signal.SIGKILL)
        runs.append(len(list_runs(folder)))

    with ThreadPoolExecutor(1) as other:
        killing = other.submit(kill_worker)
        result = run(*options(table, "run", "--cluster", cluster))
        killing.result()
    assert runs[0] < RUNS
    assert result.exit_code == 0, result.output
    assert "distributed" not in result.output
    assert result.stderr.splitlines()[-1].endswith("(36/36)")
    assert_equal(read_results(folder), alone)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("kill", "code"),
    [
        (signal.SIGKILL, -signal.SIGKILL),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly),
    ],
)
def test_workers_of_a_killed_comparison_write_nothing(kill, code, table, alone, cluster):
    folder = table.parent / f"killed-{kill}"
    command = [sys.executable, "-m", "lupi", *options(table, folder.name, "--cluster", cluster)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_for_runs(folder)
        process.send_signal(kill)
        _, errors = process.communicate(timeout=LONG)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    kept = list_runs(folder)
    wait_until_idle(cluster)
    assert list_runs(folder) == kept
    assert len(kept) < RUNS
    if kill == signal.SIGKILL:
        result = run(*options(table, folder.name, "--cluster", cluster))
        assert result.exit_code == 0, result.output
        assert_equal(read_results(folder), alone)


def test_clusters_that_cannot_be_used(table, monkeypatch):
    monkeypatch.setattr("lupi._internal.parallel.CONNECTION_SECONDS", 0.5)
    refused(run(*options(table, "none", "--cluster", "tcp://127.0.0.1:1")), "`--cluster`", "'tcp://127.0.0.1:1'")
    refused(run(*options(table, "none", "--cluster", "nowhere")), "`--cluster`", "missing port number")
    refused(run("reproduce", "linear-risk", "--cluster", "nowhere", "-o", table.parent / "none"), "no `--cluster`")
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused(run(*options(table, "none", "--cluster", "tcp://127.0.0.1:1")), "pip install 'lupi[cluster]'")
    assert not (table.parent / "none").exists()
