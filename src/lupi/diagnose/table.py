"""Diagnose a table of annotations, and write the results to a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from lupi._internal.checks import check_jobs
from lupi._internal.files import check_output, explain_os_errors, to_records, write_text
from lupi.crowd import pairwise_agreement
from lupi.diagnose.diagnosis import Diagnosis, diagnose
from lupi.diagnose.page import diagnosis_page
from lupi.diagnose.problem import Problem
from lupi.report import write_report
from lupi.tabular import TableDataset, TableSpec, read_dataset
from lupi.tabular.encoding import as_text
from lupi.tabular.features import encode_columns, fit_encoders

RESULTS, TABLE, REPORT = "results.json", "results.csv", "report.html"
INFORMATION, ANNOTATORS, LABELS = "information.csv", "annotators.csv", "labels.csv"
FILES = (RESULTS, TABLE, INFORMATION, ANNOTATORS, LABELS, REPORT)


def diagnose_table(
    spec: TableSpec,
    output: Path,
    *,
    overwrite: bool = False,
    method: str = "pi-transition",
    folds: int = 5,
    seed: int = 0,
    device: str = "cpu",
    settings: Mapping[str, Any] | None = None,
    jobs: int = 1,
    facts: Mapping[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
    progress: bool = False,
) -> tuple[Diagnosis, list[Path]]:
    """Diagnose a table of annotations, and write tables, results and a report to a folder.

    Parameters
    ----------
    spec : TableSpec
        The table and the roles of its columns.
    output : Path
        Folder for the files in `FILES`.
    overwrite : bool
        Whether to replace an existing diagnosis.
    method, folds, seed
        As for `Problem`.
    device : str
        Where to train.
    settings : mapping, optional
        More parameters of the estimators, such as `epochs`; None is the default.
    jobs, progress
        As for `diagnose`.
    facts : mapping, optional
        More facts for results.json; the report shows `command` and `versions`.
    say : callable, optional
        Receives each choice that was made for the table, and each note about it, as a line.

    Returns
    -------
    tuple
        The diagnosis, and the files that were written.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"x": rng.normal(size=80), "worker": list("abcd") * 20})
    >>> frame["y"] = np.where(frame["x"] > 0, "yes", "no")
    >>> with tempfile.TemporaryDirectory() as name:
    ...     frame.to_csv(Path(name, "table.csv"), index=False)
    ...     spec = TableSpec(table=Path(name, "table.csv"), target=["y"], privileged=["worker"])
    ...     found, files = diagnose_table(spec, Path(name, "run"), folds=2, settings={"epochs": 1})
    >>> [path.name for path in files][:2], list(found.labels)
    (['results.json', 'results.csv'], ['row', 'annotator', 'given', 'likely', 'wrong'])
    """
    check_jobs(jobs)
    check_output(
        output, overwrite=overwrite, folder=True, ours=lambda folder: (folder / INFORMATION).exists(), kind="diagnosis"
    )
    chosen = {name: value for name, value in (settings or {}).items() if value is not None}
    data = read_dataset(spec, device=device)
    check_gold(data)
    notes = [*data.notes, *describe_agreement(data)]
    for line in (*data.choices, *(f"Note: {note}" for note in notes)):
        if say is not None:
            say(line)
    encoders = fit_encoders(data.train.X, {name: data.schema.inputs[name] for name in data.encoded}, device=device)
    problem = Problem(
        encode_columns(data.train.X, encoders),
        data.train.y if data.task != "classification" else np.asarray(data.classes)[data.train.y],
        data.privileged,
        kinds=data.schema.privileged,
        example=data.train.example if data.ids is None else data.ids.to_numpy(),
        annotator=data.annotators,
        gold=data.gold,
        real=data.task == "regression",
        method=method,
        folds=folds,
        seed=seed,
        parameters={"device": device, **chosen},
    )
    found = diagnose(problem, jobs=jobs, progress=progress)
    if data.ids is None and found.labels is not None:
        found = replace(found, labels=found.labels.drop(columns="example"))
    roles = asdict(data.schema.roles)
    known = {
        "table": str(spec.table),
        "rows": len(data.privileged),
        "examples": problem.examples,
        "task": data.task,
        "roles": {name: value for name, value in roles.items() if name != "inputs"} | {"inputs": len(roles["inputs"])},
        "annotator": data.annotator,
        "gold": spec.gold,
        "method": method,
        "folds": folds,
        "seed": seed,
        "settings": chosen,
        "data": data.digest,
        "reading": notes,
    }
    return found, write_diagnosis(found, output, {**known, **(facts or {})})


def check_gold(data: TableDataset) -> None:
    """Raise an error unless true labels, if there are any, are labels."""
    if data.gold is None:
        return
    if data.task != "classification":
        raise ValueError(f"Expected a single target of classes for `gold`, but the task is {data.task}.")
    known = {as_text(value) for value in data.gold.dropna().unique()}
    classes = {as_text(value) for value in data.classes}
    if not known & classes:
        got = repr(min(known)) if known else "no value"
        raise ValueError(f"Expected `gold` to have labels such as {min(classes)!r}, but got {got}.")


def describe_agreement(data: TableDataset) -> list[str]:
    """Say how often two labels of one example agree, if there are such labels."""
    if data.task != "classification":
        return []
    agreement = pairwise_agreement(data.train.y, data.train.example)
    return [] if np.isnan(agreement) else [f"Two labels of one example agree {100 * agreement:.0f} % of the time."]


def write_diagnosis(found: Diagnosis, folder: Path, facts: Mapping[str, Any]) -> list[Path]:
    """Write all files of a diagnosis, and remove files of an older one that are no longer made.

    Parameters
    ----------
    found : Diagnosis
        From `diagnose`.
    folder : Path
        The folder, which is created if it does not exist.
    facts : mapping
        More facts for results.json; the report shows `command` and `versions`.

    Returns
    -------
    list of Path
        The files.
    """
    tables = {"annotators": found.annotators, "scores": found.scores}
    results = {
        **facts,
        "verdict": found.verdict.split("\n\n"),
        "notes": found.notes,
        "loss": found.loss,
        "control": None if found.control is None else asdict(found.control),
        "information": to_records(found.information),
        "capacity": None if found.capacity is None else asdict(found.capacity),
        "labels": found.label_counts(),
        **{name: None if table is None else to_records(table) for name, table in tables.items()},
    }
    texts = {RESULTS: json.dumps(results, indent=2) + "\n"}
    frames = {
        TABLE: found.numbers(),
        INFORMATION: found.information,
        ANNOTATORS: found.annotators,
        LABELS: found.labels,
    }
    texts |= {name: table.to_csv(index=False) for name, table in frames.items() if table is not None}
    page = diagnosis_page(
        found.verdict,
        information=found.information,
        annotators=found.annotators,
        labels=found.labels,
        scores=found.scores,
        notes=found.notes,
        command=str(facts.get("command", "")),
        versions=facts.get("versions"),
    )
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in frames.keys() - texts.keys():
            (folder / name).unlink(missing_ok=True)
        for name, text in texts.items():
            write_text(folder / name, text)
        write_report(page, folder / REPORT)
    return [folder / name for name in FILES if name in (*texts, REPORT)]
