"""The command `lupi evaluate`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lupi.cli import options
from lupi.cli.commands import describe_command, print_message


@options.with_options(loaded=options.model_options)
def run(
    loaded: tuple[Path, Any],
    table: options.Table,
    target: Annotated[
        list[str], typer.Option(help="Column of true labels; several, if the model has several targets.")
    ],
    output: options.Output = Path("run/evaluate"),
    card: Annotated[bool, typer.Option("--card", help="Write the scores into the card of the model, too.")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Score a model on a table of true labels. Rows without a true label are left out."""
    from lupi._internal.files import check_not_input, claim_output
    from lupi.serving.evaluation import evaluate_table, is_evaluation

    folder, model = loaded
    check_not_input(output, folder, table)
    with claim_output(output, overwrite=overwrite, folder=True, ours=is_evaluation, kind="result of an evaluation"):
        found = evaluate_table(model, table, target)
        files = found.write(output, **describe_command())
        if card:
            files.append(found.add_to_card(folder))
    print_message(str(found))
    print(f"\nAll results: {', '.join(map(str, files))}")
