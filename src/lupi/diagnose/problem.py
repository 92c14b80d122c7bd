"""The annotations to diagnose, and the evidence about them that checks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lupi import methods
from lupi._internal.arrays import Floats
from lupi._internal.checks import check_jobs
from lupi._internal.devices import one_thread
from lupi._internal.parallel import run_parallel
from lupi._internal.progress import Steps
from lupi.crowd import Inference, infer
from lupi.crowd.grades import GradeInference, infer_grades
from lupi.crowd.trusted import read_trust
from lupi.diagnose.information import STEPS, Gain, cross_entropy_gap, held_out_losses
from lupi.diagnose.leaks import Alone, classify_leak, code_values, predict_alone
from lupi.diagnose.out_of_fold import predict_out_of_fold
from lupi.diagnose.source import Source, read_annotations
from lupi.metrics import find_medians
from lupi.tabular import TableSpec
from lupi.tabular.grouping import Rows, grouped_folds, number_examples
from lupi.tabular.targets import code_gold

FEWEST_EXAMPLES = 20
SAMPLES, FEWEST_FOR_CURVE = (1 / 8, 1 / 4, 1 / 2), 200
"""Shares of the examples to train on for the learning curve, and the minimum number of examples of one."""
TRAINING: Mapping[str, Any] = {"epochs": 100, "patience": 5, "learning_rate": 1e-3}
"""Default parameters of the estimators. Training stops when the loss on held-out noisy labels no longer decreases,
since the gap between overfitted networks is meaningless."""
VALIDATION_FRACTION = 0.2
"""Fraction of the examples to hold out for early stopping."""


class Column(NamedTuple):
    """How a privileged column relates to the label: by itself, beyond the inputs, and whether it leaks the label."""

    alone: Alone
    gain: Gain
    how: str


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
        Kinds of columns, as for the estimators; by default numeric privileged columns are numbers, others categories.
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
    grades : sequence, optional
        The grades of a rating scale in order, if the classes are those of one.
    method : str
        Method whose out-of-fold predictions are used to rank annotators and labels.
    folds : int
        Number of folds.
    seed : int
        Seed for folds, initial weights and batches.
    parameters : mapping
        Parameters of the estimators.
    jobs : int
        Number of networks to train in parallel, with joblib. The results do not depend on it.
    progress : bool
        Whether to show progress.
    source : Source, optional
        The table that the annotations come from; see `from_table`.
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
    grades: Sequence[Any] | None = None
    method: str = "pi-transition"
    folds: int = 5
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1
    progress: bool = False
    source: Source | None = None

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

    @classmethod
    def from_table(
        cls,
        spec: TableSpec,
        *,
        probabilities: Path | None = None,
        sample: int | None = None,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
        jobs: int = 1,
        notify: Callable[[str], None] | None = None,
        **options: Any,
    ) -> Problem:
        """Read a table of annotations.

        Parameters
        ----------
        spec : TableSpec
            The table and the roles of its columns.
        probabilities : Path, optional
            A ``.npy`` file of `probabilities`: one row per row of the table, and one column per class.
        sample : int, optional
            Maximum number of annotations. If there are more, whole examples are sampled at random.
        device : str
            Device for training; by default a GPU if there is one.
        settings : mapping, optional
            More parameters of the estimators, such as `epochs`; None stands for the default.
        notify : callable, optional
            Called with a line for each choice that was made for the table and for each note about it.
        seed, jobs, **options
            As for `Problem`.
        """
        check_jobs(jobs)
        chosen = {name: value for name, value in (settings or {}).items() if value is not None}
        fields, lines = read_annotations(spec, probabilities, sample, seed, device)
        problem = cls(**fields, seed=seed, parameters={"device": device, **chosen}, jobs=jobs, **options)
        if notify is not None:
            for line in lines:
                notify(line)
        return problem

    # ---------------------------------------------------------------------------- annotations

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """The number of the example of each row."""
        return number_examples(self.example, len(self.y))

    @property
    def examples(self) -> int:
        """Number of examples."""
        return int(self.group.max()) + 1

    @cached_property
    def first_rows(self) -> Rows:
        """The first row of each example."""
        return np.unique(self.group, return_index=True)[1]

    @cached_property
    def fold(self) -> NDArray[np.int64]:
        """The number of the fold that holds out each row."""
        numbers = np.empty(len(self.y), dtype=np.int64)
        for number, (_, test) in enumerate(self.split(self.seed)):
            numbers[test] = number
        return numbers

    def split(self, seed: int) -> list[tuple[Rows, Rows]]:
        """Return the training rows and the held-out rows of each fold."""
        return grouped_folds(self.group, self.folds, seed)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The number of each row in the table that it comes from, which may also have rows without a label."""
        return np.arange(len(self.y)) if self.source is None else self.source.rows

    @property
    def ids(self) -> NDArray[Any] | None:
        """The id of each row's example, if examples have ids."""
        known = self.example is not None and (self.source is None or self.source.has_ids)
        return np.asarray(self.example) if known else None

    @property
    def facts(self) -> dict[str, Any]:
        """Facts to record with the results."""
        known = {"examples": self.examples, "method": self.method, "folds": self.folds, "seed": self.seed}
        if self.source is None:
            return known
        settings = {name: value for name, value in self.parameters.items() if name != "device"}
        return {**self.source.facts, "settings": settings, **known}

    @property
    def has_classes(self) -> bool:
        """Whether there is a single target of classes, so that labels can be right or wrong."""
        return not self.real and self.y.ndim == 1

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The sorted classes."""
        return np.unique(self.y)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Labels as integers; real labels as ten bins of equal size."""
        if self.real:
            return code_values(pd.Series(self.y), "number", 10)
        return (self.y if self.y.ndim > 1 else np.unique(self.y, return_inverse=True)[1]).astype(np.int64)

    @cached_property
    def rank(self) -> NDArray[np.int64] | None:
        """The place of each class among the grades of the scale, if the classes are grades."""
        return None if self.grades is None else pd.Index(self.grades).get_indexer(pd.Index(self.classes))

    @property
    def tolerance(self) -> int:
        """By how many grades a label that is not called wrong may miss the truth: a quarter of the scale."""
        return 0 if self.grades is None else (len(self.grades) - 1) // 4

    @property
    def gold_codes(self) -> Floats | None:
        """True labels as integers, NaN where they are unknown."""
        return None if self.gold is None else code_gold(self.gold, self.classes)

    def kind(self, column: str) -> str:
        """Return the kind of a privileged column."""
        dtype = self.privileged[column].dtype
        number = is_numeric_dtype(dtype) and not is_bool_dtype(dtype)
        return self.kinds.get(column, "number" if number else "category")

    # ---------------------------------------------------------------------------- information

    @property
    def batch_size(self) -> int:
        """The batch size. Small data sets need small batches, or training ends before the networks have learned."""
        return max(8, len(self.y) * (self.folds - 1) // self.folds // STEPS)

    @property
    def trainings(self) -> int:
        """How many networks are trained: given no, each, all and shuffled columns, and judges."""
        columns = len(self.privileged.columns)
        judges = self.has_classes * (self.probabilities is None) + self.has_curve * len(SAMPLES)
        return self.folds * (2 + columns + (columns > 1) + judges)

    @cached_property
    def losses(self) -> dict[str | None, Floats]:
        """Held-out losses given the inputs and one privileged column, by its name; None: given the inputs alone."""
        names = [None, *map(str, self.privileged)]
        networks = [([] if name is None else [name], False) for name in names]
        return dict(zip(names, self.train(networks), strict=True))

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What is known about each privileged column."""
        marginal, columns, split = self.losses[None], {}, self.split(0)
        for name, losses in self.losses.items():
            if name is not None:
                codes = code_values(self.privileged[name], self.kind(name))
                alone, gain = predict_alone(codes, self.codes, split), self.gain(marginal, losses)
                # the losses of bins and of densities of real numbers are not comparable
                beats_inputs = not self.real and self.gain(marginal, alone.losses).low > 0
                columns[name] = Column(alone, gain, classify_leak(alone.share, self.share(gain), beats_inputs))
        return columns

    @property
    def usable(self) -> list[str]:
        """The privileged columns that do not leak."""
        return [name for name, column in self.columns.items() if not column.how]

    @cached_property
    def together(self) -> tuple[Floats, Floats] | None:
        """Held-out losses given all usable columns, and given these with their rows shuffled; None without columns."""
        columns = self.usable
        if not columns:
            return None
        networks = [(columns, True), (columns, False)]  # a single column as it is has been trained before
        shuffled, *more = self.train(networks if len(columns) > 1 else networks[:1])
        return more[0] if more else self.losses[columns[0]], shuffled

    def train(self, networks: Sequence[tuple[list[str], bool]]) -> list[Floats]:
        """Train networks, each given by arguments of `train_network`, and return their held-out losses."""
        results = {}
        with Steps("information", len(networks), show=self.progress) as steps:
            for place, losses in run_parallel([partial(self.train_network, *each) for each in networks], self.jobs):
                steps.advance(1, "in " + (", ".join(networks[place][0]) or "no privileged column"))
                results[place] = losses
        return [results[place] for place in range(len(networks))]

    def train_network(self, columns: list[str], shuffled: bool) -> Floats:
        """Train a network, and return its held-out losses given the inputs and privileged columns."""
        A = self.privileged[columns]
        if shuffled:
            order = np.random.default_rng(self.seed).permutation(len(A))
            A = A.iloc[order].set_axis(A.index)
        with one_thread():
            return held_out_losses(
                self.X,
                self.y,
                A if columns else None,
                example=self.group,
                weight=self.weight,
                folds=self.folds,
                parameters=self.settings(columns, self.batch_size),
                seed=self.seed,
                real=self.real,
            )

    def settings(self, columns: Sequence[str], batch_size: int, **training: Any) -> dict[str, Any]:
        """Return the parameters of an estimator that is given some privileged columns."""
        given = {**TRAINING, "batch_size": batch_size, **self.parameters}
        given["training"] = {"validation_fraction": VALIDATION_FRACTION, **training, **(given.get("training") or {})}
        inputs = {name: kind for name, kind in self.kinds.items() if name not in self.privileged}
        return {**given, "kind": inputs | {name: self.kind(name) for name in columns}}

    def gain(self, one: Floats, other: Floats) -> Gain:
        """Estimate by how much the other held-out losses are lower, with the wider of two intervals.

        One interval treats examples as independent. The other treats folds as independent; since their networks are
        trained separately, it includes the variation between training runs.
        """
        by_example, by_fold = (cross_entropy_gap(one, other, example=ids) for ids in (self.group, self.fold))
        return max(by_example, by_fold, key=lambda gain: gain.high)

    def share(self, gain: Gain) -> float:
        """Return the share of the loss without privileged information that is gained; NaN for real numbers."""
        return float("nan") if self.real else gain.estimate / float(self.losses[None].mean())

    # ---------------------------------------------------------------------------- labels and annotators

    @property
    def judge(self) -> str:
        """The method whose predictions judge the labels: No PI if all columns leak."""
        return "no-pi" if methods.kind(self.method).uses_privileged and not self.usable else self.method

    @cached_property
    def inferred(self) -> tuple[Inference, GradeInference | None]:
        """What is inferred about truth and annotators, and about their grades."""
        return self.infer(self.gold_codes)

    @property
    def inference(self) -> Inference:
        """What the labels, the model's predictions and any true labels say about truth and annotators."""
        return self.inferred[0]

    @cached_property
    def blind_inference(self) -> Inference:
        """What is inferred without true labels."""
        return self.inference if self.gold is None else self.infer(None)[0]

    @cached_property
    def likely(self) -> NDArray[np.int64]:
        """The most probable class of each example, or its median grade."""
        truth = self.inference.truth
        if self.rank is None:
            return np.asarray(truth.argmax(1))
        order = np.argsort(self.rank)
        return np.asarray(order[find_medians(truth[:, order])])

    @cached_property
    def near(self) -> NDArray[np.bool_]:
        """Which labels are as good as right for each class, [classes, classes]: itself, and the grades next to it."""
        if self.rank is None:
            return np.eye(len(self.classes), dtype=bool)
        return np.abs(np.subtract.outer(self.rank, self.rank)) <= self.tolerance

    @cached_property
    def predictions(self) -> Floats:
        """The class probabilities that judge the labels."""
        return self.predict() if self.probabilities is None else np.asarray(self.probabilities)

    @property
    def has_curve(self) -> bool:
        """Whether there are enough examples for a learning curve, and a method to train."""
        return self.has_classes and self.probabilities is None and self.examples >= FEWEST_FOR_CURVE

    @cached_property
    def curve(self) -> Sequence[Floats]:
        """The probabilities of models that were trained on the shares `SAMPLES` of the examples."""
        return [self.predict(share) for share in SAMPLES]

    def infer(self, gold: Floats | None) -> tuple[Inference, GradeInference | None]:
        """Infer the truth and the reliability of annotators; true grades are those of the model of grades."""
        people: Any = {"annotator": self.annotator, "trust": self.trust or None}
        found = infer(self.predictions, self.codes, example=self.group, gold=gold, **people)
        votes, rank = found.votes, self.rank
        if self.grades is None or rank is None or votes.annotators == 1:
            return found, None
        p = np.zeros((votes.examples, len(self.grades)))
        p[:, rank] = found.p
        known = None if votes.gold is None else np.where(votes.gold < 0, -1, rank[votes.gold])
        graded = infer_grades(replace(votes, label=rank[votes.label], classes=len(self.grades), gold=known), p)
        truth = graded.truth[:, rank]
        return replace(found, truth=truth / truth.sum(1, keepdims=True)), graded

    def predict(self, share: float = 1.0) -> Floats:
        """Predict class probabilities for the example of each label, out of fold, by models of a share of the examples.

        The networks stop on the labels. Stopping on the consensus takes twice as many for equally good rankings.
        """
        use = self.usable if methods.kind(self.judge).uses_privileged else []
        return predict_out_of_fold(
            self.X,
            self.codes,
            privileged=self.privileged[use] if use else None,
            example=self.group,
            sample_weight=self.weight,
            method=self.judge,
            folds=self.folds,
            share=share,
            random_state=self.seed,
            parameters=self.settings(use, min(32, self.batch_size), stop_on="labels"),
            jobs=self.jobs,
            progress=self.progress,
        )[0]
