"""Train on a Parquet table of 20 columns and report memory and time: ``python -m benchmarks.large_table [ROWS]``.

The table has 12 columns of numbers, 4 of names, who gave the label (10,000 annotators), how long it took, how confident
they were, and the label. It is written in groups of rows and read by a process of its own, on one thread; the memory is
the peak of that process. By default it has 50 million rows, 5 GB on disk, in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from lupi.serving import train
from lupi.tabular import TableSpec

ROWS, ANNOTATORS, NAMES = 50_000_000, 10_000, (4, 12, 50, 200)
ROWS_AT_ONCE = 500_000
MOST_GIGABYTES = 8


def write_table(path: Path, rows: int, seed: int = 0) -> None:
    """Write the table, half a million rows at a time."""
    rng, writer = np.random.default_rng(seed), None
    right = rng.beta(6, 3, ANNOTATORS)
    for start in range(0, rows, ROWS_AT_ONCE):
        table = make_rows(rng, min(ROWS_AT_ONCE, rows - start), right)
        writer = writer or pa.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def make_rows(rng: np.random.Generator, rows: int, right: np.ndarray) -> pa.Table:
    """Return some rows; the label depends on the first numbers and names, and on who gave it."""
    numbers = rng.normal(size=(12, rows))
    names = [rng.integers(count, size=rows) for count in NAMES]
    annotator = rng.integers(ANNOTATORS, size=rows)
    truth = numbers[0] + numbers[1] * numbers[2] + 0.5 * (names[0] % 2) > 0.25
    seconds = rng.gamma(2.0, 3.0, rows)
    label = np.where(rng.random(rows) < right[annotator], truth, ~truth)
    columns: dict[str, Any] = {
        f"number_{i}": values if i % 2 else values.astype(np.float32) for i, values in enumerate(numbers)
    }
    columns |= {f"name_{i}": pick(codes, f"value {i}-", NAMES[i]) for i, codes in enumerate(names)}
    columns |= {"annotator": pick(annotator, "annotator-", ANNOTATORS), "seconds": seconds}
    columns |= {"confidence": right[annotator].astype(np.float32), "label": pick(label, "class ", 2)}
    return pa.table(columns)


def pick(codes: np.ndarray, prefix: str, count: int) -> pa.Array:
    """Return names of codes, as strings."""
    return pa.array([f"{prefix}{i}" for i in range(count)]).take(pa.array(codes.astype(np.int32)))


def train_table(path: Path, method: str, epochs: int) -> None:
    """Train on the table, and print the seconds until the end of each epoch."""
    spec = TableSpec(table=path, target=["label"], privileged=["annotator", "seconds", "confidence"])
    start = time.monotonic()

    def print_time(*_: object) -> None:
        print(f"{time.monotonic() - start:.1f}", flush=True)

    settings = {"epochs": epochs, "training": {"callbacks": [print_time]}}
    with tempfile.TemporaryDirectory() as folder:
        train(spec, method=method, settings=settings, output=Path(folder, "model"), progress=True)


def measure_training(path: Path, method: str, epochs: int) -> tuple[list[float], float]:
    """Return the seconds until the end of each epoch and the peak memory in GB of a process that trains."""
    program = [sys.executable, "-m", "benchmarks.large_table", "--train", path, "--method", method, "--epochs", epochs]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(list(map(str, program)), env=one_thread, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seconds = [float(line) for line in process.stdout]
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"Expected the training to succeed, but it ended with status {status}.")
    return seconds, usage.ru_maxrss * 1024 / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    parser.add_argument("--method", default="tram")
    parser.add_argument("--epochs", type=int, default=2, help="two or more, to tell reading from training")
    parser.add_argument("--train", type=Path, help="train on this table, without measuring")
    options = parser.parse_args()
    if options.train:
        train_table(options.train, options.method, options.epochs)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        write_table(path, options.rows)
        print(f"{options.rows:,} rows of 20 columns, {path.stat().st_size / 1e9:.2f} GB, {options.method}", flush=True)
        seconds, gigabytes = measure_training(path, options.method, options.epochs)
    each = np.diff(seconds).mean() if len(seconds) > 1 else float("nan")
    print(f"read and encode {seconds[0] - each:.0f} s, {each:.0f} s per epoch")
    print(f"peak memory {gigabytes:.2f} GB (goal: {MOST_GIGABYTES} GB for {ROWS:,} rows)")


if __name__ == "__main__":
    main()
