"""Run all checks, and show and write what they find."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lupi._internal.files import claim_output
from lupi._internal.progress import show_trainings
from lupi.diagnose.base import Finding
from lupi.diagnose.checks import CHECKS
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table
from lupi.report.page import Page, format_fragment, write_results


def diagnose(problem: Problem) -> Diagnosis:
    """Diagnose privileged information, annotators and labels, without true labels.

    Parameters
    ----------
    problem : Problem
        The annotations.

    Returns
    -------
    Diagnosis
        The findings and the verdict.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, who = rng.integers(2, size=300), rng.choice(["ann", "bob"], size=300)
    >>> label = np.where(who == "bob", rng.integers(2, size=300), truth)  # Bob tosses coins
    >>> A = pd.DataFrame({"who": who, "note": np.where(label, "Y", "N")})
    >>> found = diagnose(Problem(truth[:, None], label, A, annotator=who, folds=2, parameters={"epochs": 10}))
    >>> found["information"].table[["column", "leak"]].head(2)
      column   leak
    0    who  False
    1   note   True
    >>> found["annotators"].table[["annotator", "flagged"]]
      annotator  flagged
    0       bob     True
    1       ann    False
    """
    if problem.progress:
        show_trainings(problem.trainings, len(problem.y))
    results = {check.name: check.run(problem) for check in CHECKS}
    findings = {name: finding for name, finding in results.items() if finding is not None}
    notes = [] if problem.source is None else list(problem.source.notes)
    notes += [note for finding in findings.values() for note in finding.notes]
    return Diagnosis(findings=findings, notes=notes, facts=problem.facts)


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis:
    """The results of a diagnosis. `str` formats them for a terminal.

    Parameters
    ----------
    findings : mapping of str to Finding
        What each check found, by the name of the check; `diagnosis["labels"]` is the finding of that name.
    notes : sequence of str
        Caveats and advice.
    facts : mapping
        Facts to record with the results.
    """

    findings: Mapping[str, Finding]
    notes: list[str] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Finding:
        """Return the finding of a check."""
        return self.findings[name]

    @property
    def verdict(self) -> str:
        """The sentences of all findings."""
        return "\n\n".join(finding.sentence for finding in self.findings.values() if finding.sentence)

    def __str__(self) -> str:
        """Return the verdict, short tables and the notes, for terminals."""
        briefs = [str(finding.brief) for finding in self.findings.values() if finding.brief is not None]
        return "\n\n".join([self.verdict, *briefs, "\n".join(f"Note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """Return the verdict, short tables and the notes, for notebooks."""
        briefs = [finding.brief for finding in self.findings.values() if finding.brief is not None]
        return format_fragment(self.verdict, {brief.title: brief.frame for brief in briefs}, self.notes)

    @property
    def page(self) -> Page:
        """The report. Its tables show at most 5,000 rows."""
        sections = []
        for finding in self.findings.values():
            if (section := finding.section) is not None:
                if not section.tables and finding.table is not None:
                    table = Table(caption=f"{section.heading}.", frame=finding.table)
                    section = replace(section, tables=[table])
                sections.append(section)
        if self.notes:
            sections.append(Section(heading="Notes", notes=self.notes))
        return Page(title="What do we know about these labels?", verdict=self.verdict, sections=sections)

    def numbers(self) -> pd.DataFrame:
        """Return the numbers of all findings, with columns part, name, quantity and value."""
        rows = []
        for part, finding in self.findings.items():
            for name, value in finding.numbers.items():
                if isinstance(value, Mapping):
                    rows += [(part, name, quantity, number) for quantity, number in value.items()]
                else:
                    rows.append((part, "", name, value))
        return pd.DataFrame(rows, columns=["part", "name", "quantity", "value"])

    def write(self, folder: Path, *, overwrite: bool = False, **facts: Any) -> list[Path]:
        """Write tables, results and a report to a folder.

        Parameters
        ----------
        folder : Path
            The folder.
        overwrite : bool
            Whether to replace an existing diagnosis.
        **facts
            More facts for results.json; the report shows `command` and `versions`.

        Returns
        -------
        list of Path
            The files.

        Examples
        --------
        >>> import tempfile
        >>> found = Diagnosis(findings={"labels": Finding(sentence="5 labels are probably wrong.")})
        >>> with tempfile.TemporaryDirectory() as name:
        ...     [path.name for path in found.write(Path(name, "run"))]
        ['results.json', 'results.csv', 'report.html']
        """
        numbers = {name: to_plain(found.numbers) for name, found in self.findings.items() if found.numbers}
        results = {"verdict": self.verdict.split("\n\n"), "notes": self.notes, "findings": numbers}
        tables = {f"{name}.csv": found.table for name, found in self.findings.items() if found.table is not None}
        tables = {"results.csv": self.numbers(), **tables}
        older = [f"{check.name}.csv" for check in CHECKS]
        with claim_folder(folder, overwrite=overwrite):
            return write_results(folder, self.page, tables, results, {**self.facts, **facts}, older)


def claim_folder(folder: Path, *, overwrite: bool) -> AbstractContextManager[None]:
    """Check that a folder is new or that it is a diagnosis that may be replaced, and lock it."""
    return claim_output(
        folder, overwrite=overwrite, folder=True, ours=lambda run: (run / "information.csv").exists(), kind="diagnosis"
    )


def to_plain(value: Any) -> Any:
    """Convert numbers to JSON types; missing numbers become null."""
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and np.isnan(plain) else plain
