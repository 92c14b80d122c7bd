"""Progress of long work: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

BETWEEN_LINES = 10.0
"""Seconds between two lines in a log."""


class Steps:
    """Counts steps of work on standard error; `show=False` stays silent.

    Examples
    --------
    >>> with Steps("train", 10, show=False) as steps:
    ...     steps.advance(5, "epoch 1")
    """

    def __init__(self, title: str, total: int, *, show: bool, done: int = 0) -> None:
        self.title, self.total, self.done, self.show = title, total, done, show
        self.bar: Progress | None = None
        self.last = time.monotonic()
        self.line = ""
        if show and sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True))
            self.task = self.bar.add_task(title, total=total, completed=done)

    def __enter__(self) -> Steps:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif self.line:  # work that ended early
            self.say()

    def advance(self, steps: int, text: str) -> None:
        """Count steps and say where the work is."""
        self.done += steps
        if not self.show:
            return
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, description=f"{self.title} {text}")
            return
        self.line = f"{self.title} {text} ({self.done}/{self.total})"
        if time.monotonic() - self.last >= BETWEEN_LINES or self.done >= self.total:
            self.say()

    def say(self) -> None:
        """Print a line."""
        print(self.line, file=sys.stderr, flush=True)
        self.line, self.last = "", time.monotonic()
