"""The command `lupi reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi._internal.files import explain_os_errors
from lupi.cli.commands import how_made
from lupi.cli.options import Overwrite


def run(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment; `--list` shows all.")] = "",
    names: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    seeds: Annotated[int | None, typer.Option(min=2, help="Number of seeds.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; repeatable.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the files that the experiment reads.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for results; run/EXPERIMENT by default.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Reproduce an experiment from the paper."""
    from lupi.reproduce import EXPERIMENTS, ON_DATA, load_experiment
    from lupi.reproduce.findings import write_findings
    from lupi.reproduce.settings import change_settings

    if names:
        for name, what in EXPERIMENTS.items():
            print(f"{name:26}{what}")
        return
    if experiment not in EXPERIMENTS:
        raise ValueError(f"Expected an experiment among {', '.join(EXPERIMENTS)}, but got {experiment!r}.")
    if data is not None and experiment not in ON_DATA:
        raise ValueError(f"Expected no `data` for {experiment}, which makes its own, but got {data}.")
    module = load_experiment(experiment)
    settings = change_settings(module.Settings(), [*([] if seeds is None else [f"seeds={seeds}"]), *(changes or [])])
    folder = output or Path("run", experiment)
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    on_data = {"data": data, "folder": folder, "overwrite": overwrite} if experiment in ON_DATA else {}
    findings = module.run(settings, progress=True, **on_data)
    print(findings.text)
    for path in write_findings(findings, settings, how_made(), folder):
        print(path)
