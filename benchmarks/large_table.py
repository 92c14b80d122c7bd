"""Train on a table of 20 columns and report memory and time: ``python -m benchmarks.large_table [ROWS]``.

The table has 12 columns of numbers, 4 of names, who gave the label (10,000 annotators), how long it took, how confident
they were, and the label. It is written in groups of rows and read by a process of its own, on one thread; the memory is
the peak of that process. By default it has 50 million rows, 5 GB on disk, in the folder for temporary files.

``python -m benchmarks.large_table 100000 --devices cpu cuda`` fits `PrivilegedClassifier` on the table in memory
instead, with all threads, and compares the devices side by side: a fit with everything that is part of it, such as
encoding columns on the CPU, and the median epoch of training.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

from benchmarks.image_loading import finish
from lupi import PrivilegedClassifier
from lupi.serving import train
from lupi.tabular import TableSpec
from lupi.training import pick_device

ROWS, ANNOTATORS, NAMES = 50_000_000, 10_000, (4, 12, 50, 200)
FEWEST_LABELS = 500
"""Labels of an annotator; a small table has fewer annotators."""
PRIVILEGED = ["annotator", "seconds", "confidence"]
COMPARED = ("no-pi", "tram", "auto")
ROWS_AT_ONCE = 500_000
MOST_GIGABYTES = 8


def write_table(path: Path, rows: int, seed: int = 0) -> None:
    """Write the table, half a million rows at a time."""
    rng, writer = np.random.default_rng(seed), None
    right = draw_annotators(rng, rows)
    for start in range(0, rows, ROWS_AT_ONCE):
        table = make_rows(rng, min(ROWS_AT_ONCE, rows - start), right)
        writer = writer or pa.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def draw_annotators(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return how often each annotator is right."""
    return rng.beta(6, 3, max(2, min(ANNOTATORS, rows // FEWEST_LABELS)))


def make_rows(rng: np.random.Generator, rows: int, right: np.ndarray) -> pa.Table:
    """Return some rows; the label depends on the first numbers and names, and on who gave it."""
    numbers = rng.normal(size=(12, rows))
    names = [rng.integers(count, size=rows) for count in NAMES]
    annotator = rng.integers(len(right), size=rows)
    truth = numbers[0] + numbers[1] * numbers[2] + 0.5 * (names[0] % 2) > 0.25
    seconds = rng.gamma(2.0, 3.0, rows)
    label = np.where(rng.random(rows) < right[annotator], truth, ~truth)
    columns: dict[str, Any] = {
        f"number_{i}": values if i % 2 else values.astype(np.float32) for i, values in enumerate(numbers)
    }
    columns |= {f"name_{i}": pick(codes, f"value {i}-", NAMES[i]) for i, codes in enumerate(names)}
    columns |= {"annotator": pick(annotator, "annotator-", len(right)), "seconds": seconds}
    columns |= {"confidence": right[annotator].astype(np.float32), "label": pick(label, "class ", 2)}
    return pa.table(columns)


def pick(codes: np.ndarray, prefix: str, count: int) -> pa.Array:
    """Return names of codes, as strings."""
    return pa.array([f"{prefix}{i}" for i in range(count)]).take(pa.array(codes.astype(np.int32)))


def train_table(path: Path, method: str, epochs: int) -> None:
    """Train on the table, and print the seconds until the end of each epoch."""
    spec = TableSpec(table=path, target=["label"], privileged=PRIVILEGED)
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


def compare_devices(rows: int, devices: list[str], methods: Sequence[str], epochs: int) -> None:
    """Print the seconds of a fit and of an epoch on each device, and the speed relative to the first one."""
    rng = np.random.default_rng(0)
    table = make_rows(rng, rows, draw_annotators(rng, rows)).to_pandas()
    privileged, y = table[PRIVILEGED], table["label"]
    X = table.drop(columns=[*PRIVILEGED, "label"])
    names = [torch.cuda.get_device_name() if name.startswith("cuda") else name for name in devices]
    print(f"torch {torch.__version__}, {', '.join(names)}, {torch.get_num_threads()} threads, {epochs} epochs\n")
    print("| method | device | seconds of a fit | times as fast | seconds of an epoch | times as fast |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in devices:  # start the device
        PrivilegedClassifier("no-pi", epochs=1, device=name).fit(X[:1000], y[:1000])
    for method in methods:
        first = None
        for name in devices:
            device, ends = pick_device(name), [time.monotonic()]

            def note_time(*_: object, device: torch.device = device, ends: list[float] = ends) -> None:
                ends.append(finish(device))

            model = PrivilegedClassifier(
                method, epochs=epochs, device=name, training={"callbacks": [note_time]}, random_state=0
            )
            model.fit(X, y, privileged=None if method == "no-pi" else privileged)
            whole, each = finish(device) - ends[0], statistics.median(b - a for a, b in pairwise(ends[1:]))
            first = first or (whole, each)
            print(f"| {method} | {name} | {whole:.1f} | {first[0] / whole:.1f} ", end="")
            print(f"| {each:.2f} | {first[1] / each:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    parser.add_argument("--method", help="by default tram, and all of no-pi, tram and auto to compare devices")
    parser.add_argument("--epochs", type=int, default=2, help="two or more, to tell reading from training")
    parser.add_argument("--train", type=Path, help="train on this table, without measuring")
    parser.add_argument("--devices", nargs="+", help="compare fits of a table in memory on these, such as cpu cuda")
    options = parser.parse_args()
    if options.devices:
        methods = [options.method] if options.method else COMPARED
        compare_devices(options.rows, options.devices, methods, options.epochs)
        return
    options.method = options.method or "tram"
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
