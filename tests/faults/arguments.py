"""Hostile arguments for every command. Commands and options come from the application itself."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from random import Random
from typing import Any, get_args

import typer.main

from lupi import methods
from lupi.cli import app
from lupi.cli.main import MODULES
from tests.faults.values import DEVICES, FLOATS, HUGE_INTEGERS, INTEGERS, TEXTS, hostile_text

GROUP: Any = typer.main.get_command(app)
COMMANDS: Mapping[str, Any] = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}
"""The commands by name."""
SIGNATURES = {
    name: inspect.signature(import_module(f"lupi.cli.{module}").run, eval_str=True).parameters
    for name, module in MODULES.items()
}
"""The parameters of the functions behind the commands."""

Arguments = dict[str, list[str]]
"""Values by the name of a parameter; a flag has the value "set"."""

COLUMNS = ["id", "size", "count", "colour", "note", "worker", "seconds", "label", "grade", "flag", "mark", "gold"]
CHEAP = ["no-pi", "tram", "zero-imputation", "mean-imputation", "pi-dual", "pi-transition", "miml-fcn-plus"]
KINDS = ["number", "category", "text", "image", "vector", "Number", ""]
ALL = [*methods.names(), "auto"]
HUGE_WORK = 1.5
"""Seconds after which a case that asks for very much work is interrupted."""


def pick_method(rng: Random) -> str:
    """Draw the name of a method, mostly of a cheap one."""
    return rng.choice(CHEAP) if rng.random() < 0.85 else rng.choice(ALL)


def types_in(annotation: Any) -> set[Any]:
    """Return the types in an annotation such as `Annotated[int | None, …]`."""
    return {annotation}.union(
        *(types_in(one) for one in get_args(annotation) if isinstance(one, type) or get_args(one))
    )


def hostile_argument(command: str, parameter: Any, rng: Random) -> tuple[str, bool]:
    """Draw a value for a parameter by its type and name, and say whether it may ask for very much work."""
    name = parameter.name
    types = types_in(SIGNATURES[command][name].annotation)
    if int in types:
        huge = rng.random() < 0.25
        return rng.choice(HUGE_INTEGERS if huge else INTEGERS), huge
    if float in types:
        return rng.choice(FLOATS), False
    if name == "device":
        return rng.choice(DEVICES), False
    if name == "kind":
        chosen = rng.choice([*KINDS, hostile_text(rng)])
        return f"{rng.choice([*COLUMNS, hostile_text(rng)])}={chosen}", False
    if name == "task":
        return rng.choice(["classification", "regression", "multi-label", "Classification", *TEXTS[:6]]), False
    if "method" in name:
        chosen = rng.sample(ALL, rng.randint(1, 2)) + [hostile_text(rng)] * (rng.random() < 0.3)
        return ",".join(chosen), False
    if rng.random() < 0.5:
        return ",".join(rng.choices([*COLUMNS, hostile_text(rng)], k=rng.choice([1, 1, 2, 4]))), False
    return hostile_text(rng), False


def parameters_of(command: str) -> list[Any]:
    """Return the parameters of a command, without those that print something and exit."""
    return [one for one in COMMANDS[command].params if one.name != "help"]


def change_arguments(command: str, arguments: Arguments, rng: Random) -> bool:
    """Change a few arguments of a command; return whether they may ask for very much work."""
    huge = False
    for _ in range(rng.choice([1, 1, 2, 3])):
        parameter = rng.choice(parameters_of(command))
        name = parameter.name
        if getattr(parameter, "is_flag", False):
            if name in arguments:
                del arguments[name]
            else:
                arguments[name] = ["set"]
        elif rng.random() < 0.1:
            arguments.pop(name, None)
        else:
            value, asks_much = hostile_argument(command, parameter, rng)
            huge = huge or asks_much
            more = parameter.multiple and rng.random() < 0.5
            arguments[name] = [*arguments.get(name, []), value] if more else [value]
    return huge


def render(command: str, arguments: Arguments, rng: Random) -> list[str]:
    """Return the command line: options in any order, then arguments, which may begin with a dash."""
    options: list[list[str]] = []
    positional: list[str] = []
    for parameter in parameters_of(command):
        values = arguments.get(parameter.name, [])
        if parameter.param_type_name == "argument":
            positional += values
        elif getattr(parameter, "is_flag", False):
            options += [[parameter.opts[0]]] * bool(values)
        else:
            long = max(parameter.opts, key=len)
            options += [[f"{long}={value}"] if rng.random() < 0.2 else [long, value] for value in values]
    rng.shuffle(options)
    return [command, *(word for option in options for word in option), *(["--"] * bool(positional)), *positional]


def misuse_last(command: str, words: list[str], rng: Random) -> list[str]:
    """End a command line with an option that lacks its value, or with a flag that has one."""
    options = [one for one in parameters_of(command) if one.param_type_name == "option"]
    flags = {max(one.opts, key=len): getattr(one, "is_flag", False) for one in options} or {"--help": True}
    last = rng.choice(list(flags))
    return [*(word for word in words if word != "--"), f"{last}=1" if flags[last] else last]
