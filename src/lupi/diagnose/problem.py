"""The annotations to diagnose, and the evidence about them that checks share.

All that diagnoses know of tables and kinds of columns is in this file.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lupi import methods
from lupi._internal.arrays import Floats
from lupi._internal.checks import check_integer, check_jobs
from lupi._internal.devices import one_thread
from lupi._internal.parallel import run_parallel
from lupi._internal.progress import Steps
from lupi.crowd import Inference, infer
from lupi.crowd.agreement import describe_agreement
from lupi.crowd.trusted import read_trust
from lupi.diagnose.leaks import Alone, Rows, classify_leak, predict_alone
from lupi.diagnose.networks import STEPS, Gain, cross_entropy_gap, held_out_losses, predict_out_of_fold
from lupi.tabular import TableSpec
from lupi.tabular.formats import folder_of, read_table
from lupi.tabular.frames import to_pandas
from lupi.tabular.grouping import grouped_folds, number_examples
from lupi.tabular.images import UnreadableImageError, draw_thumbnail
from lupi.tabular.kinds.image import resolve_beside_table
from lupi.tabular.schema import InputColumn
from lupi.tabular.table_data import TableData, read_data
from lupi.tabular.targets import code_gold
from lupi.tabular.values import as_bytes

FEWEST_EXAMPLES = 20
SAMPLES, FEWEST_FOR_CURVE = (1 / 8, 1 / 4, 1 / 2), 200
"""Shares of the examples to train on for the learning curve, and the minimum number of examples of one."""
WIDTH = (64, 64)
"""Default widths of trunk and tower."""
WIDER = 4
"""Factor by which the wider network is wider."""
TRAINING: Mapping[str, Any] = {"epochs": 100, "patience": 5, "learning_rate": 1e-3}
"""Default parameters of the estimators. Training stops when the loss on held-out noisy labels no longer decreases,
since the gap between overfitted networks is meaningless."""
VALIDATION_FRACTION = 0.2
"""Fraction of the examples to hold out for early stopping."""
MOST_BINS = 100
"""Maximum number of bins of a numeric column; a bin has about twenty rows or more."""
MOST_INPUTS = 3
"""Maximum number of input columns to show beside a label."""
MOST_PICTURES, SIDE = 48, 96
"""Maximum number of labels to show with images, and the height and width of the images in pixels."""
TAKEN = ("row", "example", "annotator", "given", "likely", "wrong", "right")
"""Columns of the table of labels, which inputs beside them must not have as names."""


class Column(NamedTuple):
    """How a privileged column relates to the label: by itself, beyond the inputs, and whether it leaks the label."""

    alone: Alone
    gain: Gain
    how: str


class Together(NamedTuple):
    """Held-out losses given all columns that do not leak: of the network, of a wider one, and with rows shuffled."""

    conditional: Floats
    wide: Floats
    shuffled: Floats


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
        if sample is not None:
            check_integer("sample", sample, 1)
        table = read_data(spec)
        whole = table.load(device)
        everyone = np.zeros(0) if whole.annotators is None else np.unique(whole.annotators)
        read_trust(spec.trust, everyone)
        p = None if probabilities is None else read_probabilities(probabilities, spec, whole)
        data = whole.sample(sample or len(whole), seed)
        notes = list(data.notes)
        classes = data.schema.task == "classification" and not data.schema.several
        if classes:
            notes += describe_agreement(data.y, data.group)
        if spec.soft:
            notes.append("The label of a row is its most probable class: how probable it is does not matter here.")
        chosen = {name: value for name, value in (settings or {}).items() if value is not None}
        inputs, privileged = data.inputs, data.privileged
        assert isinstance(inputs, pd.DataFrame)
        assert isinstance(privileged, pd.DataFrame)
        problem = cls(
            inputs.reset_index(drop=True),
            np.asarray(data.classes)[data.y] if classes else data.y,
            privileged.reset_index(drop=True),
            kinds=data.schema.kinds,
            example=data.group if data.ids is None else data.ids.to_numpy(),
            annotator=data.annotators,
            gold=None if data.gold is None else data.columns[data.gold].reset_index(drop=True),
            trust=data.trusted,
            probabilities=None if p is None else p[np.searchsorted(whole.rows, data.rows)],
            weight=None if data.weight is None else data.columns[data.weight].to_numpy(np.float64),
            real=data.schema.task == "regression",
            grades=data.classes if data.schema.ordinal else None,
            seed=seed,
            parameters={"device": device, **chosen},
            jobs=jobs,
            source=Source(
                spec=spec,
                inputs=table.schema.inputs,
                rows=data.rows,
                has_ids=data.ids is not None,
                notes=data.notes[:1] if len(data) < len(whole) else [],
                facts={
                    "table": str(spec.table),
                    "rows": len(data),
                    "task": "multi-label" if data.schema.several else data.schema.task,
                    "roles": asdict(data.schema.roles) | {"inputs": len(data.schema.roles.inputs)},
                    "annotator": data.schema.annotator,
                    "gold": spec.gold,
                    "trust": dict(spec.trust),
                    "probabilities": None if probabilities is None else str(probabilities),
                    "weight": spec.weight,
                    "soft": spec.soft,
                    "settings": chosen,
                    "sample": len(data) if len(data) < len(whole) else None,
                    "data": data.digest,
                    "reading": notes,
                },
            ),
            **options,
        )
        for line in (*data.choices, *(f"Note: {note}" for note in notes)):
            if notify is not None:
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
        return {**({} if self.source is None else self.source.facts), **known}

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
        """How many networks are trained: given no, each, all and shuffled columns, a wider one, and judges."""
        columns = len(self.privileged.columns)
        judges = self.has_classes * ((self.probabilities is None) + (self.gold is not None))
        smaller = self.has_curve * len(SAMPLES)
        return self.folds * (1 + columns + (columns > 1) + 2 + judges + smaller)

    @cached_property
    def losses(self) -> dict[str | None, Floats]:
        """Held-out losses given the inputs and one privileged column, by its name; None: given the inputs alone."""
        names = [str(name) for name in self.privileged]
        networks: list[dict[str, Any]] = [{"columns": []}, *({"columns": [name]} for name in names)]
        return dict(zip([None, *names], self.train(networks), strict=True))

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
    def together(self) -> Together | None:
        """Held-out losses given all usable columns; None if there are none."""
        columns = self.usable
        if not columns:
            return None
        networks: list[dict[str, Any]] = [
            {"columns": columns, "width": WIDER},
            {"columns": columns, "shuffled": True},
            *([{"columns": columns}] if len(columns) > 1 else []),
        ]
        wide, shuffled, *more = self.train(networks)
        return Together(more[0] if more else self.losses[columns[0]], wide, shuffled)

    def train(self, networks: Sequence[Mapping[str, Any]]) -> list[Floats]:
        """Train networks, each given by arguments of `train_network`, and return their held-out losses."""
        results = {}
        with Steps("information", len(networks), show=self.progress) as steps:
            for place, losses in run_parallel([partial(self.train_network, **each) for each in networks], self.jobs):
                steps.advance(1, "in " + (", ".join(networks[place]["columns"]) or "no privileged column"))
                results[place] = losses
        return [results[place] for place in range(len(networks))]

    def train_network(self, columns: list[str], *, width: int = 1, shuffled: bool = False) -> Floats:
        """Train a network, `width` times as wide, and return its losses given the inputs and privileged columns."""
        A = self.privileged[columns]
        if shuffled:
            order = np.random.default_rng(self.seed).permutation(len(A))
            A = A.iloc[order].set_axis(A.index)
        given = {**TRAINING, "batch_size": self.batch_size, **self.parameters}
        given["training"] = {"validation_fraction": VALIDATION_FRACTION, **(given.get("training") or {})}
        wide = {name: tuple(width * n for n in given.get(name, WIDTH)) for name in ("hidden", "tower")}
        with one_thread():
            return held_out_losses(
                self.X,
                self.y,
                A if columns else None,
                example=self.group,
                weight=self.weight,
                folds=self.folds,
                parameters={**given, **wide, **self.encoding(columns)},
                seed=self.seed,
                real=self.real,
            )

    def encoding(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return the parameter of the estimators that encodes inputs and privileged columns."""
        inputs = {name: kind for name, kind in self.kinds.items() if name not in self.privileged}
        return {"kind": inputs | {name: self.kind(name) for name in columns}}

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
    def inference(self) -> Inference:
        """What the labels, the model's predictions and any true labels say about truth and annotators."""
        return self.infer(self.gold_codes)

    @cached_property
    def blind_inference(self) -> Inference:
        """What is inferred without true labels."""
        return self.inference if self.gold is None else self.infer(None)

    @cached_property
    def no_pi(self) -> Floats:
        """The probability of each label according to No PI, out of fold."""
        return self.predict("no-pi")[np.arange(len(self.y)), self.codes]

    @cached_property
    def predictions(self) -> Floats:
        """The class probabilities that judge the labels."""
        return self.predict(self.judge) if self.probabilities is None else np.asarray(self.probabilities)

    @property
    def has_curve(self) -> bool:
        """Whether there are enough examples for a learning curve, and a method to train."""
        return self.has_classes and self.probabilities is None and self.examples >= FEWEST_FOR_CURVE

    @cached_property
    def curve(self) -> Sequence[Floats]:
        """The probabilities of models that were trained on the shares `SAMPLES` of the examples."""
        return [self.predict(self.judge, share) for share in SAMPLES]

    def infer(self, gold: Floats | None) -> Inference:
        """Infer the truth and the reliability of annotators."""
        people: Any = {"annotator": self.annotator, "trust": self.trust or None}
        return infer(self.predictions, self.codes, example=self.group, gold=gold, **people)

    def predict(self, method: str, share: float = 1.0) -> Floats:
        """Predict class probabilities for the example of each label, out of fold, by models of a share of the examples.

        The networks stop on the labels. Stopping on the consensus takes twice as many for equally good rankings.
        """
        given = {**TRAINING, "batch_size": min(32, self.batch_size), **self.parameters}
        training = {"validation_fraction": VALIDATION_FRACTION, "stop_on": "labels"}
        given["training"] = {**training, **(given.get("training") or {})}
        use = self.usable if methods.kind(method).uses_privileged else []
        return predict_out_of_fold(
            self.X,
            self.codes,
            privileged=self.privileged[use] if use else None,
            example=self.group,
            sample_weight=self.weight,
            method=method,
            folds=self.folds,
            share=share,
            random_state=self.seed,
            parameters={**given, **self.encoding(use)},
            jobs=self.jobs,
            progress=self.progress,
        )[0]


def code_values(column: pd.Series[Any], kind: str, bins: int | None = None) -> NDArray[np.int64]:
    """Number the values of a column, or the bins of a numeric column; missing values get a separate number."""
    if kind == "number":
        bins = bins or max(10, min(MOST_BINS, len(column) // 20))
        if column.nunique() > bins:
            column = pd.qcut(column.rank(), bins, labels=False, duplicates="drop")
    return pd.factorize(as_bytes(column), use_na_sentinel=False)[0].astype(np.int64)


# -------------------------------------------------------------------------------- tables


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """The table that a problem comes from: what is shown of it beside labels, and facts to record."""

    spec: TableSpec
    inputs: Mapping[str, InputColumn]
    rows: NDArray[np.int64]
    has_ids: bool
    notes: Sequence[str]
    facts: Mapping[str, Any]

    @property
    def shown(self) -> dict[str, str]:
        """The input columns to show and the names to show them by: images, then texts, then others, but no vectors."""
        names = [name for name, column in self.inputs.items() if column.kind != "vector"]
        order = {"image": 0, "text": 1}
        names.sort(key=lambda name: order.get(self.inputs[name].kind.partition(":")[0], 2))
        return {name: f"input_{name}" if name in TAKEN else name for name in names[:MOST_INPUTS]}

    def read_content(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Return the first inputs of some rows of the table, as text."""
        if not self.shown:
            return pd.DataFrame(index=range(len(rows)))
        table = read_table(self.spec.table, list(self.shown), dict.fromkeys(self.shown, pa.string()))
        return to_pandas(table).iloc[rows].reset_index(drop=True).rename(columns=self.shown)

    def draw_pictures(self, content: pd.DataFrame) -> dict[str, list[str | None]]:
        """Return thumbnails of the first images as data URLs, by column; None where there is no image."""
        images = [shown for name, shown in self.shown.items() if self.inputs[name].kind.startswith("image")]
        return {name: [self.draw_picture(str(path)) for path in content[name].head(MOST_PICTURES)] for name in images}

    def draw_picture(self, name: str) -> str | None:
        """Return a thumbnail of an image that the table names as a data URL; None if the file no longer exists."""
        path = resolve_beside_table(folder_of(self.spec.table), name)
        with suppress(UnreadableImageError):
            if path is not None:
                return f"data:image/jpeg;base64,{base64.b64encode(draw_thumbnail(path, SIDE)).decode()}"
        return None


def read_probabilities(path: Path, spec: TableSpec, data: TableData) -> Floats:
    """Read class probabilities for the labels of a table, [labels, classes]."""
    if data.schema.task != "classification" or data.schema.several:
        task = "multi-label" if data.schema.several else data.schema.task
        raise ValueError(f"Expected a single target of classes for `probabilities`, but the task is {task}.")
    if spec.soft:
        raise ValueError("Expected a column of labels with `probabilities`, but got `soft` ones.")
    if not path.exists():
        raise FileNotFoundError(f"Expected `probabilities` to be a .npy file, but there is no {path}.")
    try:
        p: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"Expected `probabilities` to be a .npy file of numbers, but could not read {path}."
        ) from error
    if not isinstance(p, np.ndarray) or p.dtype.kind not in "fiu":
        raise ValueError(f"Expected `probabilities` to be a .npy file of numbers, but got {path}.")
    if p.shape != (len(data.rows), len(data.classes)):
        total = read_table(spec.table, list(data.schema.roles.target[:1])).num_rows
        if p.shape != (total, len(data.classes)):
            got = f"shape {list(p.shape)}"
            raise ValueError(f"Expected `probabilities` to be of shape {[total, len(data.classes)]}, but got {got}.")
        p = p[data.rows]
    return check_predictions(p)


def check_predictions(p: Any) -> Floats:
    """Normalize probabilities; raise a `ValueError` unless they are non-negative and rows sum to about one."""
    values = np.asarray(p, dtype=np.float64)
    total = values.sum(1, keepdims=True)
    wrong = ~((values >= 0).all(1) & (np.abs(total[:, 0] - 1) < 0.01))
    if wrong.any():
        row = int(wrong.argmax())
        few = ", ".join(f"{value:.4g}" for value in values[row, :5]) + (", …" if values.shape[1] > 5 else "")
        raise ValueError(
            f"Expected rows of `probabilities` to be from 0 to 1 and to sum to 1, but row {row} is [{few}]."
        )
    return np.asarray(values / total)
