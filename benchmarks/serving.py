"""One row, a thousand and a million: a table model and an estimator against scikit-learn's MLP on the same inputs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import lupi
from benchmarks.measure import Ratio, Result, at_most, ratio
from lupi.serving import train
from lupi.tabular import TableSpec

TRAINED, MANY = 3_000, 1_000_000
HIDDEN = (64, 64)


def results() -> Iterator[Result]:
    table, y = make_table(TRAINED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        table.assign(y=y).to_parquet(path)
        model = train(
            TableSpec(table=path, target=["y"]),
            method="no-pi",
            settings={"epochs": 2, "hidden": HIDDEN},
            output=Path(folder, "model"),
        )
        pipeline = make_scikit_learn().fit(table, y)
        row, many = table[1:2].reset_index(drop=True), make_table(MANY)[0]
        one = side_by_side(model.predict_proba, pipeline.predict_proba, row, calls=20, rounds=60)
        yield at_most("one row, TableModel / ColumnTransformer + MLPClassifier", one, 1.2)
        million = side_by_side(model.predict_proba, pipeline.predict_proba, many, calls=1, rounds=4)
        yield at_most("1,000,000 rows, TableModel / ColumnTransformer + MLPClassifier", million, None)
        yield from of_arrays()
        make_table(1_000)[0].to_csv(Path(folder, "new.csv"), index=False)
        yield of_command(folder)


def make_table(rows: int) -> tuple[pd.DataFrame, list[str]]:
    """Draw numbers, some of them missing, categories and a boolean."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, rows),
            "size": rng.normal(size=rows),
            "city": rng.choice(["Bern", "Oslo", "Paris", "Rome"], rows),
            "shape": rng.choice(["round", "square"], rows),
            "open": rng.random(rows) > 0.5,
        }
    )
    table.loc[::7, "age"] = np.nan
    return table, np.where(table["size"] + (table["city"] == "Rome") + rng.normal(size=rows) > 0, "yes", "no").tolist()


def make_scikit_learn() -> Any:
    """Return the pipeline that does what the model does: impute, mark, scale, one-hot encode and predict."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, ["age", "size"]),
        (OneHotEncoder(handle_unknown="ignore"), ["city", "shape"]),
        ("passthrough", ["open"]),
    )
    return make_pipeline(columns, MLPClassifier(HIDDEN, max_iter=2, random_state=0))


def of_arrays() -> Iterator[Result]:
    """Compare the estimators on arrays of numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(TRAINED, 20))
    y = np.where(x[:, 0] > 0, "yes", "no")
    model = lupi.PrivilegedClassifier("no-pi", epochs=2, hidden=HIDDEN).fit(x, y)
    mlp = MLPClassifier(HIDDEN, max_iter=2, random_state=0).fit(x, y)
    one = side_by_side(model.predict_proba, mlp.predict_proba, x[:1], calls=50, rounds=60)
    yield at_most("one row, PrivilegedClassifier / MLPClassifier", one, 2.0)
    many = side_by_side(model.predict_proba, mlp.predict_proba, rng.normal(size=(MANY, 20)), calls=1, rounds=4)
    yield at_most("1,000,000 rows, PrivilegedClassifier / MLPClassifier", many, None)


def side_by_side(ours: Callable[[Any], Any], theirs: Callable[[Any], Any], x: Any, calls: int, rounds: int) -> Ratio:
    """Return the ratio of two predictions."""
    return ratio(lambda: [ours(x) for _ in range(calls)], lambda: [theirs(x) for _ in range(calls)], rounds)


def of_command(folder: str) -> Result:
    """Measure the processor time of `lupi predict` on a thousand rows, the least of three runs."""
    command = [str(Path(sys.executable).with_name("lupi")), "predict", "model", "new.csv", "-o", "p.csv", "--overwrite"]
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    best = min(seconds)
    return Result("lupi predict, 1,000 rows, processor seconds", f"{best:.2f}", "≤ 3", best <= 3)
