"""The command `lupi import`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lupi.cli import options
from lupi.cli.commands import print_message


def run(
    tool: Annotated[str, typer.Argument(help="Labelling tool, such as label-studio; another name lists all.")],
    export: Annotated[Path, typer.Argument(metavar="EXPORT", help="File or folder that the tool has exported.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the table, .parquet or .csv.")],
    add: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="TABLE",
            help="Instead, write the export to a .json file for label-studio or argilla, with pre-annotations from a "
            "table of `predict` or of `diagnose` (consensus.csv, labels.csv); repeatable.",
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Question or field of labels; by default the first.")] = None,
    example: Annotated[str | None, typer.Option(help="Column of ids, for wide and huggingface.")] = None,
    annotators: Annotated[
        list[str] | None, typer.Option(help="Comma-separated columns of annotators, for wide.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of a dataset, for huggingface.")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Turn the export of a labelling tool into a table with one row per label, and say how to go on."""
    from lupi._internal.files import check_not_input
    from lupi.importers import find_importer, read_export
    from lupi.importers.pre_annotations import send_back

    if add:
        if example or annotators or split:
            raise ValueError("Expected `add` without `example`, `annotators` and `split`, but got one of them.")
        sent, examples = send_back(find_importer(tool), export, add, output, label=label, overwrite=overwrite)
        print(f"For {tool}: {output}, {examples:,} examples, {sent:,} of them with pre-annotations or suspicions")
        return
    check_not_input(output, export)
    given = {"label": label, "example": example, "annotators": annotators, "split": split}
    table = read_export(tool, export, **{name: value for name, value in given.items() if value})
    table.save(output, overwrite=overwrite)
    for note in table.notes:
        print_message(f"Note: {note}")
    who = f" by {table.frame['annotator'].nunique():,} annotators" if "annotator" in table.frame else ""
    rows, examples = len(table.frame), table.frame[table.example].nunique()
    print(f"Table: {output}, {rows:,} labels of {examples:,} examples{who}")
    roles = [f"--target {shlex.quote(name)}" for name in table.target]
    roles += [f"--privileged {shlex.quote(','.join(table.privileged))}"] if table.privileged else []
    roles += [f"--example {shlex.quote(table.example)}"]
    roles += [f"--gold {shlex.quote(table.gold)}"] if table.gold else []
    print(f"Next: lupi diagnose {shlex.quote(str(output))} {' '.join(roles)} -o run/")
