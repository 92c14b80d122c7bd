"""Random samples of tables, by whole examples."""

from dataclasses import replace

import numpy as np
import pandas as pd

from lupi.tabular.dataset import TableDataset
from lupi.tabular.folds import Rows


def sample_rows(example: Rows, size: int, seed: int = 0) -> Rows:
    """Sample whole examples with at most `size` rows in total, and return their rows in the order of the table.

    Examples are added in random order until the next one would not fit. There is at least one.
    """
    codes, _ = pd.factorize(example)
    counts = np.bincount(codes)
    order = np.random.default_rng(seed).permutation(len(counts))
    fitting = int(np.searchsorted(np.cumsum(counts[order]), size, side="right"))
    return np.flatnonzero(np.isin(codes, order[: max(1, fitting)]))


def sample_examples(data: TableDataset, size: int, seed: int = 0) -> TableDataset:
    """Return a random sample of the annotations of a table, by whole examples. The test table is not sampled."""
    total = len(data.rows)
    if size >= total:
        return data
    rows = sample_rows(data.train.example, size, seed)
    gold, ids = (
        None if column is None else column.iloc[rows].reset_index(drop=True) for column in (data.gold, data.ids)
    )
    train = data.train.take(rows)
    examples = len(np.unique(train.example))
    note = f"A random sample of {len(rows):,} of {total:,} annotations was used, all those of {examples:,} examples."
    return replace(
        data,
        train=replace(train, example=pd.factorize(train.example)[0].astype(np.int64)),
        privileged=data.privileged.iloc[rows].reset_index(drop=True),
        annotators=None if data.annotators is None else data.annotators[rows],
        gold=gold,
        ids=ids,
        notes=[note, *data.notes],
        rows=data.rows[rows],
    )
