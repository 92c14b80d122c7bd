"""Run cases in forked children of a process that has imported everything, so that a case costs little."""

import atexit
import contextlib
import json
import os
import resource
import runpy
import selectors
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.cases import Case

MEMORY = 6 * 2**30
"""Bytes that a case may allocate."""
AGAIN = "--- again"
"""What separates the messages of two runs."""


@dataclass
class Outcome:
    """How a case ended: exit code (minus the signal where it was killed), seconds, peak memory and output."""

    name: str
    code: int
    seconds: float
    memory: float
    stdout: str
    stderr: str
    hung: bool
    orphans: bool
    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)


def snapshot(folder: Path) -> dict[str, Any]:
    """Return what is in a folder: the content of files, the targets of links; folders are not listed."""
    found: dict[str, Any] = {}
    for root, folders, files in os.walk(folder):
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(root, name)))]:
            path = os.path.join(root, name)
            key = os.fsencode(os.path.relpath(path, folder)).decode("utf-8", "backslashreplace")
            if os.path.islink(path):
                found[key] = f"link to {os.readlink(path)!r}"
            else:
                with open(path, "rb") as file:
                    found[key] = hash(file.read())
    return found


def run_lupi(arguments: list[str]) -> int:
    """Run the command line as `python -m lupi` does, and return the exit code."""
    sys.argv = ["lupi", *arguments]
    try:
        runpy.run_module("lupi", run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 130 if isinstance(sys.exc_info()[1], KeyboardInterrupt) else 1
    return 0


def redirect(case: Case, out: int, err: int) -> None:
    """Make standard output and standard error of this process what the case says."""
    if case.stdout == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    elif case.stdout == "closed":
        reader, out = os.pipe()
        os.close(reader)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
        os.close(source)
    encoding = "ascii" if case.stdout == "ascii" else "utf-8"
    sys.stdout = open(1, "w", encoding=encoding, errors="strict", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def be_child(
    name: str,
    make: Callable[[str, Path], Case],
    check: Callable[[Case], list[str]],
    folder: Path,
    notes: Path,
    out: int,
    err: int,
) -> None:
    """Make the files of a case, run its command, note what was there before and after, and end this process."""
    code = 70
    try:
        os.setsid()
        os.dup2(err, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        case = make(name, folder)
        # Python 3.12 raises an error for a path that no system has.
        target = None if "\0" in case.output else os.path.relpath(os.path.realpath(case.output), folder)
        facts = {
            **vars(case),
            "relate": None,
            "relation": case.relate is not None,
            "before": snapshot(folder),
            "target": target,
        }
        notes.write_text(json.dumps(facts))
        if case.file_limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (case.file_limit, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        redirect(case, out, err)
        if case.real:
            os.environ["PYTHONIOENCODING"] = case.stdout if case.stdout == "ascii" else "utf-8"
            os.execv(sys.executable, [sys.executable, "-m", "lupi", *case.arguments])
        if case.interrupt is not None:
            signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGINT))
            signal.setitimer(signal.ITIMER_REAL, max(case.interrupt, 1e-3))
        rival = start_rival(case.rival) if case.rival else 0
        if case.relate is None:
            code = run_lupi(case.arguments)
        else:
            facts["problems"], facts["codes"] = case.relate(name)
            code = next((code for code in facts["codes"] if code not in (0, 2)), 0)
        with contextlib.suppress(KeyboardInterrupt):  # the command has ended
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        code = finish_streams(code)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if case.rival:
            facts["codes"] = sorted([code, os.waitstatus_to_exitcode(os.waitpid(rival, 0)[1])])
        if case.again and code:
            print(AGAIN, file=sys.stderr)
            facts |= {"after": snapshot(folder), "rerun": run_lupi(case.arguments)}
        if case.relate is None and (code == 0 or case.rival or facts.get("rerun") == 0):
            facts["problems"] = check(case)
        elif code == 130 or case.stdout == "full":  # the output may be whole before Ctrl-C, or before the last line
            facts["complete"] = not check(case)
        notes.write_text(json.dumps(facts))
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        if has_children():  # run the handlers that end worker processes
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        os._exit(code)


def start_rival(arguments: list[str]) -> int:
    """Run a command in a process beside this one, and return its number."""
    number = os.fork()
    if number == 0:
        os._exit(finish_streams(run_lupi(arguments)))
    return number


def finish_streams(code: int) -> int:
    """Flush standard output as the interpreter does at its end, which exits with 120 where that fails."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    return code


def has_children() -> bool:
    """Return whether this process has started others."""
    return any(task.read_text().strip() for task in Path("/proc/self/task").glob("*/children"))


class Running:
    """A case that runs in a child."""

    def __init__(self, name: str, folder: Path, make: Any, check: Any) -> None:
        self.name, self.folder, self.start = name, folder, time.monotonic()
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "case").mkdir(parents=True)
        self.notes = folder / "notes.json"
        outs, errs = os.pipe(), os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            be_child(name, make, check, folder / "case", self.notes, outs[1], errs[1])
        os.close(outs[1])
        os.close(errs[1])
        self.pipes = {outs[0]: bytearray(), errs[0]: bytearray()}
        self.pidfd = os.pidfd_open(self.pid)
        self.hung = False

    def kill(self) -> None:
        """End the case and all processes that it started."""
        self.hung = True
        self.end_group()

    def end_group(self) -> bool:
        """End what the case left running, and return whether there was anything."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        except PermissionError:
            os.kill(self.pid, signal.SIGKILL)
        return True

    def finish(self) -> Outcome:
        """Collect the outcome of a case whose child has ended."""
        _, status, usage = os.wait4(self.pid, 0)
        os.close(self.pidfd)
        patience = time.monotonic() + 5
        while group_exists(self.pid) and time.monotonic() < patience:
            time.sleep(0.02)
        orphans = self.end_group()
        for pipe, text in self.pipes.items():
            os.set_blocking(pipe, False)
            while chunk := read_some(pipe):
                text += chunk
            os.close(pipe)
        stdout, stderr = (bytes(text).decode("utf-8", "replace") for text in self.pipes.values())
        facts = json.loads(self.notes.read_text()) if self.notes.exists() else {}
        return Outcome(
            name=self.name,
            code=os.waitstatus_to_exitcode(status),
            seconds=time.monotonic() - self.start,
            memory=usage.ru_maxrss / 2**20,
            stdout=stdout,
            stderr=stderr,
            hung=self.hung,
            orphans=orphans and not self.hung,
            folder=self.folder / "case",
            facts=facts,
        )


def group_exists(group: int) -> bool:
    """Return whether a process group has members."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def read_some(pipe: int) -> bytes:
    """Read what a pipe holds, without waiting."""
    try:
        return os.read(pipe, 65536)
    except BlockingIOError:
        return b""


def run_cases(
    names: Iterable[str], work: Path, make: Any, check: Any, *, jobs: int, timeout: float
) -> Iterator[Outcome]:
    """Run cases, some at a time, and yield their outcomes; the folder of an outcome exists until the next one.

    Parameters
    ----------
    names : iterable of str
        The cases.
    work : Path
        Folder for their files.
    make, check : callable
        `make(name, folder)` returns a `Case`; `check(case)` lists what is wrong with the outputs of a success.
    jobs : int
        Cases that run at the same time.
    timeout : float
        Seconds after which a case counts as hung.
    """
    waiting, free = iter(names), list(range(jobs))
    slots: dict[int, tuple[int, Running]] = {}
    selector = selectors.DefaultSelector()
    try:
        while True:
            for name in waiting if free else ():
                slot = free.pop()
                one = Running(name, work / f"slot-{slot}", make, check)
                slots[one.pidfd] = slot, one
                selector.register(one.pidfd, selectors.EVENT_READ, one)
                for pipe in one.pipes:
                    selector.register(pipe, selectors.EVENT_READ, one)
                if not free:
                    break
            if not slots:
                return
            for key, _ in selector.select(0.5):
                one = key.data
                if key.fd == one.pidfd:
                    for number in (one.pidfd, *(pipe for pipe in one.pipes if pipe in selector.get_map())):
                        selector.unregister(number)
                    slot, _ = slots.pop(key.fd)
                    yield one.finish()
                    free.append(slot)
                elif key.fd in selector.get_map():
                    chunk = os.read(key.fd, 65536)
                    one.pipes[key.fd] += chunk
                    if not chunk:
                        selector.unregister(key.fd)
            for _, one in slots.values():
                if time.monotonic() - one.start > timeout and not one.hung:
                    one.kill()
    finally:
        for _, one in slots.values():
            one.end_group()
        selector.close()
