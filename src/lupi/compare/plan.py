"""The plan of a comparison on a table, and the splits of its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from lupi import methods as known
from lupi._internal.checks import check_integer
from lupi._internal.devices import pick_device
from lupi.metrics import Posterior
from lupi.tabular import TableSpec
from lupi.tabular.grouping import Rows, grouped_folds
from lupi.tabular.table_data import TableData

HELD_OUT = 0.2
"""Share of the examples to hold out for scoring if there is no test table."""
SEEDS_AT_ONCE = 5
"""Number of seeds that train together."""
FEWEST_EXAMPLES = 10
ALL = "all"
"""Name that stands for all methods that support the target."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A comparison of methods on a table.

    Parameters
    ----------
    spec : TableSpec
        The table and the roles of its columns.
    test : Path, optional
        A table with true labels to score on. By default some examples are held out, and methods are scored on their
        labels, through a model of the annotators (`lupi.compare.held_out`).
    methods : sequence of str
        Names of methods, or "all"; by default a recommended selection. Baselines without privileged information are
        always included: No PI, No PI with early stopping and, if examples have several labels, No PI on aggregated
        labels.
    seeds : int
        Number of seeds for training and, without a test table, for the split.
    folds : int, optional
        Number of folds for cross-validation, instead of seeds.
    controls : bool
        Whether to also train every method with zeros, shuffled values and random values instead of its privileged
        information.
    sample : int, optional
        Maximum number of annotations. If there are more, whole examples are sampled at random.
    device : str
        Device for training, such as "cpu" or "cuda"; by default a GPU if there is one.
    settings : mapping
        Other parameters of the estimators, such as `epochs`.

    Examples
    --------
    >>> spec = TableSpec(table=Path("labels.csv"), target=["label"], privileged=["annotator"])
    >>> Plan(spec=spec, seeds=1)
    Traceback (most recent call last):
    ...
    ValueError: Expected `seeds` to be an integer of at least 2, but got 1.
    """

    spec: TableSpec
    test: Path | None = None
    methods: Sequence[str] = ()
    seeds: int = 10
    folds: int | None = None
    controls: bool = False
    sample: int | None = None
    device: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.methods:
            if name != ALL:
                known.kind(name)
        object.__setattr__(self, "device", str(pick_device(self.device)))  # the results depend on it
        check_integer("seeds", self.seeds, 2)
        if not any(name.strip() for name in (*self.spec.privileged, self.spec.annotator or "")):
            raise ValueError("Expected `privileged` to name columns, but got none.")
        if self.sample is not None:
            check_integer("sample", self.sample, 1)
        if self.folds is not None:
            check_integer("folds", self.folds, 2)
            if self.test is not None:
                raise ValueError("Expected `folds` or `test`, but got both.")

    @property
    def of_labels(self) -> bool:
        """Whether methods are to predict how people would answer, rather than the true label."""
        return self.settings.get("predicts") == "labels"

    @property
    def runs(self) -> int:
        """Number of runs of each method."""
        return self.folds or self.seeds


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup:
    """A plan with its tables: what every run needs."""

    plan: Plan
    data: TableData
    test: TableData | None = None
    splits: Sequence[tuple[Rows, Rows]]
    """The rows to train on and to score on, for every run."""
    truth: Mapping[int, Posterior] | None = None
    """What the labels of held-out examples say about their true labels, by run."""

    @property
    def has_annotator_model(self) -> bool:
        """Whether methods are scored through a model of the annotators; labels as such are scored as they are."""
        schema, of_labels = self.data.schema, self.plan.of_labels
        return self.test is None and not of_labels and schema.task == "classification" and not schema.several


def make_splits(plan: Plan, data: TableData, test: TableData | None) -> list[tuple[Rows, Rows]]:
    """Return the rows to train on and to score on for every run. No example is in both.

    Held-out labels of a class that the training rows lack are not scored.
    """
    rows = np.arange(len(data))
    if test is not None:
        if test.examples < 2:
            raise ValueError("Expected `test` to be a table of at least two examples, but got 1.")
        return [(rows, np.arange(len(test)))] * plan.seeds
    fewest = max(FEWEST_EXAMPLES, plan.folds or 0)
    if data.examples < fewest:
        raise ValueError(f"Expected at least {fewest} examples to hold some out, but got {data.examples}.")
    if plan.folds is not None:
        found = grouped_folds(data.group, plan.folds)
    else:
        found = [
            next(GroupShuffleSplit(1, test_size=HELD_OUT, random_state=seed).split(rows, groups=data.group))
            for seed in range(plan.seeds)
        ]
    if data.schema.task == "classification" and not data.schema.several:
        y = data.y
        found = [(train, test[np.isin(y[test], y[train])]) for train, test in found]
        if any(len(np.unique(y[train])) < 2 or len(test) == 0 for train, test in found):
            raise ValueError("Expected enough examples of two classes to hold some out, but got too few.")
    return found
