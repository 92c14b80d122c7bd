"""Classification with privileged information."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor
from torch.nn.functional import logsigmoid

from lupi.estimators.arguments import check_probabilities, number_classes, read_targets, to_python
from lupi.estimators.base import PrivilegedEstimator
from lupi.likelihoods import Bernoulli, Categorical, Likelihood
from lupi.tabular import soft_labels


@dataclass(eq=False, repr=False, kw_only=True)
class PrivilegedClassifier(ClassifierMixin, PrivilegedEstimator):
    """Classifier that learns from privileged information and predicts without it.

    A 1-D y is multi-class. A 2-D y holds 0 and 1 for multi-label classification or, with `soft`, class probabilities.

    Parameters
    ----------
    method : str or callable
        Name of the method, or a callable that makes a `lupi.methods.Method` from `lupi.nn.Parts`. "auto" mixes several
        methods, denoises the labels with the mixture, and trains one network on the result. "tram" is the paper's
        method. `lupi.methods.names()` lists all names.
    method_options : dict, optional
        Options of the method.
    members : int
        Number of networks to train and average.
    trunk : Module or callable, optional
        Network φ(x) for images, text or any other input: a module, which is copied, or a callable that makes one. The
        default is an MLP on columns, which are standardized or one-hot encoded.
    hidden : sequence of int
        Hidden widths of the default trunk.
    kind : dict, optional
        Kinds of columns of X, by name: "number", "category", "text" or "vector". Kinds of other columns are recognized.
        Strings of three words or more are text, which is encoded with TF-IDF; other strings are categories; lists or
        arrays of numbers are vectors, whose numbers become columns. Columns that look like identifiers, or are named
        like true labels, are rejected. A missing number is replaced with the mean and marked by an additional feature,
        a missing category is a category of its own, and a missing text is an empty text.
    tower : (int, int)
        Widths of the tower, which combines features and privileged information.
    tower_skip : bool
        Whether the conditional head also sees the features directly, as in the paper's ImageNet variant.
    numbers : str or mapping
        Encoding of privileged numbers: "quantile", "standardize" or "category", for all columns or by column. In a
        mapping, columns of strings may be "category" or "text"; by default this is recognized, and identifiers are
        rejected. Lists or arrays of numbers are vectors, which are standardized.
    quantiles : int
        Number of quantile bins.
    annotator : str or int, optional
        Column of `privileged` with the annotator of each label, by name or, for arrays, by number. By default it is the
        first column that has a typical name, such as ``annotator`` or ``worker_id``, and repeated values; if there is
        none, annotators are unknown. The column is also used as privileged information. A missing id counts as one
        more annotator.
    trust : dict, optional
        For each trusted annotator, by name, the probability that a label is correct, such as ``{"expert": 0.98}``. It
        counts as much as 100 of the annotator's labels with known truth. Methods with a model of the annotators, such
        as "auto", use it.
    epochs : int
        Number of passes over the data.
    batch_size : int, optional
        Number of annotations per batch. By default 32; for more than 65,536 annotations, the smallest power of two with
        at most 2048 batches per epoch, up to 4096.
    learning_rate : float
        Learning rate.
    learning_rates : dict of str to float, optional
        Learning rates of parts of the network, such as ``{"trunk": 1e-5}``; 0 freezes a part. See
        `lupi.settings.Settings`.
    l2 : float
        Weight λ of the penalty λ‖w‖² on the weights.
    patience : int, optional
        Stop after this many epochs without a lower held-out loss, and restore the best weights. Methods that
        predict the true label use the loss on the consensus of the held-out labels, for which a No PI network is
        trained first, unless `training` has ``stop_on="labels"``. Methods that cross-fit, such as "auto", ignore
        `patience` and hold no data out: each of their networks uses the fold that it is not trained on.
    validation_fraction : float
        Fraction of the examples to hold out, with their noisy labels, if `patience` is given and the method uses it.
    training : dict, optional
        Further options of `lupi.settings.Settings`: optimizer, schedule, clip, precision and so on.
    device : str
        Device for training and prediction.
    fabric : lightning.fabric.Fabric, optional
        A Fabric, to train on several devices, processes or machines.
    checkpoint : lupi.training.Checkpoint, optional
        Where to save the state of training, and to resume from.
    random_state : int, RandomState or None
        Seed for initial weights, batches and noise.
    verbose : bool
        Whether to show progress.
    callbacks : sequence of callable, optional
        Functions to call after every epoch with its row of `history_` and the network, for instance to log it. If
        one returns true, the current stage of the method ends.
    class_weight : dict or "balanced", optional
        Weights of the classes, as for scikit-learn's `compute_sample_weight`; they multiply `sample_weight`. The weight
        of a soft label is the expected weight of its classes.
    soft : bool
        Whether the columns of y are class probabilities, such as those of a language model. The class labels are
        `classes` or the column names. A model of the annotators uses only the most probable class.
    classes : sequence, optional
        The class labels of the columns of a soft y; by default the column names or numbers.

    Attributes
    ----------
    classes_ : ndarray
        The class labels; for multi-label y the column numbers.
    method_ : Method
        The trained method, with its whole network.
    predictor_ : Module
        The part of the network that predicts; it maps encoded inputs to logits.
    history_ : list of dict
        Losses of every epoch of the last `fit`.
    n_iter_ : int
        Total number of epochs over all stages of the method.
    mixture_ : dict
        For "auto", the weights of the methods in the mixture. They show whether privileged information mattered.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> digits = load_digits_annotated()
    >>> model = PrivilegedClassifier(epochs=2, random_state=0)
    >>> model = model.fit(digits.X_train, digits.y_train, privileged=digits.privileged)
    >>> model.predict_proba(digits.X_test).shape
    (500, 10)
    """

    class_weight: Mapping[Any, float] | str | None = None
    soft: bool = False
    classes: Sequence[Any] | None = None

    def _fit_targets(self, y: Any, names: Sequence[Any] | None) -> tuple[Tensor, Likelihood, int]:
        if self.soft:
            self.multi_label_ = False
            p = check_probabilities(y)
            labels = self.classes if self.classes is not None else names if names is not None else range(p.shape[1])
            self.classes_ = np.asarray(list(labels))
            if len(np.unique(self.classes_)) != p.shape[1] or self.classes_.ndim != 1:
                got = f"{list(labels)!r}"
                raise ValueError(f"Expected `classes` to be {p.shape[1]} labels, one per column of y, but got {got}.")
            return torch.from_numpy(p).float(), Categorical(), p.shape[1]
        if self.classes is not None:
            raise ValueError("Expected `classes` to be None without `soft`, since y holds the class labels.")
        self.multi_label_ = y.ndim == 2 and y.shape[1] > 1
        if self.multi_label_:
            wrong = np.argwhere((y != 0) & (y != 1))
            if len(wrong):
                row, column = map(int, wrong[0])
                got = f"{to_python(y[row, column])!r} in row {row}, column {column}"
                raise ValueError(f"Expected a y with several columns to be 0 or 1, but got {got}.")
            self.classes_ = np.arange(y.shape[1])
            return torch.from_numpy(np.array(y, dtype=np.float32)), Bernoulli(), y.shape[1]
        self.classes_, codes = number_classes(y if isinstance(y, pd.Categorical) else check_labels(y))
        if len(self.classes_) < 2:
            only = to_python(self.classes_[0])
            raise ValueError(f"Expected y to have at least two classes, but all labels are one class, {only!r}.")
        return torch.from_numpy(codes), Categorical(), len(self.classes_)

    def _code_targets(self, y: NDArray[Any], name: str) -> Tensor:
        if self.multi_label_ or (self.soft and y.ndim == 2):
            if y.ndim != 2 or y.shape[1] != len(self.classes_):
                got = f"shape {list(y.shape)}"
                raise ValueError(f"Expected `{name}` to have {len(self.classes_)} columns as y has, but got {got}.")
            known = check_probabilities(y) if self.soft else np.array(y, dtype=np.float64)
            return torch.from_numpy(known).float()
        y = column_or_1d(y)
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        if (codes < 0).any():
            got = f"{to_python(y[codes.argmin()])!r}"
            raise ValueError(
                f"Expected `{name}` to hold classes of y, such as {to_python(self.classes_[0])!r}, but got {got}."
            )
        return torch.from_numpy(codes.astype(np.int64))

    def _weigh_classes(self, y: Tensor) -> NDArray[np.float64] | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str) and self.class_weight != "balanced":
            raise ValueError(f"Expected `class_weight` to be a dict or 'balanced', but got {self.class_weight!r}.")
        if self.multi_label_:
            return np.asarray(compute_sample_weight(self.class_weight, y.numpy()))
        p = y.double().numpy() if self.soft else np.eye(len(self.classes_))[y.numpy()]
        if isinstance(self.class_weight, str):
            return np.asarray(p @ (len(p) / (p.shape[1] * np.maximum(p.sum(0), np.finfo(np.float64).tiny))))
        unknown = set(self.class_weight) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"Expected `class_weight` to have classes of y, but got {min(unknown, key=str)!r}.")
        weights = pd.Series([self.class_weight.get(label, 1.0) for label in self.classes_.tolist()])
        return np.asarray(p @ soft_labels.check_weights(weights, "`class_weight`"))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities or, if multi-label, the probability that each label is 1."""
        return self._predict(X)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of `predict_proba`. They are finite even where probabilities are rounded to zero."""
        output = self._outputs(X)
        log_p = logsigmoid(output) if self.multi_label_ else Categorical().log_probabilities(output)
        return self._check_finite(log_p.numpy())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict`. A soft y counts as its most probable class."""
        if self.soft and np.ndim(y) == 2:
            y = self.classes_[check_probabilities(read_targets(y)).argmax(1)]
        return float(super().score(X, y, sample_weight))

    def predict_proba_given(self, X: Any, privileged: Any) -> NDArray[np.float64]:
        """Return the probabilities of the conditional head, for methods that have one."""
        return self._predict_given(X, privileged)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class or, if multi-label, 1 for each label with a probability above 0.5."""
        p = self.predict_proba(X)
        return (p > 0.5).astype(int) if self.multi_label_ else self.classes_[p.argmax(1)]

    def _decode(self, output: Tensor) -> Tensor:
        return self.likelihood_.mean(output)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


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
