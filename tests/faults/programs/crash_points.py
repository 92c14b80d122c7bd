"""Run a command, die at its n-th write call, run it again, and compare the output with that of an uninterrupted run.

Each line of standard input is a JSON list: a new folder, one of `CASES`, and the number of points to die at, spread
evenly, or a share such as 2/8, the second eighth, or "all". The result is printed as a line of JSON. Commands run in
forked children of this process, which has imported all that they need. Clocks stand still, so that outputs can be
compared byte by byte.
"""

import importlib
import io
import json
import os
import shutil
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
MOVES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate")
DEAD = 137
TABLE = ["table.csv", "--target", "label", "--privileged", "worker,seconds", "--example", "id"]
FAST = ["--epochs", "1", "--batch-size", "64"]
JOBS = ["--jobs", "1"]


class Case(NamedTuple):
    """A command, its output, and a command that makes an older output."""

    command: list[str]
    output: str
    older: list[str] | None = None
    resumes: bool = False
    """Whether an unfinished output is kept, to go on from."""
    checkpoint: bool = False
    """Whether a training saves its state in every step."""


def both(name, output, command, change, **more):
    """Return a case without and one with an older output, which another option has made."""
    older = [*command, *change]
    return {
        name: Case(command, output, **more),
        f"{name} again": Case([*command, "--overwrite"], output, older, **more),
    }


TRAIN = ["train", *TABLE, *FAST, "--method", "tram", "-o", "out"]
COMPARE = ["compare", *TABLE, *FAST, *JOBS, "--methods", "tram", "--seeds", "2", "-o", "out"]
DIAGNOSE = ["diagnose", *TABLE, *FAST, *JOBS, "--folds", "2", "--method", "tram", "-o", "out"]
DEMO = ["demo", "--seeds", "2", "--methods", "tram", "--epochs", "1", *JOBS, "-o", "out"]
SWEEP = ["reproduce", "noise-sweep", "--seeds", "2", "--set", "n=32", "--set", "noise=0.1,", "-o", "out"]
CASES = {
    **both("train", "out", TRAIN, ["--seed", "1"]),
    **both("compare", "out", COMPARE, ["--seeds", "3"], resumes=True),
    **both("diagnose", "out", DIAGNOSE, ["--seed", "1"]),
    **both("predict", "out.parquet", ["predict", "model", "table.csv", "-o", "out.parquet"], ["--keep", "worker"]),
    **both("export", "out.onnx", ["export", "model", "--onnx", "out.onnx"], []),
    **both("demo", "out", DEMO, ["--epochs", "2"]),
    **both("reproduce", "out", [*SWEEP, "--set", "epochs=1"], ["--set", "epochs=2"]),
    "train with checkpoints": Case([*TRAIN, "--epochs", "3"], "out", checkpoint=True),
}


class Ended(NamedTuple):
    """How a child ended."""

    code: int
    points: int
    text: str
    modules: tuple[str, ...] = ()
    """The modules that it had imported."""


def count_points(folder, fatal):
    """Count the write calls below a folder from now on, and die at one of them; return the counter."""
    counted = [0]

    def reach(path):
        if isinstance(path, int | None) or not os.path.abspath(os.fsdecode(path)).startswith(f"{folder}{os.sep}"):
            return False
        counted[0] += 1
        return counted[0] == fatal

    def look(event, arguments):
        if (event == "open" and arguments[2] & WRITES and reach(arguments[0])) or (
            event in MOVES and reach(arguments[0])
        ):
            os._exit(DEAD)

    fsync = os.fsync

    def die_at_fsync(number):
        path = os.readlink(f"/proc/self/fd/{number}")
        if reach(path):
            if os.path.isfile(path):  # a crash before this call may leave a part of the file
                os.truncate(path, os.path.getsize(path) // 2)
            os._exit(DEAD)
        fsync(number)

    os.fsync = die_at_fsync
    sys.addaudithook(look)
    return counted


def run(folder, arguments, *, fatal=0, checkpoint=False):
    """Run a command in a child, in a folder, and return how it ended."""
    sys.stdout.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            sys.argv, sys.stdout, sys.stderr = ["lupi"], io.StringIO(), io.StringIO()  # results name the command
            time.time = time.perf_counter = lambda: 1e9
            if checkpoint:
                training.INTERVAL = 0
            counted = count_points(folder, fatal)
            try:
                code = app(arguments, standalone_mode=False) or 0
            except SystemExit as error:
                code = error.code
            ended = Ended(code, counted[0], sys.stderr.getvalue()[-2000:], tuple(sys.modules))
        except BaseException as error:
            ended = Ended(1, 0, repr(error))
        with open(writer, "w") as pipe:
            json.dump(ended, pipe)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended = Ended(*json.loads(text)) if text else Ended(code, 0, "")
    for module in ended.modules:  # import once what other children would import each
        if module not in sys.modules:
            with suppress(Exception):
                importlib.import_module(module)
    return ended


def read(path):
    """Return the content of a file or of all files in a folder, by name."""
    found = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in found}


def differences(one, other):
    """Return the names of files that differ."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def check_point(case, folder, before, old, new, point):
    """Die at a point, look at what is left, run the command again, and return what is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(before, folder)
    died = run(folder, case.command, fatal=point, checkpoint=case.checkpoint)
    if died.code != DEAD:
        return f"exit code {died.code} instead of death: {died.text}"
    output = folder / case.output
    left = read(files.current_folder(output))
    unfinished = case.resumes and {name.split("/")[0] for name in left} <= {"comparison.json", "runs"}
    if left not in (old, new) and not unfinished:
        return f"a partial output is left: {differences(left, old)}, {differences(left, new)}"
    again = run(folder, case.command, checkpoint=case.checkpoint)
    if again.code == 2 and "--overwrite" in again.text:
        again = run(folder, [*case.command, "--overwrite"], checkpoint=case.checkpoint)
    if again.code != 0:
        return f"the second run ended with {again.code}: {again.text}"
    if differences(read(output), new):
        return f"the second run differs in {differences(read(output), new)}"
    extra = {path.name for path in folder.iterdir()} - {path.name for path in before.iterdir()} - {case.output}
    return f"files are left: {sorted(extra)}" if extra else None


def make_table(path):
    """Write a small table of annotations."""
    rng = np.random.default_rng(0)
    size = np.repeat(rng.normal(size=30), 2)
    table = pd.DataFrame({"id": np.repeat(np.arange(30), 2), "size": size, "weight": size**2})
    table["worker"], table["seconds"] = rng.choice(list("abc"), 60), rng.exponential(size=60)
    table["label"] = np.where((size > 0) ^ (rng.random(60) < 0.2), "yes", "no")
    table.to_csv(path, index=False)


def check_case(root, name, points):
    """Die at points of a case, and return how many there are and what is wrong."""
    case, root = CASES[name], Path(root).resolve()
    before, folder = root / "before", root / "here"
    before.mkdir(parents=True)
    make_table(before / "table.csv")
    if case.command[0] in ("predict", "export"):
        made = run(before, [*TRAIN[:-1], "model"])
        assert made.code == 0, made
    if case.older is not None:
        made = run(before, case.older)
        assert made.code == 0, made
    shutil.copytree(before, folder)
    whole = run(folder, case.command, checkpoint=case.checkpoint)
    assert whole.code == 0, whole
    new = read(folder / case.output)
    old = read(before / case.output)
    last = whole.points
    chosen = range(1, last + 1)
    if "/" in points:
        share, shares = map(int, points.split("/"))
        chosen = chosen[share - 1 :: shares]
    elif points != "all" and int(points) < last:
        chosen = sorted({round(1 + (last - 1) * i / (int(points) - 1)) for i in range(int(points))})
    wrong = {point: check_point(case, folder, before, old, new, point) for point in chosen}
    return {"points": last, "checked": len(chosen), "wrong": {point: why for point, why in wrong.items() if why}}


if __name__ == "__main__":
    import numpy as np
    import pandas as pd
    import torch

    from lupi._internal import files
    from lupi.cli import app
    from lupi.serving import training

    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            found = check_case(*json.loads(line))
        except Exception:
            found = {"wrong": {"error": traceback.format_exc()}}
        print(json.dumps(found), flush=True)
