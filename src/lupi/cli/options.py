"""Options that commands share. Each has one name, one help text and one definition.

A *provider* is a function whose parameters are options; `with_options` adds them to the signature of a command and
calls the provider with the values. To add an option to all commands that read a table, add a parameter to
`table_options`; to add a training setting, add a parameter to `training_options`.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lupi.cli.commands import fast_imports

Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Train on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786."),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, or auto for a GPU if there is one.")]
Jobs = Annotated[int, typer.Option(help="Trainings to run in parallel; -1 for one per core.")]
Methods = Annotated[str, typer.Option(help="Comma-separated names of methods, or `all`.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that is already there.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder for results.")]
Predicts = Annotated[
    str, typer.Option(metavar="truth|labels", help="Predict the true label, or how people would answer.")
]
Sample = Annotated[
    int | None, typer.Option(min=1, help="Use a random sample of this number of annotations, by whole examples.")
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of initial weights, batches, folds and noise.")]
Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="CSV, TSV, JSON, Excel or Parquet file, or folder of Parquet.")
]
TextEncoder = Annotated[
    str | None,
    typer.Option(metavar="NAME_OR_FOLDER", help="Hugging Face model for text columns; TF-IDF by default."),
]
ImageEncoder = Annotated[
    str | None,
    typer.Option(metavar="NAME_OR_FOLDER", help="Pretrained model for image columns; their pixels by default."),
]


def table_options(
    table: Table,
    target: Annotated[list[str], typer.Option(help="Column of labels; several columns of 0 and 1 are multi-label.")],
    privileged: Annotated[
        list[str] | None, typer.Option(help="Comma-separated columns that are known for these labels only.")
    ] = None,
    example: Annotated[
        str | None,
        typer.Option(help="Column of ids; rows with equal ids, or by default equal inputs, are labels of one example."),
    ] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Column that says who gave the label; by default found by its name.")
    ] = None,
    gold: Annotated[
        str | None, typer.Option(help="Column of true labels, partly blank, to learn what labels are worth.")
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ANNOTATOR=SHARE", help="Share of an annotator's labels that you trust to be right; repeatable."
        ),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Column of numbers that say how much each label counts in training.")
    ] = None,
    soft: Annotated[
        bool, typer.Option("--soft", help="The target columns are probabilities of classes, which they name.")
    ] = False,
    scale: Annotated[
        str | None,
        typer.Option(
            help="ordinal if the classes are numbers of a rating scale, or comma-separated grades in order; nominal by "
            "default."
        ),
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Comma-separated columns to leave out.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            help="Read a column as number, standardized, category, text, image or vector; repeatable.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression; by default inferred from the target.")
    ] = None,
    text_encoder: TextEncoder = None,
    image_encoder: ImageEncoder = None,
) -> Any:
    """Return the `TableSpec` of a table, whose fields are the parameters."""
    given = {name: value for name, value in locals().items() if value is not None}
    from lupi.tabular import TableSpec

    given["kind"] = split_pairs("kind", kind, "COLUMN=KIND")
    return TableSpec(**{**given, "trust": split_pairs("trust", trust, "ANNOTATOR=SHARE", float)})


def split_pairs(
    option: str, values: list[str] | None, form: str, convert: Callable[[str], Any] = str
) -> dict[str, Any]:
    """Return names and converted values of a repeatable option with values such as NAME=VALUE."""
    pairs = {}
    for value in values or []:
        name, _, text = value.rpartition("=")
        try:
            pairs[name] = convert(text)
        except ValueError:
            name = ""
        if not name:
            raise ValueError(f"Expected `{option}` to be {form}, but got {value!r}.")
    return pairs


def model_options(
    model: Model,
    text_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Text encoder of the model, if it has one.")
    ] = None,
    image_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Image encoder of the model, if it has one.")
    ] = None,
    device: Device = "auto",
) -> tuple[Path, Any]:
    """Return a model folder, and the model in it."""
    with fast_imports():
        from lupi import load

    return model, load(model, text_encoder=text_encoder, image_encoder=image_encoder, device=device)


def training_options(
    epochs: Annotated[int, typer.Option(min=1, help="Maximum number of epochs.")] = 50,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Annotations in a batch. The default grows with the table: `train` and `compare` take 32 up to 65,536 "
            "rows, then the smallest power of two with at most 2048 batches per epoch, up to 4096.",
        ),
    ] = None,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="Learning rate of Adam.")] = 1e-3,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after this number of epochs without a lower loss on held-out labels; `train` and `compare` use "
            "their consensus for methods that predict the true label. `auto` stops by itself.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Return parameters of the estimators."""
    return {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "patience": patience}


def split_methods(methods: str) -> list[str]:
    """Split comma-separated names."""
    return [name.strip() for name in methods.split(",") if name.strip()]


def with_options(
    defaults: dict[str, Any] | None = None, /, **providers: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace parameters of a command with the options of providers."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        functions = (*providers.values(), command)
        parameters = [
            parameter.replace(
                default=(defaults or {}).get(parameter.name, parameter.default), kind=inspect.Parameter.KEYWORD_ONLY
            )
            for function in functions
            for parameter in inspect.signature(function, eval_str=True).parameters.values()
            if parameter.name not in providers
        ]

        def run(**values: Any) -> None:
            given = {
                name: provider(**{option: values.pop(option) for option in inspect.signature(provider).parameters})
                for name, provider in providers.items()
            }
            command(**given, **values)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
