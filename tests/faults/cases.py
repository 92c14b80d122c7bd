"""A case is a command line in a folder of files, drawn from its name: the command and a number."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from lupi_paper import EXPERIMENTS, ON_DATA, load_experiment
from tests.faults.arguments import (
    ALL,
    COLUMNS,
    COMMANDS,
    HUGE_WORK,
    Arguments,
    change_arguments,
    misuse_last,
    pick_method,
    render,
)
from tests.faults.exports import SHAPES, TOOLS, Export
from tests.faults.folders import copy_folder, damage_export, damage_model, damage_results
from tests.faults.tables import TARGETS, hostile_table, small_table, to_csv, write_table
from tests.faults.values import FLOATS, HUGE_INTEGERS, INTEGERS, hostile_text
from tests.importers.exports import EXPORTS

SHARES = {
    "train": 30,
    "predict": 30,
    "compare": 6,
    "diagnose": 6,
    "evaluate": 6,
    "export": 2,  # ten times as slow as others
    "reproduce": 6,
    "demo": 1,
    "import": 12,
    # Relations:
    "same-file": 5,
    "formats": 3,
    "permuted": 2,
    "renamed": 2,
    "repeated": 1,
    "constant": 1,
    "libraries": 2,
    "changed": 1,
}
"""How often a command or a relation is drawn; others 6."""
MODELS = ["tram", "regression", "multi-label", "pi-dual", "numbers", "auto"]
"""Models that the cases start from."""
OTHER_TARGETS = {"regression": ["grade"], "multi-label": ["flag", "mark"]}
"""Targets of those models that do not predict `label`."""
OUTPUTS = [*(f"model-{name}" for name in MODELS), "compare", "diagnose", "demo", "reproduce", "evaluate"]
"""Folders that the cases start from, made by `base_command`."""


@dataclass
class Case:
    """A command line, and what surrounds it.

    Parameters
    ----------
    command, arguments : str, list of str
        The command line after `lupi`.
    output : str
        The path that the command is asked to write.
    stdout : str
        What standard output is: "utf-8", "ascii", a pipe that nobody reads ("closed") or a full disk ("full").
    file_limit : int, optional
        Size in bytes that a file can reach before writing fails.
    interrupt : float, optional
        Seconds after which Ctrl-C is pressed.
    again : bool
        Whether to run the command once more without limits, which must succeed.
    rival : list of str, optional
        A command line that runs at the same time. One of the two must succeed, the other must say why not.
    real : bool
        Whether to run `python -m lupi` instead of a fork of this process.
    table : str, optional
        The table that the command reads, whose rows are counted.
    answers, labels : int, list, optional
        What an export holds: the number of answers, and how often each annotator gave each label.
    relate : callable, optional
        What to run instead of a command: a relation between several commands (`tests.faults.relations.relate`).
    """

    command: str
    arguments: list[str]
    output: str
    stdout: str = "utf-8"
    file_limit: int | None = None
    interrupt: float | None = None
    again: bool = False
    rival: list[str] | None = None
    real: bool = False
    table: str | None = None
    answers: int | None = None
    labels: list[tuple[str, str, int]] | None = None
    relate: Callable[[str], tuple[list[str], list[int]]] | None = None


def pick_command(number: int) -> str:
    """Return the command or the relation of a case by its number."""
    names = list(dict.fromkeys([*COMMANDS, *SHARES]))
    return Random(f"command {number}").choices(names, [SHARES.get(name, 6) for name in names])[0]


@dataclass
class Scene:
    """What a command line is drawn from: a generator, an empty folder, earlier outputs, and how hostile to be.

    `export` is the export of a labelling tool whose content is known.
    """

    rng: Random
    folder: Path
    bases: Path
    hostile: dict[str, float]
    export: Export | None = None


def make_case(name: str, folder: Path, bases: Path) -> Case:
    """Write the files of a case into an empty folder, and return its command line.

    Parameters
    ----------
    name : str
        The command and a number, such as "train:1234".
    folder : Path
        Where the command will run.
    bases : Path
        Folder with the outputs of earlier commands, see `OUTPUTS`.
    """
    command, _, number = name.partition(":")
    rng = Random(f"{command} {number}")
    mode = rng.choices(["plain", "table", "options", "folder", "all"], [2, 4, 4, 3, 1])[0]
    hostile = {name: float(mode in (name, "all")) for name in ("table", "options", "folder")}
    make = MAKERS.get(command, make_unknown)
    scene = Scene(rng, folder, bases, hostile)
    arguments = make(scene)
    huge = bool(hostile["options"]) and change_arguments(command, arguments, rng)
    huge = huge or (command == "reproduce" and not arguments.get("changes"))  # a whole experiment takes minutes
    output = prepare_output(command, arguments, rng, folder, bases, hostile["folder"])
    words = render(command, arguments, rng)
    if hostile["options"] and rng.random() < 0.03:
        words = misuse_last(command, words, rng)
    case = Case(command, clean(words), output, interrupt=HUGE_WORK if huge else None)
    if len(tables := arguments.get("table", [])) == 1:
        case.table = tables[0]
    if scene.export is not None and not hostile["options"]:
        case.answers = scene.export.answers
        labels = scene.export.labels
        case.labels = None if labels is None else [(*key, count) for key, count in sorted(labels.items())]
    surround(case, rng)
    return case


def clean(arguments: list[str]) -> list[str]:
    """Remove what no operating system passes to a program."""
    return [argument.replace("\0", "") for argument in arguments]


def surround(case: Case, rng: Random) -> None:
    """Draw a surrounding: mostly a usual one."""
    draw = rng.random()
    if draw < 0.02:
        case.stdout = "ascii"
    elif draw < 0.03:
        case.stdout = "closed"
    elif draw < 0.04:
        case.stdout = "full"
    elif draw < 0.07:
        case.file_limit = rng.choice([0, 10, 300, 3000, 30_000])
    elif draw < 0.10 and case.interrupt is None:
        case.interrupt = rng.uniform(0.05, 0.5)


# ------------------------------------------------------------------------------ commands


def table_arguments(rng: Random, folder: Path, hostile: dict[str, float]) -> Arguments:
    """Write a table, and return the arguments that describe it."""
    target = rng.choices(list(TARGETS), [6, 2, 1])[0]
    table = hostile_table(rng, hostile["table"])
    others = [name for name in COLUMNS if name in ("label", "grade", "flag", "mark", "gold") and name != target]
    targets = ["flag", "mark"] if target == "flag" else [target]
    ignore = [name for name in others if name not in targets]
    if rng.random() < 0.5:
        ignore.append("note")
    arguments = {
        "table": [write_table(folder, "table", table, rng, hostile["table"])],
        "target": targets,
        "privileged": [rng.choice(["worker,seconds", "worker,seconds", "worker", "seconds"])],
        "ignore": [",".join(ignore)],
        "epochs": ["1"],
    }
    if rng.random() < 0.4:
        arguments["example"] = ["id"]
    else:
        arguments["ignore"].append("id")
    return arguments


def make_train(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    arguments = table_arguments(rng, folder, hostile)
    return arguments | {"method": [pick_method(rng)], "output": ["model"]}


def make_compare(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    arguments = table_arguments(rng, folder, hostile) | {"jobs": ["1"], "seeds": ["2"], "output": ["run"]}
    if rng.random() < 0.3:
        gold = hostile_table(rng, hostile["table"])
        arguments["test"] = [write_table(folder, "gold", gold, rng, hostile["table"])]
    return arguments | {"methods": [f"no-pi,{pick_method(rng)}" if rng.random() < 0.9 else "no-pi"]}


def make_diagnose(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    arguments = table_arguments(rng, folder, hostile) | {"jobs": ["1"], "folds": ["2"], "output": ["run"]}
    if rng.random() < 0.3 and arguments["target"] == ["label"]:
        arguments["gold"] = ["gold"]
        arguments["ignore"] = ["grade,flag,mark,note" + ("" if "example" in arguments else ",id")]
    if rng.random() < 0.5:
        arguments["method"] = [pick_method(rng)]
    return arguments


def copy_model(rng: Random, folder: Path, bases: Path, hostile: float, name: str | None = None) -> str:
    """Copy a model, by default any, with changes with some probability."""
    copy_folder(bases / f"model-{name or rng.choice(MODELS)}", folder / "model")
    if rng.random() < hostile:
        damage_model(folder / "model", rng)
    return "model"


def make_predict(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    table = hostile_table(rng, hostile["table"])
    arguments = {
        "model": [copy_model(rng, folder, scene.bases, hostile["folder"])],
        "table": [write_table(folder, "table", table, rng, hostile["table"])],
        "output": [rng.choice(["out.parquet", "out.csv", "new/out.csv"])],
    }
    if rng.random() < 0.3:
        arguments["keep"] = [rng.choice(["id", "id,worker", "note"])]
    return arguments


def make_evaluate(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    name = rng.choice(MODELS)
    model = copy_model(rng, folder, scene.bases, hostile["folder"], name)
    table = write_table(folder, "table", hostile_table(rng, hostile["table"]), rng, hostile["table"])
    target = OTHER_TARGETS.get(name, ["label"]) if rng.random() < 0.9 else ["gold"]
    return {"model": [model], "table": [table], "target": target, "output": ["run"]}


def make_export(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    name = copy_model(rng, folder, scene.bases, max(hostile["folder"], float(rng.random() < 0.7)))
    return {"model": [name], "onnx": [rng.choice(["model.onnx", "new/model.onnx", "model"])]}


def make_demo(_: Scene) -> Arguments:
    return {"seeds": ["2"], "epochs": ["1"], "jobs": ["1"], "output": ["run"], "methods": ["no-pi,tram"]}


def make_reproduce(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    name = rng.choice(list(EXPERIMENTS)) if rng.random() < 0.95 else hostile_text(rng)
    arguments = {"experiment": [name], "output": ["run"], "changes": []}
    if name in EXPERIMENTS:
        settings = load_experiment(name).Settings()
        arguments["changes"] = [f"{key}={value}" for key, value in small_settings(settings).items()]
        if rng.random() < max(hostile["table"], hostile["options"]):
            field = rng.choice([field.name for field in dataclasses.fields(settings)])
            arguments["changes"].append(f"{field}={hostile_setting(getattr(settings, field), rng)}")
    if name in ON_DATA:
        (folder / "data").mkdir()
        (folder / "data" / rng.choice(["train.csv", "cifar10h-raw.csv", "x"])).write_bytes(
            to_csv(small_table(rng, 6), rng, plain=False)
        )
        arguments["data"] = ["data"]
    return arguments


def small_settings(settings: Any) -> dict[str, Any]:
    """Return settings of an experiment that take little time."""
    small: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name in ("seeds", "repeats", "folds"):
            small[field.name] = 2
        elif field.name in ("epochs", "long"):
            small[field.name] = 1
        elif isinstance(value, int) and value > 100:
            small[field.name] = 100
        elif isinstance(value, tuple) and value and all(isinstance(one, float) for one in value):
            small[field.name] = value[:2]
    return small


def hostile_setting(value: Any, rng: Random) -> str:
    """Draw a value for a setting of an experiment, which does not ask for very much work."""
    if isinstance(value, tuple):
        one = hostile_setting(value[0] if value else 0.0, rng)
        return rng.choice([f"({one},)", "()", one, f"({one}, {one})"])
    if isinstance(value, int):
        return rng.choice(INTEGERS)
    if isinstance(value, float):
        return rng.choice(FLOATS)
    return rng.choice([hostile_text(rng), rng.choice(HUGE_INTEGERS)])


def make_import(scene: Scene) -> Arguments:
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    tool = rng.choice(list(EXPORTS))
    output = [rng.choice(["out.parquet", "out.csv"])]
    if not hostile["folder"] and rng.random() < 0.6:
        scene.export = TOOLS[tool](folder, rng, rng.choice(list(SHAPES)))
        return {"tool": [tool], "export": [scene.export.path], "output": output, **scene.export.options}
    (folder / "export").mkdir()
    export = EXPORTS[tool](folder / "export")
    if rng.random() < max(hostile["table"], hostile["folder"]):
        damage_export(folder / "export", rng)
    tool = rng.choice(list(EXPORTS)) if rng.random() < 0.1 * hostile["options"] else tool
    return {
        "tool": [tool],
        "export": [str(export.relative_to(folder))],
        "output": output,
    }


def make_unknown(scene: Scene) -> Arguments:
    """Return arguments for a command that this file does not know: a table for what must be given."""
    rng, folder, hostile = scene.rng, scene.folder, scene.hostile
    table = write_table(folder, "table", hostile_table(rng, hostile["table"]), rng, hostile["table"])
    return {"table": [table], "source": [table], "output": ["run"]}


MAKERS = {
    "train": make_train,
    "compare": make_compare,
    "diagnose": make_diagnose,
    "predict": make_predict,
    "evaluate": make_evaluate,
    "export": make_export,
    "demo": make_demo,
    "reproduce": make_reproduce,
    "import": make_import,
}


# ------------------------------------------------------------------------------ outputs

PATHS = ["a/b/c", "table.csv", "loop", "dangling", "full/x", "file/x", "", ".", "..", "caf\udce9", "out.txt", "x" * 300]
"""Paths for outputs."""


def prepare_output(command: str, arguments: Arguments, rng: Random, folder: Path, bases: Path, hostile: float) -> str:
    """Put something where the output will be, with some probability, and return the path of the output."""
    name = "onnx" if command == "export" else "output"
    if rng.random() > (0.5 if hostile else 0.1):
        return arguments.get(name, [""])[-1]
    if rng.random() < 0.5:
        arguments["overwrite"] = ["set"]
    (folder / "file").write_bytes(b"mine")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    path = arguments.get(name, [""])[-1]
    place = folder / path.replace("\0", "")
    action = rng.choice(["path", "mine", "empty", "folder", "ours", "ours", "damaged", "damaged", "loop", "dangling"])
    try:
        if action == "path":
            arguments[name] = [rng.choice([*PATHS, hostile_text(rng)])]
        elif action == "mine":
            place.write_bytes(b"mine")
        elif action == "empty":
            place.mkdir(parents=True)
        elif action == "folder":
            place.mkdir(parents=True)
            (place / rng.choice(["mine.txt", "results.json", "model.json", ".hidden", "runs"])).write_bytes(b"mine")
        elif action in ("ours", "damaged"):
            copy_folder(bases / base_output(command, rng), place)
            if action == "damaged":
                (damage_model if command == "train" and rng.random() < 0.5 else damage_results)(place, rng)
        else:
            place.symlink_to("loop" if action == "loop" else "nowhere")
    except (OSError, ValueError):
        pass  # the path is hostile enough by itself
    return arguments.get(name, [""])[-1]


def base_output(command: str, rng: Random) -> str:
    """Return the name of an earlier output, mostly of the same command."""
    own = [name for name in OUTPUTS if name == command or (name.startswith("model-") and command == "train")]
    return rng.choice(own) if own and rng.random() < 0.9 else rng.choice(OUTPUTS)


def base_command(name: str, folder: Path) -> list[str]:
    """Write what is needed to make one of `OUTPUTS` in a folder, and return the command line."""
    rng = Random(0)
    hostile = {"table": 0.0, "options": 0.0, "folder": 0.0}
    kind = name.removeprefix("model-")
    command = "train" if name.startswith("model-") else name
    if command == "reproduce":
        settings = small_settings(load_experiment("linear-risk").Settings())
        changes = [f"{key}={value}" for key, value in settings.items()]
        return render(command, {"experiment": ["linear-risk"], "changes": changes, "output": [name]}, rng)
    arguments = MAKERS[command](Scene(rng, folder, folder, hostile)) | {"output": [name]}
    if command != "demo":
        (folder / "table.csv").write_bytes(to_csv(small_table(rng, 48), rng, plain=True))
        target = OTHER_TARGETS.get(kind, ["label"])
        ignored = {"label", "grade", "flag", "mark", "gold", "id", *(["note", "colour"] if kind == "numbers" else [])}
        arguments |= {"table": ["table.csv"], "target": target, "privileged": ["worker,seconds"]}
        arguments |= {"ignore": [",".join(sorted(ignored - set(target)))]}
        arguments.pop("example", None)
        arguments.pop("gold", None)
    if command == "train":
        arguments["method"] = [kind if kind in ALL else "tram"]
    if command == "compare":
        arguments.pop("test", None)
        arguments["methods"] = ["no-pi,tram"]
    if command == "evaluate":
        arguments["model"] = ["model-tram"]
    return render(command, arguments, rng)
