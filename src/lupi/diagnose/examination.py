"""From an annotation table to a diagnosis in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lupi._internal.files import write_text
from lupi.compare.cases import Data, Plan, read
from lupi.diagnose.diagnosis import Diagnosis, Problem, diagnose
from lupi.diagnose.page import diagnosis_page
from lupi.diagnose.scores import FEW_LABELS
from lupi.report import Section, Table, write_report
from lupi.serving.tables import features, resolved, writing
from lupi.tabular.encoding import ID, as_text
from lupi.tabular.tables import as_pandas, check_name, check_types, open_table, read_table, split_names, stored_as
from lupi.tabular.text import make_encoder

INFORMATION, ANNOTATORS, LABELS = "information.csv", "annotators.csv", "labels.csv"
NUMBERS, TABLE, REPORT = "results.json", "results.csv", "report.html"
WRITTEN = (NUMBERS, TABLE, INFORMATION, ANNOTATORS, LABELS, REPORT)


@dataclass(frozen=True)
class Request:
    """What `lupi diagnose` was asked for."""

    table: Path
    target: Sequence[str]
    privileged: Sequence[str] = ()
    example: str | None = None
    annotator: str | None = None
    ignore: Sequence[str] = ()
    gold: str | None = None
    kind: Sequence[str] = ()
    task: str | None = None
    method: str = "pi-transition"
    text_encoder: str | None = None
    folds: int = 5
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """More parameters of the estimators, such as `epochs`."""


def examine(
    request: Request, *, jobs: int = 1, say: Callable[[str], None] = print, progress: bool = True
) -> tuple[Diagnosis, dict[str, Any]]:
    """Diagnose a table.

    Parameters
    ----------
    request : Request
        The table, its columns and how to train.
    jobs : int
        Trainings at a time; the results do not depend on it.
    say : callable
        Takes each choice that was made, as a line.
    progress : bool
        Show progress.

    Returns
    -------
    tuple
        The diagnosis, and facts about table and choices.

    Examples
    --------
    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.normal(size=80), "worker": list("abcd") * 20})
    >>> table["y"] = np.where(table["x"] > 0, "yes", "no")
    >>> with tempfile.TemporaryDirectory() as name:
    ...     table.to_csv(Path(name, "table.csv"), index=False)
    ...     request = Request(Path(name, "table.csv"), ["y"], ["worker"], folds=2, settings={"epochs": 1})
    ...     found, facts = examine(request, progress=False)
    Task: classification (the target is names).
    Inputs: 1 number.
    Privileged: worker (category).
    Annotators: worker, by its name; `--annotator` names another.
    >>> list(found.labels)
    ['row', 'annotator', 'given', 'likely', 'wrong']
    """
    if jobs == 0:
        raise ValueError("Expected `--jobs` to be a number of trainings, or -1, but got 0.")
    plan = planned(request)
    data = read(plan, say)
    annotator = chosen_annotator(request, data, say)
    extra = [name for name in (annotator, request.gold, request.example) if name]
    strings = [name for name in (request.example,) if name]
    more = as_pandas(read_table(request.table, extra, strings)) if extra else pd.DataFrame()
    text = {
        name: make_encoder(resolved(request.text_encoder)).fit([str(value) for value in data.train.X[name].unique()])
        for name in data.text
    }
    labels = data.train.y if data.task != "classification" else np.asarray(data.classes)[data.train.y]
    problem = Problem(
        features(data.train.X, text),
        labels,
        data.privileged,
        data.kinds,
        data.train.example,
        None if annotator is None else names_of(more[annotator]),
        None if request.gold is None else checked_gold(more[request.gold], data),
        data.task == "regression",
        request.method,
        request.folds,
        request.seed,
        request.settings,
    )
    for note in data.notes:
        say(f"Note: {note}")
    found = diagnose(problem, jobs=jobs, progress=progress)
    if found.labels is not None:
        found = replace(found, labels=named_examples(found.labels, more, request.example))
    roles = asdict(data.roles)
    return found, {
        "table": str(request.table),
        "rows": len(data.privileged),
        "examples": int(data.train.example.max()) + 1,
        "task": data.task,
        "roles": {name: value for name, value in roles.items() if name != "inputs"} | {"inputs": len(roles["inputs"])},
        "annotator": annotator,
        "gold": request.gold,
        "method": request.method,
        "folds": request.folds,
        "seed": request.seed,
        "settings": dict(request.settings),
        "data": data.digest,
        "reading": data.notes,
    }


# -------------------------------------------------------------------------------- reading


def planned(request: Request) -> Plan:
    """Give every column its role: true labels are not used, and the annotator is privileged information."""
    schema = open_table(request.table).schema
    names = schema.names
    target, privileged = split_names(request.target, names), split_names(request.privileged, names)
    ignore = split_names(request.ignore, names)
    roles: dict[str, list[str]] = {"--target": target, "--privileged": privileged, "--example": [request.example or ""]}
    if request.gold is not None:
        check_name(request.gold, names, "--gold")
        for option, columns in (roles | {"--annotator": [request.annotator or ""]}).items():
            if request.gold in columns:
                raise ValueError(f"Expected column {request.gold!r} in one role, but got --gold and {option}.")
        ignore = [*(name for name in ignore if name != request.gold), request.gold]
    if request.annotator is not None:
        check_name(request.annotator, names, "--annotator")
        for option in ("--target", "--example"):
            if request.annotator in roles[option]:
                raise ValueError(
                    f"Expected column {request.annotator!r} in one role, but got --annotator and {option}."
                )
        if request.annotator not in (*privileged, *ignore):
            privileged = [*privileged, request.annotator]
    for name in privileged:
        if name in names and (stored := stored_as(schema.field(name).type)) not in (
            "boolean",
            "number",
            "string",
            "date",
            "duration",
            "null",
        ):
            raise ValueError(
                f"Expected privileged column {name!r} to be numbers, booleans, dates or strings, but it is {stored}: "
                "name it in `--ignore`."
            )
    if request.gold is not None:
        check_types(schema, [request.gold], "true labels")
    return Plan(
        request.table,
        target,
        privileged,
        request.example,
        ignore,
        kind=request.kind,
        task=request.task,
        text_encoder=request.text_encoder,
    )


def chosen_annotator(request: Request, data: Data, say: Callable[[str], None]) -> str | None:
    """Find the column of annotators: the one that was named, or the first privileged one that is named like one."""
    if request.annotator is not None:
        return request.annotator
    for name in data.roles.privileged:
        column = data.privileged[name]
        if data.kinds[name] == "category" and ID.search(name) and 1 < column.nunique() <= len(column) / 2:
            say(f"Annotators: {name}, by its name; `--annotator` names another.")
            return name
    say("Annotators: no privileged column is named like one; `--annotator` names it.")
    return None


def names_of(column: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """Names of annotators; the missing ones are one."""
    return np.array(["(missing)" if pd.isna(value) else as_text(value) for value in column], dtype=object)


def checked_gold(column: pd.Series[Any], data: Data) -> pd.Series[Any]:
    """Look whether true labels are labels."""
    if data.task != "classification":
        raise ValueError(f"Expected one target of classes where `--gold` is given, but the task is {data.task}.")
    known = {as_text(value) for value in column.dropna().unique()}
    classes = {as_text(value) for value in data.classes}
    if not known & classes:
        got = f"only {sorted(known)[0]!r} and the like" if known else "no value"
        raise ValueError(f"Expected `--gold` to hold labels such as {sorted(classes)[0]!r}, but got {got}.")
    return column


def named_examples(labels: pd.DataFrame, more: pd.DataFrame, example: str | None) -> pd.DataFrame:
    """Write the ids of examples as they are in the table; without ids leave the column out."""
    if example is None:
        return labels.drop(columns="example")
    return labels.assign(example=more[example].to_numpy()[labels["row"]])


# -------------------------------------------------------------------------------- writing


def check_folder(folder: Path, overwrite: bool) -> None:
    """Look, before long work, whether the folder is new or an older diagnosis that may be replaced, and make it."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"Expected `--output` to be a folder, but {folder} is a file.")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / INFORMATION).exists():
            raise FileExistsError(f"Expected `--output` to be new or a diagnosis, but {folder} is something else.")
        if not overwrite:
            raise FileExistsError(f"Expected `--output` to be new, but {folder} exists: `--overwrite` replaces it.")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / ".writable", "")
        (folder / ".writable").unlink()


def write_diagnosis(found: Diagnosis, facts: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write all files of a diagnosis, each under another name first, and remove those of an older one.

    Parameters
    ----------
    found : Diagnosis
        From `examine`.
    facts : mapping
        From `examine`, with command and versions.
    folder : Path
        The folder; it is there.
    """
    numbers = found.numbers()
    texts = {
        INFORMATION: found.information.to_csv(index=False),
        TABLE: numbers.to_csv(index=False),
        NUMBERS: json.dumps(
            {
                **facts,
                "verdict": found.verdict.split("\n\n"),
                "notes": found.notes,
                "loss": found.loss,
                "control": None if found.control is None else asdict(found.control),
                "information": records(found.information),
                "capacity": None if found.capacity is None else asdict(found.capacity),
                "annotators": None if found.annotators is None else records(found.annotators),
                "labels": json.loads(
                    numbers[numbers["part"] == "labels"].set_index("quantity")["value"].to_json(double_precision=15)
                ),
                "scores": None if found.scores is None else records(found.scores),
            },
            indent=2,
        )
        + "\n",
    }
    for name, table in ((ANNOTATORS, found.annotators), (LABELS, found.labels)):
        if table is not None:
            texts[name] = table.to_csv(index=False)
    page = diagnosis_page(
        found.verdict,
        information=found.information,
        annotators=found.annotators,
        labels=found.labels,
        notes=found.notes,
        command=str(facts.get("command", "")),
        versions=facts.get("versions"),
        more=[] if found.scores is None else [score_section(found.scores)],
    )
    with writing(folder):
        for name in WRITTEN:
            if name not in texts:
                (folder / name).unlink(missing_ok=True)
        for name, text in texts.items():
            write_text(folder / name, text)
        write_report(page, folder / REPORT)
    return [folder / name for name in WRITTEN if name in (*texts, REPORT)]


def score_section(scores: pd.DataFrame) -> Section:
    """Part of the report that scores the diagnosis by true labels."""
    text = (
        "True labels were used for these scores, and for nothing else. AUROC is the probability that a wrong label "
        "stands before a right one, and Spearman's is the correlation of an annotator's rank with the rank by the "
        "share of their labels that is right. Majority vote and No PI alone are what to be ahead of."
    )
    table = Table(caption="Scores.", frame=scores, formats={"value": ".3f", "count": ",d"})
    return Section(heading="Scores by true labels", text=text, tables=[table])


def records(table: pd.DataFrame) -> Any:
    """Rows as JSON holds them: no number is null."""
    return json.loads(table.to_json(orient="records", double_precision=15))


def summary(found: Diagnosis, most: int = 8) -> str:
    """Write the verdict and the tops of the tables as text for a terminal."""
    parts = [found.verdict]
    table = found.information.assign(share=100 * found.information["share"], alone=100 * found.information["alone"])
    table = table.rename(columns={"estimate": "nats", "share": "% of loss", "alone": "% alone", "how": "leak?"})
    shown = table[["column", "nats", "low", "high", "% of loss", "% alone", "leak?"]]
    parts.append(
        f"What each column tells of the label beyond the inputs (held-out loss without it {found.loss:.4f}):\n"
        + as_lines(shown, {"nats": "{:.4f}", "low": "{:.4f}", "high": "{:.4f}"})
    )
    if found.annotators is not None:
        columns = ["annotator", "labels", "agreement", "confidence", "support", "reliability", "low", "high", "flagged"]
        top = found.annotators[found.annotators["labels"] >= FEW_LABELS].head(most)[columns]
        top = top.assign(flagged=np.where(top["flagged"], "yes", ""))
        parts.append(f"Annotators of {FEW_LABELS} labels or more, least support first:\n{as_lines(top, {}, '{:.2f}')}")
    if found.labels is not None:
        parts.append(f"Labels, the most suspicious first:\n{as_lines(found.labels.head(most), {}, '{:.3f}')}")
    if found.scores is not None:
        table = found.scores.assign(what=found.scores["of"] + ", " + found.scores["score"])
        wide = table.pivot_table(index="what", columns="estimate", values="value", sort=False, dropna=False)
        parts.append(f"Scored by true labels:\n{as_lines(wide.reset_index(), {}, '{:.3f}')}")
    return "\n\n".join([*parts, "\n".join(f"Note: {note}" for note in found.notes)])


def as_lines(table: pd.DataFrame, formats: Mapping[str, str], default: str = "{:.1f}") -> str:
    """Write a table as text; a missing number is a dash."""

    def written(column: pd.Series[Any]) -> pd.Series[Any]:
        form = formats.get(str(column.name), default)
        if column.dtype.kind != "f":
            return column
        return column.map(lambda value: "–" if pd.isna(value) else form.format(value))

    text = table.apply(written).to_string(index=False)
    return "\n".join("  " + re.sub(r"\s+$", "", line) for line in text.splitlines())
