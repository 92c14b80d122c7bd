"""Run the benchmarks, or those that are named: ``python -m benchmarks [NAME ...]``."""

from __future__ import annotations

import sys
import time
from importlib import import_module

import torch

from benchmarks.measure import THREADS

NAMES = (
    "training_step",
    "predictor_latency",
    "many_annotations",
    "training_loop",
    "replicas",
    "marginalization",
    "many_classes",
    "encoding_size",
    "serving",
)


def main(names: list[str]) -> None:
    for name in names:
        if name not in NAMES:
            sys.exit(f"Expected a name of {', '.join(NAMES)}, but got {name!r}.")
    torch.set_num_threads(THREADS)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread, processor time, medians of ratios per round\n")
    print(f"{'benchmark':<66} {'measured':>9}  {'goal':<11} reached")
    start = time.monotonic()
    for name in names or NAMES:
        for result in import_module(f"benchmarks.{name}").results():
            reached = {True: "yes", False: "no", None: ""}[result.reached]
            print(
                f"{result.name:<66} {result.measured:>9}  {result.goal:<11} {reached:<7}  {result.remark}", flush=True
            )
    print(f"\n{time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main(sys.argv[1:])
