"""Show the progress of work that does not go through `lupi.compare.run_arms`."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Step = TypeVar("Step")


def show_progress(steps: Sequence[Step], title: str, *, show: bool) -> Iterable[Step]:
    """Iterate over steps of work, with a progress bar on standard error."""
    return track(steps, title, console=Console(stderr=True), disable=not show)
