"""The command line: parses, calls, prints. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from lupi import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Learn from what you know about each label, and predict without it."""


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds.")] = 5,
    methods: Annotated[str, typer.Option(help="Names of methods, with commas between; all by default.")] = "",
    annotations: Annotated[int, typer.Option(min=1, help="Labels per digit.")] = 1,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = 50,
    jobs: Annotated[int, typer.Option(help="Runs at a time; -1 for one per core.")] = -1,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for results.json and results.csv.")] = Path(
        "run/demo"
    ),
) -> None:
    """Compare all methods on handwritten digits with simulated annotators."""
    from lupi.demo import compare_digits
    from lupi.methods import kind, names

    chosen = [name.strip() for name in methods.split(",") if name.strip()] or names()
    try:
        if jobs == 0:
            raise ValueError("Expected `--jobs` to be a number of runs, or -1, but got 0.")
        for name in chosen:
            kind(name)
        output.mkdir(parents=True, exist_ok=True)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"Expected `--output` to be a folder to write to, but got {output}: {error.strerror}.")
    table, results = compare_digits(chosen, seeds, jobs, annotations=annotations, epochs=epochs)
    print(table)
    write(output / "results.csv", results.to_csv(index=False))
    facts = {"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": versions(), "runs": results.to_dict("records")}
    write(output / "results.json", json.dumps(facts, indent=2) + "\n")
    print(f"\nEvery run: {output / 'results.csv'} and {output / 'results.json'}")


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment; `--list` lists them.")] = "",
    names: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    seeds: Annotated[int | None, typer.Option(min=2, help="Number of seeds.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another value of a setting; repeatable.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for results; run/NAME.")] = None,
) -> None:
    """Run an experiment of the paper."""
    from lupi.paper import EXPERIMENTS

    if names:
        for name, what in EXPERIMENTS.items():
            print(f"{name:26}{what}")
        return
    if experiment not in EXPERIMENTS:
        fail(f"Expected an experiment among {', '.join(EXPERIMENTS)}, but got {experiment!r}.")
    from importlib import import_module

    from lupi.paper.findings import change, write_findings

    folder = output or Path("run") / experiment
    chosen = ([] if seeds is None else [f"seeds={seeds}"]) + (changes or [])
    module = import_module(f"lupi.paper.{experiment.replace('-', '_')}")
    try:
        settings = change(module.Settings(), chosen)
        folder.mkdir(parents=True, exist_ok=True)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"Expected `--output` to be a folder to write to, but got {folder}: {error.strerror}.")
    findings = module.run(settings, progress=True)
    print(findings.text)
    facts = {"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": versions()}
    for path in write_findings(findings, settings, facts, folder):
        print(path)


def fail(message: str) -> NoReturn:
    """Say in a sentence what is wrong, and end."""
    print(f"lupi: {message}", file=sys.stderr)
    raise typer.Exit(2)


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    from importlib.metadata import version

    own = {"lupi": __version__, "python": sys.version.split()[0]}
    return own | {name: version(name) for name in ("torch", "scikit-learn", "numpy")}


def write(path: Path, text: str) -> None:
    """Write a file under another name and move it into place."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)
