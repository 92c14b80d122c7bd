"""The command `lupi reproduce`."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from lupi.cli.commands import describe_command
from lupi.cli.options import Cluster, Overwrite


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
    cluster: Cluster = None,
    overwrite: Overwrite = False,
) -> None:
    """Reproduce an experiment from the paper."""
    from lupi._internal.files import claim_output, explain_os_errors, replace_folder
    from lupi._internal.parallel import open_cluster
    from lupi_paper import EXPERIMENTS, ON_DATA, load_experiment
    from lupi_paper.findings import make_files
    from lupi_paper.settings import change_settings

    if names:
        for name, what in EXPERIMENTS.items():
            print(f"{name:26}{what}")
        return
    if experiment not in EXPERIMENTS:
        raise ValueError(f"Expected an experiment among {', '.join(EXPERIMENTS)}, but got {experiment!r}.")
    if data is not None and experiment not in ON_DATA:
        raise ValueError(f"Expected no `data` for {experiment}, which makes its own, but got {data}.")
    if cluster is not None and experiment not in ON_DATA:
        raise ValueError(f"Expected no `cluster` for {experiment}, which trains on this machine, but got {cluster!r}.")
    module = load_experiment(experiment)
    settings = change_settings(module.Settings(), [*([] if seeds is None else [f"seeds={seeds}"]), *(changes or [])])
    folder = output or Path("run", experiment)
    on_data: dict[str, Any] = {"data": data, "folder": folder, "overwrite": overwrite} if experiment in ON_DATA else {}
    claim: dict[str, Any] = {"overwrite": overwrite, "ours": is_finding, "kind": "result of an experiment"}
    claim = {"overwrite": True} if on_data else claim  # the experiment looks at what is there
    with (
        open_cluster(cluster) as workers,
        claim_output(folder, folder=True, **claim) if is_first_process() else nullcontext(),
    ):
        if workers is not None:
            on_data["cluster"] = workers
        findings = module.run(settings, progress=True, **on_data)
        print(findings.text)
        with explain_os_errors(folder), replace_folder(folder, drop=list_findings(folder)) as partial:
            files = make_files(findings, settings, describe_command())
            for name, content in files.items():
                (partial / name).write_bytes(content)
    for name in files:
        print(folder / name)


def list_findings(folder: Path) -> list[str]:
    """List the files that an experiment has written to a folder."""
    from lupi._internal.files import read_object

    figures = read_object(folder / "results.json").get("figures")
    return ["results.json", "results.csv", "report.md", *(map(str, figures) if isinstance(figures, list) else ())]


def is_finding(folder: Path) -> bool:
    """Return whether a folder holds results of an experiment that keeps no runs."""
    from lupi._internal.files import read_object
    from lupi.compare.cache import ABOUT

    return {"settings", "results"} <= read_object(folder / "results.json").keys() and not (folder / ABOUT).exists()


def is_first_process() -> bool:
    """Return whether this is the first process of a distributed run, which is the only one that writes."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "NODE_RANK", "LOCAL_RANK"))
