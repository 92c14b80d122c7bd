"""The command line: parses, calls, prints. Heavy imports wait until a command needs them."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from lupi import __version__
from lupi._internal.files import explain_os_errors

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
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for results and report.html.")] = Path(
        "run/demo"
    ),
) -> None:
    """Compare all methods on handwritten digits with simulated annotators."""
    from lupi.compare import comparison_page, write_results
    from lupi.methods import kind, names
    from lupi.report import write_report
    from lupi.reproduce.demo import compare_digits, format_digits

    chosen = [name.strip() for name in methods.split(",") if name.strip()] or names()
    with one_sentence():
        if jobs == 0:
            raise ValueError("Expected `jobs` to be a number of processes or -1, but got 0.")
        for name in chosen:
            kind(name)
        with explain_os_errors(output):
            output.mkdir(parents=True, exist_ok=True)
    found = compare_digits(chosen, seeds, jobs, annotations=annotations, epochs=epochs, progress=True)
    print(format_digits(found))
    facts: dict[str, Any] = {"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": versions()}
    files = write_results(found, output, facts)
    files.append(write_report(comparison_page(found, **facts), output / "report.html"))
    print(f"\nEvery run: {', '.join(map(str, files))}")


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment; `--list` lists them.")] = "",
    names: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    seeds: Annotated[int | None, typer.Option(min=2, help="Number of seeds.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another value of a setting; repeatable.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the files that an experiment reads; it says which.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for results; run/NAME.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Begin again where the folder has other results.")] = False,
) -> None:
    """Run an experiment of the paper."""
    from lupi.reproduce import EXPERIMENTS, ON_DATA

    if names:
        for name, what in EXPERIMENTS.items():
            print(f"{name:26}{what}")
        return
    if experiment not in EXPERIMENTS:
        fail(f"Expected an experiment among {', '.join(EXPERIMENTS)}, but got {experiment!r}.")
    if data is not None and experiment not in ON_DATA:
        fail(f"Expected no `--data` for {experiment}, which makes its own, but got {data}.")
    from lupi.reproduce import load_experiment
    from lupi.reproduce.findings import change_settings, write_findings

    folder = output or Path("run") / experiment
    chosen = ([] if seeds is None else [f"seeds={seeds}"]) + (changes or [])
    module = load_experiment(experiment)
    try:
        settings = change_settings(module.Settings(), chosen)
        folder.mkdir(parents=True, exist_ok=True)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"Expected `--output` to be a folder to write to, but got {folder}: {error.strerror}.")
    if experiment in ON_DATA:
        with one_sentence():
            findings = module.run(settings, data=data, folder=folder, overwrite=overwrite, progress=True)
    else:
        findings = module.run(settings, progress=True)
    print(findings.text)
    facts = {"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": versions()}
    for path in write_findings(findings, settings, facts, folder):
        print(path)


@app.command()
def train(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, Parquet or a folder of Parquet: a row per label.")
    ],
    target: Annotated[list[str], typer.Option(help="Column of labels; several columns of 0 and 1 are multi-label.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the model.")],
    privileged: Annotated[
        list[str] | None, typer.Option(help="Columns that are known of these labels only, with commas between.")
    ] = None,
    example: Annotated[str | None, typer.Option(help="Column of ids: rows with equal ids are one example.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Columns not to use, with commas between.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="Read a column as number, category or text; repeatable."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression; by default by the target.")] = None,
    method: Annotated[str, typer.Option(help="Name of a method.")] = "tram",
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = 50,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop when the loss on held-out labels has not fallen for so many epochs.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Annotations in a batch.")] = 32,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="Learning rate of Adam.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of initial weights, batches and noise.")] = 0,
    text_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Hugging Face model for text columns; else TF-IDF.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda.")] = "cpu",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
) -> None:
    """Train a model on a table of annotations. Columns that are not named are inputs."""
    with one_sentence():
        from lupi.serving import train as train_model
        from lupi.tabular import TableSpec

        settings = {
            "epochs": epochs,
            "patience": patience,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
        }
        spec = TableSpec(
            table=table,
            target=target,
            privileged=privileged or [],
            example=example,
            ignore=ignore or [],
            kind=parse_kinds(kind or []),
            task=task,
            text_encoder=text_encoder,
        )
        train_model(
            spec,
            method=method,
            device=device,
            seed=seed,
            settings=settings,
            output=output,
            overwrite=overwrite,
            command=shlex.join(["lupi", *sys.argv[1:]]),
            say=lambda line: print(name_flags(line)),
            progress=True,
        )
    print(f"Model: {output}, described in {output / 'README.md'}")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `lupi train` wrote.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, Parquet or a folder of Parquet.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for predictions, .parquet or .csv.")],
    keep: Annotated[list[str] | None, typer.Option(help="Columns to copy, with commas between.")] = None,
    text_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Where the model's text encoder is, if it has moved.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to predict: cpu, cuda.")] = "cpu",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Predict a table of any length. It needs the model's input columns and no privileged ones."""
    with one_sentence():
        from lupi.serving import load, predict_table

        loaded = load(model, device=device, text_encoder=text_encoder)
        rows = predict_table(loaded, table, output, keep=keep or [], overwrite=overwrite, progress=True)
    print(f"Predictions: {output}, {rows:,} rows")


@app.command()
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a model.")],
    onnx: Annotated[Path, typer.Option("--onnx", help="The ONNX file.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Write the predictor, without privileged information or what learned from it, as an ONNX file."""
    with one_sentence():
        from lupi.serving import export_onnx, load

        lines = export_onnx(load(model), onnx, overwrite=overwrite)
    print(f"ONNX: {onnx}, checked against torch")
    for line in lines:
        print(f"  {line}")


@app.command()
def compare(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, Parquet or a folder of Parquet: a row per label.")
    ],
    target: Annotated[list[str], typer.Option(help="Column of labels; several columns of 0 and 1 are multi-label.")],
    privileged: Annotated[
        list[str], typer.Option(help="Columns that are known of these labels only, with commas between.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for results; it goes on where it was interrupted.")
    ],
    example: Annotated[
        str | None, typer.Option(help="Column of ids: rows with equal ids are one example, or else with equal inputs.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Columns not to use, with commas between.")] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Table with true labels; else noisy labels are held out.")
    ] = None,
    methods: Annotated[str, typer.Option(help="Names of methods, with commas between; all by default.")] = "",
    seeds: Annotated[int | None, typer.Option(min=2, help="Number of seeds, and of splits without --test; 10.")] = None,
    folds: Annotated[int | None, typer.Option(min=2, help="Cross-validation in so many parts, not seeds.")] = None,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls", help="Also every method with zeros, shuffled and random PI; No PI that stops early."
        ),
    ] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="Read a column as number, category or text; repeatable."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression; by default by the target.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = 50,
    batch_size: Annotated[int, typer.Option(min=1, help="Annotations in a batch.")] = 32,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="Learning rate of Adam.")] = 1e-3,
    text_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Hugging Face model for text columns; else TF-IDF.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda.")] = "cpu",
    jobs: Annotated[int, typer.Option(help="Groups of runs at a time; -1 for one per core.")] = -1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin again where the folder holds a comparison.")
    ] = False,
) -> None:
    """Compare methods on a table of annotations with No PI, and say whether privileged information helps."""
    with one_sentence():
        if seeds is not None and folds is not None:
            raise ValueError("Expected `--seeds` or `--folds`, but got both.")
        from lupi.compare import Plan, compare_table, comparison_page, format_table, write_results
        from lupi.report import write_report
        from lupi.tabular import TableSpec

        spec = TableSpec(
            table=table,
            target=target,
            privileged=privileged,
            example=example,
            ignore=ignore or [],
            kind=parse_kinds(kind or []),
            task=task,
            text_encoder=text_encoder,
        )
        plan = Plan(
            spec=spec,
            test=test,
            methods=[name.strip() for name in methods.split(",") if name.strip()],
            seeds=seeds or 10,
            folds=folds,
            controls=controls,
            device=device,
            settings={"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate},
        )
        found = compare_table(plan, output, jobs=jobs, overwrite=overwrite, say=print, progress=True)
        facts: dict[str, Any] = {"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": versions()}
        files = write_results(found, output, facts)
        files.append(write_report(comparison_page(found, **facts), output / "report.html"))
    print(f"\n{format_table(found)}\n\n{found.verdict}\n")
    for note in found.notes:
        print(f"Note: {note}")
    print(f"\nAll metrics: {', '.join(map(str, files))}")


@app.command()
def diagnose(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, Parquet or a folder of Parquet: a row per label.")
    ],
    target: Annotated[list[str], typer.Option(help="Column of labels; several columns of 0 and 1 are multi-label.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for tables, results and report.html.")],
    privileged: Annotated[
        list[str] | None, typer.Option(help="Columns that are known of these labels only, with commas between.")
    ] = None,
    example: Annotated[
        str | None, typer.Option(help="Column of ids: rows with equal ids are one example, or else with equal inputs.")
    ] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Column of who gave the label; by default the one that is named like that.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Columns not to use, with commas between.")] = None,
    gold: Annotated[str | None, typer.Option(help="Column of true labels, to score the diagnosis only.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="Read a column as number, category or text; repeatable."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression; by default by the target.")] = None,
    method: Annotated[str, typer.Option(help="Method whose predictions judge labels.")] = "pi-transition",
    epochs: Annotated[int, typer.Option(min=1, help="Most epochs of training; it stops early.")] = 100,
    text_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Hugging Face model for text columns; else TF-IDF.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the examples; each is judged by the others.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of folds, initial weights and batches.")] = 0,
    jobs: Annotated[int, typer.Option(help="Trainings at a time; -1 for one per core.")] = -1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a diagnosis that is there.")] = False,
) -> None:
    """Say whether privileged information is worth having, and which annotators and labels to distrust."""
    with one_sentence():
        from lupi.cli.options import table_options
        from lupi.diagnose import diagnose_table, format_diagnosis

        spec = table_options(table, target, privileged, example, ignore, kind, task, text_encoder)
        found, files = diagnose_table(
            replace(spec, annotator=annotator, gold=gold),
            output,
            overwrite=overwrite,
            method=method,
            folds=folds,
            seed=seed,
            settings={"epochs": epochs},
            jobs=jobs,
            facts={"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": versions()},
            say=print,
            progress=True,
        )
    print(f"\n{format_diagnosis(found)}\n\nAll of it: {', '.join(map(str, files))}")


@contextmanager
def one_sentence() -> Iterator[None]:
    """End with one sentence where the user can do something about an error; a warning is a line."""
    shown = warnings.showwarning
    warnings.showwarning = lambda message, *_: print(f"lupi: {message}", file=sys.stderr)
    try:
        yield
    except (ValueError, ImportError, FloatingPointError, OSError) as error:
        fail(name_flags(" ".join(str(error).split())))
    finally:
        warnings.showwarning = shown


def parse_kinds(options: list[str]) -> dict[str, str]:
    """Read COLUMN=KIND options."""
    for option in options:
        if "=" not in option:
            raise ValueError(f"Expected `kind` to be COLUMN=KIND, but got {option!r}.")
    return {column: kind for column, _, kind in (option.rpartition("=") for option in options)}


OPTIONS = (
    "jobs",
    "folds",
    "test",
    "seeds",
    "methods",
    "data",
    "target",
    "privileged",
    "example",
    "ignore",
    "kind",
    "task",
    "text_encoder",
    "output",
    "onnx",
    "keep",
)


def name_flags(message: str) -> str:
    """Turn names of arguments into flags."""
    for name in OPTIONS:
        message = message.replace(f"`{name}`", f"`--{name.replace('_', '-')}`")
    return message.replace("pass `overwrite=True`", "pass `--overwrite`").replace("`controls=True`", "`--controls`")


def fail(message: str) -> NoReturn:
    """Say in a sentence what is wrong, and end."""
    print(f"lupi: {message}", file=sys.stderr)
    raise typer.Exit(2)


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    from importlib.metadata import version

    own = {"lupi": __version__, "python": sys.version.split()[0]}
    return own | {name: version(name) for name in ("torch", "scikit-learn", "numpy")}
