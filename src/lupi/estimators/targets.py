"""The targets of estimators, one class per mode: classes or grades, several labels, probabilities and numbers.

A target learns from y how to code labels as tensors and how to decode outputs of a network. Instances are saved as
JSON and arrays, so they hold plain attributes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Number, Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from lupi.estimators.fit_arguments import to_python
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Ordinal
from lupi.metrics import find_medians
from lupi.tabular import targets
from lupi.tabular.kinds.number import MAX_NUMBER, find_offset, find_too_large

ClassWeight = Mapping[Any, float] | str | None
Scale = str | Sequence[Any]


class Target(ABC):
    """What y means, and how it is coded."""

    outputs: int
    """Number of outputs of the network."""

    @property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """What an output of the network means."""

    @abstractmethod
    def code(self, y: Any, name: str) -> Tensor:
        """Return labels as a tensor; `name` is their argument in messages."""

    @abstractmethod
    def decode(self, output: Tensor) -> Tensor:
        """Return the expected y of an output of the network."""


class ClassTarget(Target):
    """A target of classes, with their labels in order."""

    classes: NDArray[Any]
    ordinal: bool = False
    """Whether the classes are grades of a rating scale, in order."""

    @property
    def likelihood(self) -> Likelihood:
        """That of classes or grades."""
        return Ordinal() if self.ordinal else Categorical()

    @abstractmethod
    def spread(self, y: Tensor) -> NDArray[np.float64]:
        """Return coded labels as probabilities of the classes."""

    def decode(self, output: Tensor) -> Tensor:
        """Return the probabilities."""
        return self.likelihood.mean(output)

    def choose(self, p: NDArray[np.float64]) -> NDArray[Any]:
        """Return the predicted labels: the most probable class or the median grade."""
        return np.asarray(self.classes[find_medians(p) if self.ordinal else p.argmax(1)])

    def weigh(self, y: Tensor, class_weight: ClassWeight) -> NDArray[np.float64] | None:
        """Return the weight of each label, or None; that of a soft label is the expected weight of its classes."""
        if class_weight is None:
            return None
        if isinstance(class_weight, str) and class_weight != "balanced":
            raise ValueError(f"Expected `class_weight` to be a dict or 'balanced', but got {class_weight!r}.")
        p = self.spread(y)
        if isinstance(class_weight, str):
            return np.asarray(p @ (len(p) / (p.shape[1] * np.maximum(p.sum(0), np.finfo(np.float64).tiny))))
        unknown = set(class_weight) - set(self.classes.tolist())
        if unknown:
            raise ValueError(f"Expected `class_weight` to have classes of y, but got {min(unknown, key=str)!r}.")
        weights = pd.Series([class_weight.get(label, 1.0) for label in self.classes.tolist()])
        return np.asarray(p @ targets.check_weights(weights, "`class_weight`"))


class Classes(ClassTarget):
    """One class or, with another scale than "nominal", one grade per label."""

    def __init__(self, y: Any, scale: Scale = "nominal") -> None:
        y = y if isinstance(y, pd.Categorical) else check_labels(y)
        self.classes, self.ordinal = targets.order_grades(number_classes(y)[0], scale)
        self.outputs = len(self.classes)
        if self.outputs < 2:
            only = to_python(self.classes[0])
            raise ValueError(f"Expected y to have at least two classes, but all labels are one class, {only!r}.")

    def code(self, y: Any, name: str) -> Tensor:
        """Return class numbers."""
        if isinstance(y, pd.Categorical):
            labels, codes = number_classes(y)
            return code_classes(self.classes, labels, name)[codes]
        return code_classes(self.classes, y, name)

    def spread(self, y: Tensor) -> NDArray[np.float64]:
        """Return one-hot rows."""
        return np.asarray(np.eye(self.outputs)[y.numpy()])


class SoftClasses(ClassTarget):
    """Class probabilities, such as those of a language model; on another scale than "nominal", columns are in order."""

    def __init__(self, y: NDArray[Any], names: Sequence[Any] | None, scale: Scale = "nominal") -> None:
        p = check_probabilities(y)
        self.classes = np.asarray(range(p.shape[1]) if names is None else list(names))
        self.ordinal = scale != "nominal"
        repeated = pd.Series(self.classes).duplicated()
        if repeated.any():
            got = to_python(self.classes[repeated.argmax()])
            raise ValueError(f"Expected the columns of y to have different names, but got {got!r} twice.")
        self.outputs = p.shape[1]

    def code(self, y: Any, name: str) -> Tensor:
        """Return probabilities, or class numbers for labels that are known."""
        if y.ndim != 2:
            return code_classes(self.classes, y, name)
        check_columns(y, self.outputs, name)
        return torch.from_numpy(check_probabilities(y)).float()

    def spread(self, y: Tensor) -> NDArray[np.float64]:
        """Return the probabilities."""
        return np.asarray(y.double().numpy())


class SeveralLabels(ClassTarget):
    """Several labels of 0 or 1."""

    likelihood = Bernoulli()

    def __init__(self, y: NDArray[Any]) -> None:
        wrong = np.argwhere((y != 0) & (y != 1))
        if len(wrong):
            row, column = map(int, wrong[0])
            got = f"{to_python(y[row, column])!r} in row {row}, column {column}"
            raise ValueError(f"Expected a y with several columns to be 0 or 1, but got {got}.")
        self.classes, self.outputs = np.arange(y.shape[1]), y.shape[1]

    def code(self, y: Any, name: str) -> Tensor:
        """Return 0 and 1."""
        check_columns(y, self.outputs, name)
        return torch.from_numpy(np.array(y, dtype=np.float32))

    def spread(self, y: Tensor) -> NDArray[np.float64]:
        """Return the labels."""
        return np.asarray(y.double().numpy())

    def choose(self, p: NDArray[np.float64]) -> NDArray[Any]:
        """Return 1 where a label is more probable than not."""
        return (p > 0.5).astype(int)

    def weigh(self, y: Tensor, class_weight: ClassWeight) -> NDArray[np.float64] | None:
        """Return the product of the weights of all labels, as scikit-learn does, or None."""
        return None if class_weight is None else np.asarray(compute_sample_weight(class_weight, y.numpy()))


class Numbers(Target):
    """Numbers, standardized."""

    likelihood = Gaussian()
    outputs = 1
    mean: float
    scale: float

    def __init__(self, y: Any) -> None:
        y = column_or_1d(y, warn=True)
        if y.dtype.kind not in "biuf":
            for row, value in enumerate(y):
                if not isinstance(value, Real):
                    raise ValueError(f"Expected y to be numbers, but got {to_python(value)!r} in row {row}.")
        y = y.astype(np.float64)
        place = find_too_large(y)
        if place is not None:
            got = f"{y[place]:g} in row {place[0]}"
            raise ValueError(f"Expected y to be numbers of at most {MAX_NUMBER:g} in size, but got {got}.")
        offset = float(find_offset(y))
        self.mean = float((y - offset).mean()) + offset
        self.scale = float((y - offset).std()) or 1.0

    def code(self, y: Any, name: str) -> Tensor:
        """Return standardized numbers."""
        try:
            y = column_or_1d(y).astype(np.float64)
        except ValueError as error:
            raise ValueError(f"Expected `{name}` to be numbers, one per row, but got: {error}") from error
        return torch.from_numpy(((y - self.mean) / self.scale).astype(np.float32))

    def decode(self, output: Tensor) -> Tensor:
        """Return the mean of y."""
        # Use tensors, since an ONNX export rounds plain numbers to float32.
        scale, mean = torch.tensor([self.scale, self.mean], dtype=output.dtype).unbind()
        return self.likelihood.mean(output) * scale + mean


def code_classes(classes: NDArray[Any], y: Any, name: str) -> Tensor:
    """Return class numbers; raise a `ValueError` that names a label that is no class."""
    y = column_or_1d(y)
    codes = pd.Index(classes).get_indexer(pd.Index(y))
    if (codes < 0).any():
        got, some = to_python(y[codes.argmin()]), to_python(classes[0])
        raise ValueError(f"Expected `{name}` to hold classes of y, such as {some!r}, but got {got!r}.")
    return torch.from_numpy(codes.astype(np.int64))


def check_columns(y: NDArray[Any], columns: int, name: str) -> None:
    """Raise a `ValueError` unless labels have as many columns as y."""
    if y.ndim != 2 or y.shape[1] != columns:
        raise ValueError(f"Expected `{name}` to have {columns} columns as y has, but got shape {list(y.shape)}.")


def number_classes(y: NDArray[Any] | pd.Categorical) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted classes, and the class number of each label."""
    if not isinstance(y, pd.Categorical):
        classes, codes = np.unique(y, return_inverse=True)
        return classes, codes.astype(np.int64)
    used = np.flatnonzero(np.bincount(y.codes, minlength=len(y.categories)))
    number = np.zeros(len(y.categories), np.int64)
    classes, number[used] = np.unique(np.asarray(y.categories, dtype=object)[used], return_inverse=True)
    return classes, number[y.codes]


def check_probabilities(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return soft labels, [rows, classes]."""
    if y.ndim != 2:
        raise ValueError(f"Expected y to have a column for each class with `soft`, but got shape {list(y.shape)}.")
    return targets.check_probabilities(pd.DataFrame(y), "y, which is `soft`,")


def check_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Return labels as an array of one type; raise a `ValueError` if they cannot be classes."""
    y = column_or_1d(y, warn=True)
    if y.dtype == object:
        kinds = {type(label) for label in y}
        if len(kinds) > 1:
            names = sorted(kind.__name__ for kind in kinds)
            raise ValueError(f"Expected y to be labels of one type, but got {' and '.join(names)}.")
        if issubclass(kinds.pop(), Number | np.generic):
            y = np.array(y.tolist())
    check_classification_targets(y)
    return np.asarray(y)
