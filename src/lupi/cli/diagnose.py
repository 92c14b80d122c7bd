"""The command `lupi diagnose`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lupi.cli import options
from lupi.cli.commands import describe_command, print_message


@options.with_options(
    {"epochs": 100, "batch_size": None, "learning_rate": None},
    spec=options.table_options,
    settings=options.training_options,
)
def run(
    spec: Any,
    settings: dict[str, Any],
    output: options.Output,
    probabilities: Annotated[
        Path | None,
        typer.Option(help="A .npy file of another model's out-of-fold probabilities, which judge the labels instead."),
    ] = None,
    method: Annotated[str, typer.Option(help="Method whose predictions judge the labels.")] = "pi-transition",
    folds: Annotated[int, typer.Option(min=2, help="Number of folds; models trained on the others judge each.")] = 5,
    seed: options.Seed = 0,
    sample: options.Sample = None,
    device: options.Device = "auto",
    jobs: options.Jobs = -1,
    overwrite: options.Overwrite = False,
) -> None:
    """Show whether privileged information is worth having, which annotators are unreliable and which labels wrong."""
    from lupi.diagnose import Problem, diagnose
    from lupi.diagnose.diagnosis import claim_folder

    with claim_folder(output, overwrite=overwrite):
        problem = Problem.from_table(
            spec,
            probabilities=probabilities,
            method=method,
            folds=folds,
            seed=seed,
            device=device,
            settings=settings,
            sample=sample,
            jobs=jobs,
            notify=print_message,
            progress=True,
        )
        found = diagnose(problem)
        files = found.write(output, overwrite=True, **describe_command())
    print_message(f"\n{found}")
    print(f"\nAll results: {', '.join(map(str, files))}")
