"""Other kinds of cases: a disk that fills up, two writers of one output, and real processes."""

from pathlib import Path
from random import Random

from lupi_paper import load_experiment
from tests.faults.arguments import COMMANDS, render
from tests.faults.cases import MAKERS, Case, Scene, make_case, small_settings
from tests.faults.folders import copy_folder

FULL_DISK, TWO_WRITERS, REAL = "full-disk-", "two-writers-", "real-"
WRITING = [name for name in COMMANDS if name in MAKERS]
"""The commands that write an output and need no more than a table or a model."""
LIMITS = (0, 1, 100, 300, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 300_000)
"""Sizes in bytes beyond which a file cannot grow."""


def list_scenarios(step: int = 1) -> list[str]:
    """Return the names of all cases, or of a sample: one full disk in `step`, without slow commands.

    Full disks with odd numbers replace an output.
    """
    commands = [name for name in WRITING if step == 1 or name not in ("export", "demo")]
    disk = [f"{FULL_DISK}{command}:{number}" for command in commands for number in range(0, 2 * len(LIMITS), step)]
    return disk + [f"{TWO_WRITERS}{command}:0" for command in commands]


def plain_arguments(command: str, folder: Path, bases: Path, model: str) -> dict[str, list[str]]:
    """Return arguments of a command that succeeds."""
    arguments = MAKERS[command](Scene(Random(1), folder, bases, {"table": 0.0, "options": 0.0, "folder": 0.0}))
    if command in ("predict", "export"):
        copy_folder(bases / f"model-{model}", folder / model)
        arguments |= {"model": [model], "output": ["out.parquet"], "onnx": ["model.onnx"]}
    elif command == "reproduce":
        changes = [f"{key}={value}" for key, value in small_settings(load_experiment("linear-risk").Settings()).items()]
        arguments |= {"experiment": ["linear-risk"], "changes": changes, "data": []}
    else:
        arguments |= {"method": ["tram"], "methods": ["no-pi,tram"]}
    return arguments


def output_of(command: str, arguments: dict[str, list[str]]) -> str:
    """Return the path of the output."""
    return arguments["onnx" if command == "export" else "output"][0]


def make_full_disk(name: str, folder: Path, bases: Path) -> Case:
    """Let every file that reaches a size fail, and after that run the same command again."""
    command, _, number = name.removeprefix(FULL_DISK).partition(":")
    place, replaces = divmod(int(number), 2)
    arguments = plain_arguments(command, folder, bases, "numbers")
    output = output_of(command, arguments)
    if replaces:
        arguments["overwrite"] = ["set"]
        if command in ("predict", "export", "import"):
            (folder / output).write_bytes(b"old")
        else:
            copy_folder(bases / f"{'model-tram' if command == 'train' else command}", folder / output)
    return Case(command, render(command, arguments, Random(0)), output, file_limit=LIMITS[place], again=True)


def make_two_writers(name: str, folder: Path, bases: Path) -> Case:
    """Run a command twice at the same time, with another seed or model, but one output."""
    command = name.removeprefix(TWO_WRITERS).partition(":")[0]
    arguments = plain_arguments(command, folder, bases, "numbers")
    rival = dict(arguments)
    if command in ("predict", "export"):
        copy_folder(bases / "model-pi-dual", folder / "rival")
        copy_folder(bases / "model-numbers", folder / "other")
        rival["model"] = ["rival" if command == "predict" else "other"]
    elif command == "reproduce":
        rival["changes"] = [*arguments["changes"], "seed=1"]
    else:
        rival |= {"seed": ["1"], "seeds": ["3"]}
    first, second = (render(command, one, Random(0)) for one in (arguments, rival))
    return Case(command, first, output_of(command, arguments), rival=second)


def make_scenario(name: str, folder: Path, bases: Path) -> Case:
    """Write the files of a case into an empty folder, and return its command line."""
    if name.startswith(REAL):
        case = make_case(name.removeprefix(REAL), folder, bases)
        case.real, case.interrupt = True, None  # it would come while Python is starting
        return case
    make = make_full_disk if name.startswith(FULL_DISK) else make_two_writers
    return make(name, folder, bases)
