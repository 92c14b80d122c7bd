"""What a check is, and what it finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from lupi.diagnose.problem import Problem
from lupi.report import Section

MOST_ROWS = 8
"""Number of annotators and labels to show in terminals and notebooks."""


class Check(ABC):
    """A check of annotations.

    Subclasses are listed in `lupi.diagnose.checks.CHECKS`. They have a `name`, which is also the name of the file of
    their table, and a method `run`.

    Examples
    --------
    >>> class Ties(Check):
    ...     name = "ties"
    ...
    ...     def run(self, problem):
    ...         ties = problem.inference.truth.max(1) <= 0.5
    ...         return Finding(sentence=f"{ties.sum()} examples have no likely label.", numbers={"count": ties.sum()})
    """

    name: ClassVar[str]

    @abstractmethod
    def run(self, problem: Problem) -> Finding | None:
        """Check the annotations; return None if the check does not apply to them.

        Parameters
        ----------
        problem : Problem
            The annotations. Its properties `usable`, `inference` and others train networks when they are first used.
        """


class Brief(NamedTuple):
    """A short table for terminals and notebooks, with the number of decimals of columns that have not three."""

    title: str
    frame: pd.DataFrame
    decimals: Mapping[str, int] = {}

    def __str__(self) -> str:
        shown = self.frame.copy()
        for name in shown.select_dtypes("float"):
            decimals = self.decimals.get(str(name), 3)
            shown[name] = ["–" if np.isnan(value) else f"{value:.{decimals}f}" for value in shown[name]]
        text = shown.to_string(index=False, na_rep="–")
        return "\n".join([f"{self.title}:", *(f"  {line}".rstrip() for line in text.splitlines())])


@dataclass(frozen=True, eq=False, kw_only=True)
class Finding:
    """What a check found. The report, the files and the summary of a diagnosis are made from its findings.

    Parameters
    ----------
    sentence : str
        A paragraph of the verdict.
    table : DataFrame, optional
        The table, written to a CSV file with the name of the check.
    section : Section, optional
        A section of the report. If it has no tables, it shows `table`.
    brief : Brief, optional
        A short table for terminals and notebooks.
    numbers : mapping
        Numbers for results.json and results.csv, by name, or by the name of a group and then by name.
    notes : sequence of str
        Caveats and advice.

    Examples
    --------
    >>> from lupi.report import Section
    >>> table = pd.DataFrame({"class": ["no", "yes"], "labels": [3, 5]})
    >>> finding = Finding(table=table, section=Section(heading="Classes", text="How often each was given."))
    """

    sentence: str = ""
    table: pd.DataFrame | None = None
    section: Section | None = None
    brief: Brief | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
