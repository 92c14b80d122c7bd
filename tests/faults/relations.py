"""Relations between runs: the same data in another form must give the same result.

Each relation writes its files into the current folder, runs commands or estimators, and returns what is wrong.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from tests.faults.arguments import pick_method
from tests.faults.cases import Case
from tests.faults.forks import AGAIN, run_lupi, snapshot
from tests.faults.tables import COLUMNS, Columns, hostile_table, length, small_table, to_arrow, write_as, write_table
from tests.faults.verdicts import KEPT

FORMATS = ("csv", "tsv", "parquet", "xlsx", "json", "jsonl")
PORTABLE = ("names of missing", "quotes", "dates in text", "booleans", "rare")
"""Columns that every file format holds."""
QUICK = ["--epochs", "2", "--batch-size", "1000"]
IGNORED = ["--ignore", "grade,flag,mark,gold,key"]
ROLES = ["--target", "label", "--privileged", "worker,seconds", "--example", "id", *IGNORED]


class Commands:
    """Run commands, and note how they ended and what they left behind."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.problems: list[str] = []

    def __call__(self, *words: object) -> bool:
        """Run a command and return whether it succeeded; one that is refused must change no file."""
        before = snapshot(Path())
        print(AGAIN, file=sys.stderr, flush=True)
        self.codes.append(run_lupi([str(word) for word in words]))
        after = snapshot(Path())
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        if self.codes[-1] != 0:
            self.problems += [f"partial output {name}" for name in changed if not KEPT.search(name)][:3]
        return self.codes[-1] == 0


def portable_table(rng: Random) -> Columns:
    """Return the small table with a few columns that every format holds, and the number of each row."""
    table = small_table(rng, rng.choice([24, 48]))
    rows = length(table)
    for kind in rng.sample(PORTABLE, rng.randrange(3)):
        values = COLUMNS[kind](rng, rows)
        table.append((kind, [value for value in values[: rows // 2] for _ in range(2)]))  # two labels per example
    for name in ("size", "colour"):
        if rng.random() < 0.3:
            gaps = {rng.randrange(rows // 2) for _ in range(3)}
            table = [
                (one, [None if one == name and i // 2 in gaps else v for i, v in enumerate(vs)]) for one, vs in table
            ]
    return [*table, ("key", list(range(rows)))]


def write(name: str, table: Columns, rng: Random) -> str:
    """Write a table to a file whose suffix says its format."""
    Path(name).write_bytes(write_as(name.rpartition(".")[2], table, rng))
    return name


def take(table: Columns, rows: list[int]) -> Columns:
    """Return some rows."""
    return [(name, [values[row] for row in rows]) for name, values in table]


def read_predictions(path: str) -> pd.DataFrame:
    """Return predictions in the order of the table."""
    found = pd.read_parquet(path)
    return found.sort_values("key", key=lambda key: key.astype(float), ignore_index=True) if "key" in found else found


def differ(one: pd.DataFrame, other: pd.DataFrame, what: str, tolerance: float = 1e-5) -> list[str]:
    """Say how predictions differ, by the place of a class rather than by its name."""
    if len(one) != len(other):
        return [f"{what}: {len(one)} rows and {len(other)} rows"]
    p, q = (table.filter(regex="^probability_|^prediction$").select_dtypes("number") for table in (one, other))
    p, q = (
        table.drop(columns="prediction") if table.shape[1] > 1 and "prediction" in table else table for table in (p, q)
    )
    if p.shape != q.shape:
        return [f"{what}: columns {', '.join(p)[:100]} and {', '.join(q)[:100]}"]
    gap = float(np.abs(p.to_numpy() - q.to_numpy()).max())
    return [f"{what}: predictions differ by {gap:.2g}"] if not gap <= tolerance else []


def train(run: Commands, table: str, model: str, *more: str, roles: list[str] = ROLES, method: str = "tram") -> bool:
    """Train a model."""
    return run("train", table, *roles, *QUICK, "--method", method, *more, "-o", model)


def predict(run: Commands, model: str, table: str) -> pd.DataFrame | None:
    """Return the predictions for a table; None if it is refused."""
    output = f"{model}-{table.replace('.', '-')}.parquet"
    return read_predictions(output) if run("predict", model, table, "--keep", "key", "-o", output) else None


def describe(model: str) -> Any:
    """Return what was recognized in the table of a model, in an order that is not that of its columns."""
    facts = json.loads(Path(model, "model.json").read_bytes())
    schema = facts["table"]
    kinds = {name: column["kind"] for name, column in schema["inputs"].items()}
    return sorted(kinds.items()), schema["privileged"], schema["annotator"], schema["task"], facts["record"]["rows"]


# ------------------------------------------------------------------------------ relations


def same_file(run: Commands, rng: Random) -> list[str]:
    """A model predicts the table that it was trained on, whatever is in it, and every row of it."""
    table = hostile_table(rng, float(rng.random() < 0.8))
    path = write_table(Path(), "table", table, rng, 0.0)
    rows = length(table) * (2 if Path(path).is_dir() else 1)
    target = rng.choice(["label", "grade"])
    ignored = ",".join(sorted({"label", "grade", "flag", "mark", "gold", "id"} - {target}))
    roles = ["--target", target, "--privileged", "worker,seconds", "--ignore", ignored]
    if not train(run, path, "model", roles=roles, method=pick_method(rng)):
        return []
    if not run("predict", "model", path, "-o", "out.parquet"):
        return ["refused: the table that the model was trained on"]
    found = len(pd.read_parquet("out.parquet"))
    return [f"rows: {rows} in the table, {found} predicted"] if found != rows else []


def formats(run: Commands, rng: Random) -> list[str]:
    """A table gives the same model and predictions in every file format."""
    table, kinds = portable_table(rng), rng.sample(FORMATS, 2)
    paths = [write(f"table.{kind}", table, rng) for kind in kinds]
    trained = [train(run, path, f"model-{kind}") for path, kind in zip(paths, kinds, strict=True)]
    if not all(trained):
        return [f"formats: {kinds[trained.index(False)]} is refused"]
    problems = []
    if describe(f"model-{kinds[0]}") != describe(f"model-{kinds[1]}"):
        problems.append(f"formats: {kinds[0]} and {kinds[1]} are recognized as different columns")
    found = {(kind, path): predict(run, f"model-{kind}", path) for kind in kinds for path in paths}
    (_, first), *others = found.items()
    for (kind, path), other in others:
        if first is None or other is None:
            problems.append(f"formats: the model of {kind} refuses {path}")
        else:
            problems += differ(first, other, f"formats: {kinds[0]}, model of {kind} and {path}")
    return problems


def permuted(run: Commands, rng: Random) -> list[str]:
    """The order of rows and columns changes neither what is recognized nor the prediction of a row."""
    table = portable_table(rng)
    order = rng.sample(range(length(table)), length(table))
    kind = rng.choice(FORMATS)
    plain = write(f"table.{kind}", table, rng)
    rows = write(f"rows.{kind}", take(table, order), rng)
    columns = write(f"columns.{kind}", rng.sample(table, len(table)), rng)
    trained = {path: train(run, path, f"model-{path}") for path in (plain, rows, columns)}
    if not all(trained.values()):
        return [f"permuted: refused, {trained}"]
    problems = []
    expected = predict(run, f"model-{plain}", plain)
    for path in (rows, columns):
        if describe(f"model-{path}") != describe(f"model-{plain}"):
            problems.append(f"permuted: {path} is recognized as other columns")
        found = predict(run, f"model-{plain}", path)
        if expected is None or found is None:
            problems.append(f"permuted: refused {path}")
        else:
            problems += differ(expected, found, f"permuted {path}")
    return problems


def renamed(run: Commands, rng: Random) -> list[str]:
    """Other names of annotators and classes, in the same order, give the same model."""
    table = portable_table(rng)
    prefix = rng.choice(["z ", "é", "=", '"', "NA", "日", "a,b", "x" * 200, "-"])
    names: dict[str, Callable[[str], Any]] = {"worker": lambda name: prefix + name, "label": lambda name: prefix + name}
    if rng.random() < 0.3:
        names["label"] = {"no": 0, "yes": 1}.__getitem__
    other = [(one, [names[one](value) for value in values] if one in names else values) for one, values in table]
    kind, method = rng.choice(FORMATS), pick_method(rng)
    found = []
    for name, one in (("plain", table), ("renamed", other)):
        path = write(f"{name}.{kind}", one, rng)
        found.append(predict(run, name, path) if train(run, path, name, method=method) else None)
    if found[0] is None or found[1] is None:
        return [f"renamed: refused with prefix {prefix[:10]!r} or without"]
    return differ(found[0], found[1], f"renamed by {prefix[:10]!r}", 1e-4)


def repeated(run: Commands, rng: Random) -> list[str]:
    """A row that occurs twice counts as much as one of weight 2."""
    table = small_table(rng, 48)
    twice = sorted(rng.sample(range(48), 12))
    weights = [2 if row in twice else 1 for row in range(48)]
    weighted = write("weighted.csv", [*table, ("weight", weights), ("key", list(range(48)))], rng)
    copied = take([*table, ("weight", [1] * 48), ("key", list(range(48)))], sorted([*range(48), *twice]))
    copies = write("copies.csv", copied, rng)
    roles = ["--target", "label", "--privileged", "worker", "--example", "id", "--weight", "weight"]
    roles += ["--ignore", "grade,flag,mark,gold,seconds,key"]
    method = rng.choice(["no-pi", "tram", "zero-imputation", "mean-imputation"])
    found = []
    for path, model in ((weighted, "weighted"), (copies, "copies")):
        if not train(run, path, model, roles=roles, method=method):
            return [f"repeated: refused {path}"]
        found.append(predict(run, model, weighted))
    if found[0] is None or found[1] is None:
        return ["repeated: refused"]
    return differ(found[0], found[1], f"repeated rows and weights of {method}", 1e-4)


def constant(run: Commands, rng: Random) -> list[str]:
    """A number that was the same in all training rows has no effect, whatever it is later."""
    table, kind = portable_table(rng), rng.choice(FORMATS)
    values = rng.sample([0, 1, -7, 0.25, 1e6, -1e-6, 2**40], 2)
    paths = [
        write(f"{name}.{kind}", [*table, ("same", [value] * length(table))], rng)
        for name, value in zip("ab", values, strict=True)
    ]
    if not train(run, paths[0], "model"):
        return ["constant: refused"]
    one, other = (predict(run, "model", path) for path in paths)
    return ["constant: refused"] if one is None or other is None else differ(one, other, "constant")


def libraries(run: Commands, rng: Random) -> list[str]:
    """Estimators learn the same from tables of any library; `lupi predict` takes what they save."""
    import warnings

    import lupi

    table = to_arrow(portable_table(rng))
    inputs = [
        name
        for name in table.column_names
        if name not in ("id", "key", "label", "grade", "flag", "mark", "gold", "worker", "seconds")
    ]
    frame = table.to_pandas()
    forms: dict[str, Callable[[list[str]], Any]] = {
        "pandas": lambda names: frame[names],
        "polars": lambda names: pl.DataFrame(table.select(names).to_pydict()),
        "Arrow": lambda names: table.select(names),
        "records": lambda names: table.select(names).to_pylist(),
    }
    found, method = {}, pick_method(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, form in forms.items():
            model = lupi.PrivilegedClassifier(method, epochs=1, random_state=0)
            model.fit(form(inputs), frame["label"], privileged=form(["worker", "seconds"]), example=frame["id"])
            found[name] = pd.DataFrame(model.predict_proba(form(inputs))).add_prefix("probability_")
    problems = [one for name, other in found.items() for one in differ(found["pandas"], other, f"libraries: {name}")]
    model.save("saved")
    path = write(f"table.{rng.choice(FORMATS)}", portable_of(table), rng)
    predicted = predict(run, "saved", path)
    if predicted is None:
        return [*problems, f"libraries: lupi predict refuses {path} for a model saved in Python"]
    return [*problems, *differ(found["records"], predicted, f"libraries: lupi predict of {path}")]


def portable_of(table: pa.Table) -> Columns:
    """Return an Arrow table as columns."""
    return [(name, column.to_pylist()) for name, column in zip(table.column_names, table.columns, strict=True)]


def changed(run: Commands, rng: Random) -> list[str]:
    """A comparison of changed tables is a new one: it mixes no runs of the old tables into its results."""
    table, gold, kind = small_table(rng, 24), small_table(rng, 24), rng.choice(["csv", "parquet"])
    test = rng.random() < 0.5
    row, name = 2 * rng.randrange(12), rng.choice(["size", "colour", "label", "note"])
    new: Columns = []
    for one, values in gold if test else table:
        values = list(values)
        if one == name:  # both labels of an example
            values[row : row + 2] = [values[row] + 1 if name == "size" else "no" if name == "label" else "red"] * 2
        new.append((one, values))
    write(f"table.{kind}", table, rng)
    write(f"gold.{kind}", gold, rng)
    words = [
        "compare",
        f"table.{kind}",
        *ROLES[:-2],
        "--ignore",
        "grade,flag,mark,gold",
        "--epochs",
        "1",
        "--jobs",
        "1",
        "--seeds",
        "2",
    ]
    words += ["--test", f"gold.{kind}"] if test else []
    if not run(*words, "--methods", "no-pi", "-o", "run"):
        return ["changed: refused"]
    os.replace(write(f"new.{kind}", new, rng), f"{'gold' if test else 'table'}.{kind}")
    again = run(*words, "--methods", "no-pi,tram", "-o", "run")
    if not again:
        return []
    if not run(*words, "--methods", "no-pi,tram", "-o", "fresh"):
        return ["changed: refused in a new folder"]
    one, other = (json.loads(Path(name, "results.json").read_bytes()) for name in ("run", "fresh"))
    for training in (*one["runs"], *other["runs"]):
        training.pop("seconds")
    keys = ("about", "runs", "verdict")
    return [f"changed {name}: {key} differs from a new comparison" for key in keys if one[key] != other[key]]


RELATIONS: dict[str, Callable[[Commands, Random], list[str]]] = {
    "same-file": same_file,
    "formats": formats,
    "permuted": permuted,
    "renamed": renamed,
    "repeated": repeated,
    "constant": constant,
    "libraries": libraries,
    "changed": changed,
}


def make_relation(name: str) -> Case:
    """Return the case that checks a relation."""
    return Case(name.partition(":")[0], [], "", relate=relate)


def relate(name: str) -> tuple[list[str], list[int]]:
    """Check a relation in the current folder, and return what is wrong and the exit codes of commands."""
    relation, _, number = name.partition(":")
    run = Commands()
    problems = RELATIONS[relation](run, Random(f"{relation} {number}"))
    return [*problems, *run.problems], run.codes
