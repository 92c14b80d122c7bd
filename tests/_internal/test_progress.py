import io
import sys

import pytest

from lupi._internal import progress
from lupi._internal.progress import LOG_INTERVAL, Steps


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is told."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_silent(capsys, monkeypatch):
    with Steps("train", 3, show=False) as steps:
        for _ in range(3):
            steps.advance(1, "epoch 1")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Steps("train", 1, show=False) as steps:
        steps.advance(1, "epoch 1")
    assert sys.stderr.getvalue() == ""


def test_lines_in_a_log(capsys, clock):
    with Steps("train", 6, show=True) as steps:
        for step in range(1, 7):
            clock[0] += 0.6 * LOG_INTERVAL
            steps.advance(1, f"step {step}")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "train step 2 (2/6, 0:00:24 left)",
        "train step 4 (4/6, 0:00:12 left)",
        "train step 6 (6/6)",
    ]


def test_the_last_line_of_work_that_ends_early(capsys, clock):
    with Steps("train", 100, show=True, done=40) as steps:
        steps.advance(2, "a")
        clock[0] += LOG_INTERVAL
        steps.advance(3, "b")
        steps.advance(1, "c")
    assert capsys.readouterr().err.splitlines() == [
        "train b (45/100, 0:01:50 left)",
        "train c (46/100, 0:01:30 left)",
    ]
    with Steps("train", 100, show=True) as steps:
        clock[0] += LOG_INTERVAL
        steps.advance(1, "a")
    assert capsys.readouterr().err.splitlines() == ["train a (1/100, 0:16:30 left)"]  # once
    with Steps("train", 100, show=True):
        pass
    assert capsys.readouterr().err == ""


def test_work_without_end(capsys, clock):
    with Steps("train", 2**63 - 1, show=True) as steps:
        clock[0] += 11
        steps.advance(1, "epoch 1")
    assert capsys.readouterr().err == f"train epoch 1 (1/{2**63 - 1}, 115740740 days, 17:46:40 left)\n"


def test_the_last_line_before_an_error(capsys, clock):  # noqa: ARG001
    def work():
        with Steps("train", 100, show=True) as steps:
            steps.advance(7, "epoch 1")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        work()
    assert capsys.readouterr().err.splitlines() == ["train epoch 1 (7/100, 0:00:00 left)"]


def test_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with Steps("train", 8, show=True, done=2) as steps:
            steps.advance(3, "epoch 1/2")
    shown = terminal.getvalue()
    assert "train epoch 1/2" in shown
    assert "5/8" in shown
    assert "\x1b[" in shown  # drawn, not printed line by line
    assert "(5/8" not in shown
    assert capsys.readouterr() == ("", "")
