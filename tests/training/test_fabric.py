"""Two processes of a Lightning Fabric train as one."""

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.helpers import assert_equal, one_thread


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def assert_close(one, other, tolerance, case):
    assert one["weights"].keys() == other["weights"].keys()
    for name, value in one["weights"].items():
        message = f"{case}: {name}"
        torch.testing.assert_close(other["weights"][name], value, rtol=0, atol=tolerance, msg=message)
    assert len(one["history"]) == len(other["history"]), case
    for row, second in zip(one["history"], other["history"], strict=True):
        assert row.keys() == second.keys(), case
        for name, value in row.items():
            assert second[name] == (value if name in ("stage", "epoch") else pytest.approx(value, abs=tolerance)), case


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs the extra `distributed`")
def test_two_processes_train_as_one(tmp_path):
    program = Path(__file__).parent / "programs" / "train_in_two_processes.py"
    env = {**one_thread(), "PYTHONWARNINGS": "error", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    if sys.platform == "linux":
        env["GLOO_SOCKET_IFNAME"] = "lo"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, env=env, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    first, second = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))

    normed = [results.pop("normed") for results in (first, second)]
    assert normed[0]["history"] == normed[1]["history"]
    assert 3 <= len(normed[0]["history"]) < 30
    means = [results["weights"]["trunk.1.running_mean"] for results in normed]
    assert not torch.equal(*means), "the processes' own, so that the test can fail"

    noise, noise_second = first.pop("noise"), second.pop("noise")
    for results, others in ((noise["two"], noise_second["two"]), (noise["resumed"], noise_second["resumed"])):
        assert_close(results, others, 0, "noise")
    assert_equal(noise["two"]["weights"], noise["resumed"]["weights"])
    assert_close(noise["two"], noise["resumed"], 1e-6, "resumed")

    fewer, _ = first.pop("fewer"), second.pop("fewer")
    assert_close(fewer["two"], fewer["one"], 1e-5, "fewer")

    assert len(first) == 11
    for case, results in first.items():
        assert_close(results["one"], results["two"], 1e-5, case)
        assert_close(results["two"], second[case]["two"], 0, case)
    assert len(first["stopped"]["one"]["history"]) < 40
    assert {row["stage"] for row in first["two-step"]["two"]["history"]} == {"transfer", "marginalize"}


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs the extra `distributed`")
@pytest.mark.parametrize("nodes", [1, 2])
def test_processes_of_torchrun_train_as_one(nodes, tmp_path):
    """Two processes on one node, and on two nodes, each of which has its own torchrun."""
    program, port = Path(__file__).parent / "programs" / "train_under_torchrun.py", free_port()
    env = {**one_thread(), **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {})}
    start = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={2 // nodes}"]
    meet = ["--master-addr=127.0.0.1", f"--master-port={port}"]
    running = [
        subprocess.Popen(
            [*start, *meet, f"--node-rank={node}", str(program), str(nodes), str(tmp_path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        for node in range(nodes)
    ]
    for process in running:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    first, second = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first["processes"] == second["processes"] == 2
    assert [first["node"], second["node"]] == [0, nodes - 1]
    assert_close(first["fabric"], second["fabric"], 0, "ranks")
    assert_close(first["fabric"], first["one"], 1e-5, "one process")


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs the extra `distributed`")
def test_one_process_trains_every_method_that_cross_fits(tmp_path):
    program = Path(__file__).parent / "programs" / "train_in_one_process.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), str(tmp_path)],
        capture_output=True,
        text=True,
        env=one_thread(),
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    results = torch.load(tmp_path / "results.pt", weights_only=True)
    assert set(results) == {"auto", "stack", "label-posterior"}
    for case, result in results.items():
        assert any(row["stage"].startswith("no-pi 5/5") for row in result["fabric"]["history"]), "one after another"
        assert_equal(result["fabric"]["weights"], result["resumed"]["weights"])
        assert result["fabric"]["history"] == result["resumed"]["history"]
        for name, value in result["plain"]["weights"].items():  # stacked
            torch.testing.assert_close(
                result["fabric"]["weights"][name], value, rtol=0, atol=1e-3, msg=f"{case}: {name}"
            )
