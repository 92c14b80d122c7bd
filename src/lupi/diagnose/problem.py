"""The annotations to diagnose, and the held-out losses of networks trained on them."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lupi import methods
from lupi._internal.arrays import Floats
from lupi._internal.devices import one_thread
from lupi.crowd.trusted import read_trust
from lupi.diagnose.information import STEPS, Information, cross_entropy_gap, held_out_losses
from lupi.diagnose.leaks import code_values
from lupi.tabular.columns import privileged_encoding
from lupi.tabular.folds import grouped_folds, number_examples

FEWEST_EXAMPLES = 20
WIDTH = (64, 64)
"""Default widths of trunk and tower."""
TRAINING: Mapping[str, Any] = {"epochs": 100, "patience": 5, "validation_fraction": 0.2, "learning_rate": 1e-3}
"""Default parameters of the estimators. Training stops when the loss on held-out noisy labels no longer decreases,
since the gap between overfitted networks is meaningless."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Annotations to diagnose, with the options of the diagnosis.

    Parameters
    ----------
    X : DataFrame or array
        Inputs, one row per label.
    y : array
        Labels; two-dimensional of 0 and 1 for several targets.
    privileged : DataFrame
        Privileged columns.
    kinds : mapping
        Kinds of privileged columns, "number" or "category"; by default numeric columns are numbers.
    example : array, optional
        Ids of examples; by default each row is an example.
    annotator : array, optional
        Ids of the annotators who gave the labels.
    gold : array, optional
        True labels, some of which may be missing. They anchor the model of the annotators, and are used to score the
        rankings of a model without them.
    trust : mapping, optional
        As for `lupi.crowd.infer`.
    probabilities : array, [labels, classes], optional
        Predictions for the sorted classes to use instead of those of `method`, from a model that was not trained on
        the example of the label.
    weight : array, optional
        Weight of each label in training.
    real : bool
        Whether y is real-valued rather than classes.
    method : str
        Method whose out-of-fold predictions are used to rank annotators and labels.
    folds : int
        Number of folds.
    seed : int
        Seed for folds, initial weights and batches.
    parameters : mapping
        Parameters of the estimators.
    """

    X: Any
    y: NDArray[Any]
    privileged: pd.DataFrame
    _: KW_ONLY
    kinds: Mapping[str, str] = field(default_factory=dict)
    example: Any = None
    annotator: Any = None
    gold: Any = None
    trust: Mapping[Any, float] | None = None
    probabilities: Any = None
    weight: NDArray[np.float64] | None = None
    real: bool = False
    method: str = "pi-transition"
    folds: int = 5
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        methods.kind(self.method)
        if not len(self.privileged.columns):
            raise ValueError("Expected `privileged` to have columns, but got none.")
        if self.examples < FEWEST_EXAMPLES:
            raise ValueError(f"Expected at least {FEWEST_EXAMPLES} examples, but got {self.examples}.")
        if self.trust:
            if self.annotator is None:
                raise ValueError("Expected `annotator` to be ids of annotators for `trust`, but got None.")
            read_trust(self.trust, pd.unique(np.asarray(self.annotator)))  # before any training
        if not 2 <= self.folds <= self.examples // 2:
            raise ValueError(f"Expected `folds` to be from 2 to {self.examples // 2}, but got {self.folds}.")

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """The number of the example of each row."""
        return number_examples(self.example, len(self.y))

    @property
    def examples(self) -> int:
        """Number of examples."""
        return int(self.group.max()) + 1

    @cached_property
    def fold(self) -> NDArray[np.int64]:
        """The number of the fold that holds out each row."""
        numbers = np.empty(len(self.y), dtype=np.int64)
        for number, (_, test) in enumerate(grouped_folds(self.group, self.folds, self.seed)):
            numbers[test] = number
        return numbers

    @property
    def batch_size(self) -> int:
        """The batch size. Small data sets need small batches, or training ends before the networks have learned."""
        return max(8, len(self.y) * (self.folds - 1) // self.folds // STEPS)

    def judging_parameters(self) -> dict[str, Any]:
        """Return the parameters of the networks that judge labels.

        They stop on the labels. Stopping on the consensus takes twice as many networks for equally good rankings.
        """
        given = {**TRAINING, "batch_size": min(32, self.batch_size), **self.parameters}
        return {**given, "training": {"stop_on": "labels", **(given.get("training") or {})}}

    @property
    def target_codes(self) -> NDArray[np.int64]:
        """Labels as integers; real labels as ten bins of equal size."""
        if self.real:
            return code_values(pd.Series(self.y), "number", 10)
        if self.y.ndim > 1:
            return self.y.astype(np.int64)
        return np.unique(self.y, return_inverse=True)[1].astype(np.int64)

    def kind(self, column: str) -> str:
        """Return the kind of a privileged column."""
        dtype = self.privileged[column].dtype
        number = is_numeric_dtype(dtype) and not is_bool_dtype(dtype)
        return self.kinds.get(column, "number" if number else "category")

    def encoding(self, columns: Sequence[str]) -> dict[str, str]:
        """Return the encodings of privileged columns."""
        return privileged_encoding({name: self.kind(name) for name in columns})

    def losses(self, columns: list[str], *, width: int = 1, shuffled: bool = False) -> Floats:
        """Compute held-out losses given the inputs and some privileged columns.

        Parameters
        ----------
        columns : list of str
            Privileged columns.
        width : int
            Factor by which to widen the network.
        shuffled : bool
            Whether to shuffle the rows of the privileged columns.
        """
        A = self.privileged[columns]
        if shuffled:
            order = np.random.default_rng(self.seed).permutation(len(A))
            A = A.iloc[order].set_axis(A.index)
        given = {**TRAINING, "batch_size": self.batch_size, "training": {}, **self.parameters}
        wide = {name: tuple(width * n for n in given.get(name, WIDTH)) for name in ("hidden", "tower")}
        encoding = {"numbers": self.encoding(columns)} if columns else {}
        with one_thread():
            return held_out_losses(
                self.X,
                self.y,
                A if columns else None,
                example=self.group,
                weight=self.weight,
                folds=self.folds,
                parameters={**given, **wide, **encoding},
                seed=self.seed,
                real=self.real,
            )

    def gain(self, one: Floats, other: Floats) -> Information:
        """Estimate by how much the other held-out losses are lower, with the wider of two intervals.

        One interval treats examples as independent. The other treats folds as independent; since their networks are
        trained separately, it includes the variation between training runs.
        """
        by_example, by_fold = (cross_entropy_gap(one, other, example=ids) for ids in (self.group, self.fold))
        return max(by_example, by_fold, key=lambda found: found.high)
