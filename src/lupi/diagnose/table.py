"""Diagnose a table of annotations, and write the results to a folder."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from lupi._internal.arrays import Floats
from lupi._internal.checks import check_integer, check_jobs
from lupi._internal.files import claim_output, explain_os_errors, replace_folder, to_csv, to_records, write_text
from lupi._internal.progress import show_trainings
from lupi.compare.consensus import check_trust, take_trust
from lupi.crowd.agreement import describe_agreement
from lupi.diagnose.content import add_content, draw_pictures
from lupi.diagnose.diagnosis import diagnose
from lupi.diagnose.findings import Diagnosis
from lupi.diagnose.other_models import read_probabilities
from lupi.diagnose.page import diagnosis_page
from lupi.diagnose.problem import Problem
from lupi.report import write_report
from lupi.tabular import TableDataset, TableSpec, read_dataset
from lupi.tabular.columns import estimator_kinds
from lupi.tabular.features import encode_columns, fit_encoders
from lupi.tabular.sampling import sample_examples


def diagnose_table(
    spec: TableSpec,
    output: Path,
    *,
    overwrite: bool = False,
    probabilities: Path | None = None,
    method: str = "pi-transition",
    folds: int = 5,
    seed: int = 0,
    device: str = "cpu",
    settings: Mapping[str, Any] | None = None,
    sample: int | None = None,
    jobs: int = 1,
    facts: Mapping[str, Any] | None = None,
    notify: Callable[[str], None] | None = None,
    progress: bool = False,
) -> tuple[Diagnosis, list[Path]]:
    """Diagnose a table of annotations, and write tables, results and a report to a folder.

    Parameters
    ----------
    spec : TableSpec
        The table and the roles of its columns.
    output : Path
        Folder for the files.
    overwrite : bool
        Whether to replace an existing diagnosis.
    probabilities : Path, optional
        A ``.npy`` file of class probabilities to use instead of the predictions of `method`, from a model that was not
        trained on the example: one row per row of the table, and one column per class, in sorted order.
    method, folds, seed
        As for `Problem`.
    device : str
        Device for training.
    settings : mapping, optional
        More parameters of the estimators, such as `epochs`; None stands for the default.
    sample : int, optional
        Maximum number of annotations. If there are more, whole examples are sampled at random.
    jobs, progress
        As for `diagnose`.
    facts : mapping, optional
        More facts for results.json; the report shows `command` and `versions`.
    notify : callable, optional
        Called with a line for each choice that was made for the table and for each note about it.

    Returns
    -------
    tuple
        The diagnosis, and the paths of the files that were written.

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
    (['results.json', 'results.csv'], ['row', 'annotator', 'given', 'likely', 'wrong', 'right', 'x'])
    """
    check_jobs(jobs)
    if sample is not None:
        check_integer("sample", sample, 1)
    with claim_output(
        output, overwrite=overwrite, folder=True, ours=lambda run: (run / "information.csv").exists(), kind="diagnosis"
    ):
        chosen = {name: value for name, value in (settings or {}).items() if value is not None}
        whole = read_dataset(spec, device=device)
        check_trust(spec, whole)
        p = None if probabilities is None else read_probabilities(probabilities, spec, whole)
        data = sample_examples(whole, sample or len(whole.rows), seed)
        problem = make_problem(
            data,
            None if p is None else p[np.searchsorted(whole.rows, data.rows)],
            trust=take_trust(spec.trust, data.annotators),
            method=method,
            folds=folds,
            seed=seed,
            parameters={"device": device, "kind": estimator_kinds(data.schema.inputs), **chosen},
        )
        notes = list(data.notes)
        if data.task == "classification":
            notes += describe_agreement(data.train.y, data.train.example)
        if spec.soft:
            notes.append("The label of a row is its most probable class: how probable it is does not matter here.")
        for line in (*data.choices, *(f"Note: {note}" for note in notes)):
            if notify is not None:
                notify(line)
        if progress:
            show_trainings(count_trainings(problem), len(problem.y))
        found = diagnose(problem, jobs=jobs, progress=progress)
        if len(data.rows) < len(whole.rows):
            found = replace(found, notes=[data.notes[0], *found.notes])
        if data.ids is None and found.labels is not None:
            found = replace(found, labels=found.labels.drop(columns="example"))
        if found.labels is not None:  # use row numbers of the table, including rows without a label
            labels = found.labels.assign(row=data.rows[found.labels["row"]])
            labels = add_content(labels, spec, data.schema.inputs)
            found = replace(found, labels=labels, pictures=draw_pictures(labels, spec, data.schema.inputs))
        if data.ids is None and found.consensus is not None:
            first = data.rows[np.unique(data.train.example, return_index=True)[1]]
            found = replace(found, consensus=found.consensus.assign(example=first).rename(columns={"example": "row"}))
        roles = asdict(data.schema.roles)
        roles["inputs"] = len(roles["inputs"])
        known = {
            "table": str(spec.table),
            "rows": len(data.privileged),
            "examples": problem.examples,
            "task": data.task,
            "roles": roles,
            "annotator": data.annotator,
            "gold": spec.gold,
            "trust": dict(spec.trust),
            "probabilities": None if probabilities is None else str(probabilities),
            "weight": spec.weight,
            "soft": spec.soft,
            "method": method,
            "folds": folds,
            "seed": seed,
            "settings": chosen,
            "sample": len(data.rows) if len(data.rows) < len(whole.rows) else None,
            "data": data.digest,
            "reading": notes,
        }
        return found, write_diagnosis(found, output, {**known, **(facts or {})})


def count_trainings(problem: Problem) -> int:
    """Return how many networks are trained: given no, each, all and shuffled columns, a wider one, and judges."""
    columns = len(problem.privileged.columns)
    judged = not problem.real and problem.y.ndim == 1
    judging = judged * ((problem.probabilities is None) + (problem.gold is not None))
    return problem.folds * (1 + columns + (columns > 1) + 2 + judging)


def make_problem(data: TableDataset, probabilities: Floats | None, **options: Any) -> Problem:
    """Encode the inputs of a table, and return the problem."""
    device = options["parameters"]["device"]
    encoders = fit_encoders(data.train.X, data.unencoded, device=device)
    return Problem(
        encode_columns(data.train.X, encoders),
        data.train.y if data.task != "classification" else np.asarray(data.classes)[data.train.y],
        data.privileged,
        kinds=data.schema.privileged,
        example=data.train.example if data.ids is None else data.ids.to_numpy(),
        annotator=data.annotators,
        gold=data.gold,
        probabilities=probabilities,
        weight=data.train.weight,
        real=data.task == "regression",
        **options,
    )


def write_diagnosis(diagnosis: Diagnosis, folder: Path, facts: Mapping[str, Any]) -> list[Path]:
    """Write the files of a diagnosis to a folder, replacing an older one."""
    results = {
        **facts,
        "verdict": diagnosis.verdict.split("\n\n"),
        "notes": diagnosis.notes,
        "loss": diagnosis.loss,
        "control": None if diagnosis.control is None else asdict(diagnosis.control),
        "information": to_records(diagnosis.information),
        "capacity": diagnosis.capacity,
        "labels": diagnosis.label_counts,
        "alpha": None if diagnosis.alpha is None or np.isnan(diagnosis.alpha) else diagnosis.alpha,
        "balance": None if diagnosis.balance is None else to_records(diagnosis.balance),
        "annotators": None if diagnosis.annotators is None else to_records(diagnosis.annotators),
        "scores": None if diagnosis.scores is None else to_records(diagnosis.scores),
    }
    tables = {
        "results.csv": diagnosis.numbers(),
        "information.csv": diagnosis.information,
        "annotators.csv": diagnosis.annotators,
        "labels.csv": diagnosis.labels,
        "consensus.csv": diagnosis.consensus,
        "confusion.csv": diagnosis.confusions,
        "balance.csv": diagnosis.balance,
        "periods.csv": diagnosis.periods,
    }
    with explain_os_errors(folder), replace_folder(folder, drop=["results.json", "report.html", *tables]) as partial:
        write_text(partial / "results.json", json.dumps(results, indent=2) + "\n")
        for name, table in tables.items():
            if table is not None:
                write_text(partial / name, to_csv(table))
        made = {name: facts[name] for name in ("command", "versions") if name in facts}
        write_report(diagnosis_page(diagnosis), partial / "report.html", **made)
    written = [name for name, table in tables.items() if table is not None]
    return [folder / name for name in ("results.json", *written, "report.html")]
