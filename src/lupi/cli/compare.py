"""The command `lupi compare`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lupi.cli import options
from lupi.cli.commands import print_message, save_comparison


@options.with_options(spec=options.table_options, settings=options.training_options)
def run(
    spec: Any,
    settings: dict[str, Any],
    output: options.Output,
    test: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Table with true labels; by default examples are held out.")
    ] = None,
    methods: options.Methods = "",
    seeds: Annotated[
        int | None, typer.Option(min=2, help="Number of seeds, and of splits without a test table; 10 by default.")
    ] = None,
    folds: Annotated[int | None, typer.Option(min=2, help="Folds of cross-validation, instead of seeds.")] = None,
    controls: Annotated[
        bool, typer.Option("--controls", help="Train controls too: zeros, shuffled and random PI.")
    ] = False,
    predicts: options.Predicts = "truth",
    sample: options.Sample = None,
    device: options.Device = "auto",
    jobs: options.Jobs = -1,
    cluster: options.Cluster = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Compare methods with No PI on a table of annotations, to see whether privileged information helps.

    An interrupted comparison continues where it stopped. In the same folder, a comparison with other --seeds, --methods
    or --controls reuses finished runs, and replaces the results.
    """
    from lupi._internal.files import claim_output
    from lupi._internal.parallel import open_cluster
    from lupi.compare import Plan, compare_table
    from lupi.compare.cache import ABOUT
    from lupi.compare.results import format_table

    if seeds is not None and folds is not None:
        raise ValueError("Expected `seeds` or `folds`, but got both.")
    plan = Plan(
        spec=spec,
        test=test,
        methods=options.split_methods(methods),
        seeds=seeds or 10,
        folds=folds,
        controls=controls,
        sample=sample,
        device=device,
        settings={**settings, "predicts": predicts},
    )
    with open_cluster(cluster) as workers, claim_output(output, overwrite=True, folder=True):
        found = compare_table(  # looks at what is in the folder
            plan, output, jobs=jobs, cluster=workers, overwrite=overwrite, notify=print_message, progress=True
        )
        print_message(f"\n{format_table(found)}\n\n{found.verdict}\n")
        for note in found.notes:
            print_message(f"Note: {note}")
        if not (output / ABOUT).exists():  # a new folder without it would be refused the next time
            raise FileNotFoundError(f"Expected `output` to stay until the end, but {output} was removed.")
        save_comparison(found, output)
