"""Whether labels depend on the position or the length of what is judged, beyond the truth."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from lupi._internal.arrays import Floats
from lupi.diagnose.base import Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table

COLUMNS = ("position", "length", "tokens", "words")
"""Columns that are checked, among the inputs and the privileged columns."""
FEWEST = 50
"""Minimum number of labels with a known truth."""


class Bias(Check):
    """Whether labels of the same truth depend on columns named position, length, tokens or words.

    Its table has one row per column and class: column; change: from which to which value, two values or one standard
    deviation more; class; effect: by how much more often annotators give the class, with its 95 % interval from low to
    high, given the annotator and the true label. Without true labels, a bias cannot be told from the truth.
    """

    name = "bias"

    def run(self, problem: Problem) -> Finding | None:
        """Compare labels with a known truth."""
        gold = problem.gold_codes
        if gold is None or not problem.has_classes:
            return None
        known = ~np.isnan(gold)
        who = np.zeros(len(gold), int) if problem.annotator is None else pd.factorize(np.asarray(problem.annotator))[0]
        cell = np.unique(np.stack([who, np.nan_to_num(gold, nan=-1)]), axis=1, return_inverse=True)[1].ravel()
        rows = []
        for name, column in find_columns(problem).items():
            value, change = code_column(column)
            use = known & ~np.isnan(value)
            if use.sum() < FEWEST:
                continue
            for code, label in enumerate(problem.classes[len(problem.classes) == 2 :], int(len(problem.classes) == 2)):
                given = (problem.codes[use] == code).astype(float)
                effect = measure_effect(given, value[use], cell[use], problem.group[use])
                rows.append((name, change, label, *effect))
        table = pd.DataFrame(rows, columns=["column", "change", "class", "effect", "low", "high"]).dropna()
        return describe_bias(table.reset_index(drop=True)) if len(table) else None


def find_columns(problem: Problem) -> "dict[str, pd.Series[Any]]":
    """Return the columns to check, by name."""
    tables = [problem.privileged, *([problem.X] if isinstance(problem.X, pd.DataFrame) else [])]
    return {str(name): table[name] for table in tables for name in table if str(name).lower() in COLUMNS}


def code_column(column: "pd.Series[Any]") -> tuple[Floats, str]:
    """Return two values as 0 and 1, or numbers in standard deviations, and in words what a step of 1 is; else NaN."""
    values = sorted(column.dropna().unique().tolist(), key=str)
    if len(values) == 2:
        number = np.where(column.isna(), np.nan, (column == values[1]).to_numpy(float))
        return number, f"from {values[0]} to {values[1]}"
    if not is_numeric_dtype(column) or len(values) < 2:
        return np.full(len(column), np.nan), ""
    number = column.to_numpy(np.float64)
    deviation = float(np.nanstd(number))
    return number / deviation, f"{deviation:.3g} more"


def measure_effect(
    given: Floats, value: Floats, cell: NDArray[Any], example: NDArray[Any]
) -> tuple[float, float, float]:
    """Return the effect of a step of a column on the frequency of a class within cells, with its 95 % interval.

    It is the slope of least squares, with errors that labels of an example may share; NaN if the column is constant.
    """
    value, given = (each - average(each, cell)[cell] for each in (value, given))
    square = float(value @ value)
    if square < 1e-9:
        return np.nan, np.nan, np.nan
    slope = float(value @ given) / square
    score = np.bincount(example, value * (given - slope * value))
    error = float(np.sqrt((score**2).sum())) / square
    return slope, slope - 1.96 * error, slope + 1.96 * error


def average(values: Floats, cell: NDArray[Any]) -> Floats:
    """Return the mean of each cell."""
    return np.asarray(np.bincount(cell, values) / np.maximum(np.bincount(cell), 1))


def describe_bias(table: pd.DataFrame) -> Finding:
    """Describe the table of effects."""
    notes, numbers = [], {}
    for column, change, name, *limits in table.to_numpy(dtype=object).tolist():
        effect, low, high = map(float, limits)
        numbers[f"{column}, {name}"] = {"effect": effect, "low": low, "high": high}
        if low > 0 or high < 0:
            notes.append(
                f"Labels depend on `{column}` beyond the truth: {str(name)!r} is {abs(effect):.1%} "
                f"{'more' if effect > 0 else 'less'} frequent [{low:.1%}, {high:.1%}] ({change})."
            )
    text = (
        "By how much more often annotators give a class if the column changes and the true label does not, with its "
        "95% interval. A longer answer or the first one of two should not be preferred for that."
    )
    shown = Table(
        caption="Bias by position and length.",
        frame=table,
        intervals={"effect": "+.1%"},
        minor=["change"],
    )
    return Finding(
        table=table,
        section=Section(heading="Position and length", text=text, tables=[shown]),
        numbers=numbers,
        notes=notes,
    )
