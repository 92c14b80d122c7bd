"""Show the progress of long work: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LOG_INTERVAL = 10.0
"""Seconds between two lines in a log."""
MAX_SECONDS_LEFT = 1e13
"""Most seconds that a line shows as left; a `timedelta` holds little more."""


class Steps:
    """Count steps of work on standard error; `show=False` prints nothing."""

    def __init__(self, title: str, total: int, *, show: bool, done: int = 0) -> None:
        self.title, self.total, self.done, self.show = title, total, done, show
        self.bar: Progress | None = None
        self.line, self.last = "", time.monotonic()
        self.start, self.done_before = self.last, done
        if show and sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True))
            self.task = self.bar.add_task(title, total=total, completed=done)

    def __enter__(self) -> Steps:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif self.line:  # the work ended between two lines
            self.print_line()

    def advance(self, steps: int, text: str) -> None:
        """Count steps and show what was done last."""
        self.done += steps
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, description=f"{self.title} {text}")
        elif self.show:
            left = f", {self.time_left()} left" if self.done < self.total else ""
            self.line = f"{self.title} {text} ({self.done}/{self.total}{left})"
            if time.monotonic() - self.last >= LOG_INTERVAL or self.done >= self.total:
                self.print_line()

    def time_left(self) -> timedelta:
        """Return the time that is left if the other steps take as long as those so far."""
        each = (time.monotonic() - self.start) / max(1, self.done - self.done_before)
        return timedelta(seconds=round(min(each * (self.total - self.done), MAX_SECONDS_LEFT)))

    def print_line(self) -> None:
        """Print the current line."""
        show_line(self.line)
        self.line, self.last = "", time.monotonic()


def show_trainings(trainings: int, rows: int) -> None:
    """Print how much work there is."""
    show_line(f"{trainings:,} trainings of {rows:,} annotations")


def show_line(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)
