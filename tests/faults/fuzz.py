"""Run commands with hostile tables, options and folders: `python -m tests.faults.fuzz --cases 20000`.

`python -m tests.faults.fuzz --case train:1234` runs one case again and shows its files and its output.
"""

import argparse
import contextlib
import gc
import importlib
import io
import os
import shlex
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from tests.faults.cases import OUTPUTS, Case, base_command, make_case, pick_command
from tests.faults.forks import Outcome, run_cases
from tests.faults.relations import RELATIONS, make_relation
from tests.faults.scenarios import FULL_DISK, REAL, TWO_WRITERS, list_scenarios, make_scenario
from tests.faults.verdicts import check_outputs, find_problems

KINDS = ("hang", "exit code", "traceback", "masked error", "partial output", "leftover", "rows")
"""How the descriptions of problems begin that are counted by kind."""
TIMEOUT = 60.0
"""Seconds after which a case counts as hung."""


def make_bases(work: Path) -> Path:
    """Make the models and results that cases start from, and import what that needed, for children to have it."""
    bases, modules = work / "bases", work / "modules"
    bases.mkdir(parents=True)

    def make(name: str, _: Path) -> Case:
        os.chdir(bases)
        return Case(name, base_command(name, bases), name)

    def note_modules(_: Case) -> list[str]:
        modules.write_text("\n".join(sys.modules))
        return []

    for name in OUTPUTS:
        for outcome in run_cases([name], work, make, note_modules, jobs=1, timeout=10 * TIMEOUT):
            if outcome.code:
                raise RuntimeError(f"{outcome.name} failed:\n{outcome.stdout}\n{outcome.stderr}")
        import_modules(modules.read_text().splitlines())
    return bases


def import_modules(names: list[str]) -> None:
    """Import modules that a child has imported."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        for name in names:
            if name not in sys.modules and name != "__mp_main__":
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    gc.collect()
    gc.freeze()


def make_any(name: str, folder: Path, bases: Path) -> Case:
    """Write the files of a case of any kind."""
    if name.partition(":")[0] in RELATIONS:
        return make_relation(name)
    return (make_scenario if name.startswith((FULL_DISK, TWO_WRITERS, REAL)) else make_case)(name, folder, bases)


def describe(outcome: Outcome, problems: list[str]) -> str:
    """Return how a case failed, and how to run it again."""
    facts = outcome.facts
    around = ", ".join(
        f"{key} {facts[key]}" for key in ("stdout", "file_limit", "interrupt") if facts.get(key) not in (None, "utf-8")
    )
    return "\n".join(
        [
            f"FAILED {outcome.name} in {outcome.seconds:.1f} s: {'; '.join(problems)}",
            f"  lupi {shlex.join(facts.get('arguments', []))[:600]}" + (f"   [{around}]" if around else ""),
            *(f"  | {line[:400]}" for line in outcome.stderr.splitlines()[-6:]),
        ]
    )


def summarize(counts: Counter[str], codes: Counter[str], failures: Counter[str], seconds: float) -> str:
    """Return the table of all cases by command, and the problems by kind."""
    lines = ["command                  cases    exit 0    exit 2  exit 130    failed"]
    for command in sorted(counts):
        ended = [codes[f"{command} {code}"] for code in (0, 2, 130)]
        lines.append(f"{command:22}{counts[command]:8}" + "".join(f"{n:10}" for n in (*ended, failures[command])))
    total = sum(counts.values())
    kinds = {kind: failures[f"kind {kind}"] for kind in KINDS}
    lines.append(f"{total} cases in {seconds / 60:.1f} minutes, {sum(failures[name] for name in counts)} failed")
    lines.append(", ".join(f"{kind}: {count}" for kind, count in kinds.items()))
    return "\n".join(lines)


def main() -> None:
    """Run cases, print those that fail and a summary; exit with code 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300, help="number of cases")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases that run at the same time")
    parser.add_argument("--command", help="run cases of this command only")
    parser.add_argument("--scenarios", type=int, default=0, help="run one full disk in this number, and two writers")
    parser.add_argument("--real", type=int, default=0, help="number of cases to run in processes of their own as well")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds after which a case counts as hung")
    parser.add_argument("--case", help="run cases such as train:1234,predict:5, and show their files")
    parser.add_argument("--verbose", action="store_true", help="print a line for every case")
    options = parser.parse_args()

    torch.set_num_threads(1)
    work = Path(tempfile.mkdtemp(prefix="lupi-faults-"))
    counts, codes, failures = Counter[str](), Counter[str](), Counter[str]()
    numbers = range(options.start, options.start + options.cases)
    names = [f"{options.command or pick_command(number)}:{number}" for number in numbers]
    alone = [name for name in names if name.partition(":")[0] not in ("compare", *RELATIONS)]
    names += [f"{REAL}{name}" for name in alone[: options.real]]
    names += list_scenarios(options.scenarios) if options.scenarios else []
    names, start = (options.case.split(",") if options.case else names), time.monotonic()
    try:
        make = partial(make_any, bases=make_bases(work))
        for outcome in run_cases(names, work, make, check_outputs, jobs=options.jobs, timeout=options.timeout):
            command = outcome.name.partition(":")[0]
            problems = find_problems(outcome)
            counts[command] += 1
            codes[f"{command} {outcome.code}"] += 1
            if options.verbose:
                print(
                    f"{outcome.name} {outcome.code} {outcome.seconds:.2f} s {outcome.stderr.strip()[-150:]!r}",
                    flush=True,
                )
            if problems:
                failures[command] += 1
                for problem in problems:
                    for kind in KINDS:
                        failures[f"kind {kind}"] += problem.startswith(kind)
                print(describe(outcome, problems), flush=True)
            if sum(counts.values()) % 1000 == 0:
                done = f"{sum(counts.values())} of {len(names)} cases"
                print(f"{done} in {(time.monotonic() - start) / 60:.0f} minutes", flush=True)
            if options.case:
                kept = shutil.copytree(
                    outcome.folder, tempfile.mkdtemp(prefix="lupi-case-"), symlinks=True, dirs_exist_ok=True
                )
                print(f"code {outcome.code}, {outcome.seconds:.2f} s, {outcome.memory:.2f} GB, files in {kept}")
                print(shlex.join(outcome.facts.get("arguments", [])))
                print(f"--- stdout\n{outcome.stdout}\n--- stderr\n{outcome.stderr}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(summarize(counts, codes, failures, time.monotonic() - start))
    sys.exit(1 if any(failures[command] for command in counts) else 0)


if __name__ == "__main__":
    main()
