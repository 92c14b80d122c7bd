"""The command `lupi demo`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi._internal.checks import check_jobs
from lupi.cli.commands import save_comparison
from lupi.cli.options import Jobs, Output, Overwrite, split_methods


def run(
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds.")] = 5,
    everything: Annotated[bool, typer.Option("--all", help="Show all methods.")] = False,
    methods: Annotated[str, typer.Option(help="Comma-separated names of methods.")] = "",
    annotations: Annotated[int, typer.Option(min=1, help="Labels per digit.")] = 1,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = 50,
    jobs: Jobs = -1,
    output: Output = Path("run/demo"),
    overwrite: Overwrite = False,
) -> None:
    """Compare methods on handwritten digits with simulated annotators."""
    from lupi._internal.files import claim_output
    from lupi.cli.digits import LEGEND, SHOWN, compare_digits, format_summary, is_demo
    from lupi.methods import kind, names

    check_jobs(jobs)
    chosen = split_methods(methods) or (names() if everything else [*SHOWN])
    for name in chosen:
        kind(name)
    with claim_output(output, overwrite=overwrite, folder=True, ours=is_demo, kind="demo"):
        found = compare_digits(chosen, seeds, jobs, annotations=annotations, epochs=epochs, progress=True)
        print(f"{found.notes[0]}\n{format_summary(found.summary)}\n\n{LEGEND}")
        save_comparison(found, output)
