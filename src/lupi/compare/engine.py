"""Train every arm of a comparison with every seed, and save each finished run.

An *arm* is a method, a baseline or a control. The engine does not depend on how an arm is trained. It groups seeds,
skips runs that were saved in a folder, and distributes the rest over processes or a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lupi._internal.checks import check_jobs
from lupi._internal.parallel import run_parallel
from lupi._internal.progress import Steps
from lupi.compare.cache import RunFolder

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of a comparison.

    Parameters
    ----------
    name : str
        Name in tables and files.
    train : callable
        Takes a group of seeds and returns, for each seed, a dict of scores (numbers) and arrays to save.
    """

    name: str
    train: Callable[[Sequence[int]], Sequence[Mapping[str, Any]]]


class Run(NamedTuple):
    """The results of one arm with one seed."""

    arm: str
    seed: int
    values: Mapping[str, Any]


def run_arms(
    arms: Sequence[Arm],
    seeds: Sequence[int],
    *,
    seeds_at_once: int,
    folder: RunFolder | None = None,
    keep_groups: bool = False,
    jobs: int = 1,
    cluster: Client | None = None,
    progress: bool = False,
    notify: Callable[[str], None] | None = None,
    save: bool = True,
) -> list[Run]:
    """Train every arm with every seed. Runs that were saved in the folder are not trained again.

    Parameters
    ----------
    arms : sequence of Arm
        The arms to train.
    seeds : sequence of int
        The seeds, which are the same for all arms.
    seeds_at_once : int
        Number of seeds to train together. Noise in training depends on the group of a seed, so keep this number fixed
        to reproduce results.
    folder : RunFolder, optional
        Result of `open_run_folder`. Without it, runs are not saved.
    keep_groups : bool
        Whether to train an incomplete group again as a whole, so that results depend neither on interruptions nor on
        how many seeds were trained before. By default, missing seeds form new groups, and no seed is trained twice.
    jobs : int
        Number of groups to train in parallel, with joblib; -1 for one per core. The results do not depend on it.
    cluster : distributed.Client, optional
        The client of a Dask cluster. Groups are trained on its workers, whatever `jobs` is. Workers do not write files;
        this process saves the runs.
    progress : bool
        Whether to show progress.
    notify : callable, optional
        Called with a message if finished runs are reused.
    save : bool
        Whether to save runs to the folder. If several processes train the same runs, only one should save them.

    Returns
    -------
    list of Run
        Ordered by arm, then by seed.

    Examples
    --------
    >>> arm = Arm(name="square", train=lambda seeds: [{"nll": seed**2} for seed in seeds])
    >>> to_frame(run_arms([arm], [2, 3], seeds_at_once=1))
       method  seed  nll
    0  square     2  4.0
    1  square     3  9.0
    """
    check_jobs(jobs)
    done: dict[tuple[str, int], Mapping[str, Any]] = {}
    todo: list[tuple[int, Arm, Sequence[int]]] = []
    fixed = map_groups(seeds, seeds_at_once) if keep_groups else {}
    for arm in arms:
        for seed in seeds:
            if folder is not None and (kept := folder.load(arm.name, seed, fixed.get(seed))) is not None:
                done[arm.name, seed] = kept
        missing = [seed for seed in seeds if (arm.name, seed) not in done]
        groups = split_seeds(seeds if keep_groups else missing, seeds_at_once)
        todo += [(number, arm, group) for number, group in enumerate(groups) if set(group) & set(missing)]
    todo.sort(key=lambda work: work[0])  # finish the first seeds of all arms before later seeds
    total, left = len(arms) * len(seeds), sum(len(group) for _, _, group in todo)
    if notify is not None and left < total:
        notify(f"Resuming: {total - left} of {total} runs are already finished.")
    calls = [partial(arm.train, group) for _, arm, group in todo]
    with Steps("train", total, show=progress, done=total - left) as steps:
        for place, found in run_parallel(calls, jobs, cluster):
            _, arm, group = todo[place]
            for seed, values in zip(group, found, strict=True):
                done[arm.name, seed] = values
                if folder is not None and save:  # only this process writes, since it holds the lock of the folder
                    folder.save(arm.name, seed, values, fixed.get(seed))
            steps.advance(len(group), arm.name)
    return [Run(arm.name, seed, done[arm.name, seed]) for arm in arms for seed in seeds]


def split_seeds(seeds: Sequence[int], at_once: int) -> list[Sequence[int]]:
    """Split seeds into groups that are trained together."""
    return [seeds[start : start + at_once] for start in range(0, len(seeds), at_once)]


def map_groups(seeds: Sequence[int], at_once: int) -> dict[int, Sequence[int]]:
    """Return the group of each seed."""
    return {seed: group for group in split_seeds(seeds, at_once) for seed in group}


def to_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """Return the numbers of runs as a tidy table.

    Parameters
    ----------
    runs : iterable of Run
        Results of `run_arms`.

    Returns
    -------
    DataFrame
        One row per run: method (the name of the arm), seed, and one column per number. Arrays are left out.
    """
    rows = []
    for run in runs:
        numbers = {name: float(value) for name, value in run.values.items() if np.ndim(value) == 0}
        rows.append({"method": run.arm, "seed": run.seed, **numbers})
    return pd.DataFrame(rows)
