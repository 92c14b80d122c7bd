"""Classification with privileged information."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.functional import logsigmoid

from lupi.estimators.base import PrivilegedEstimator
from lupi.estimators.fit_arguments import read_targets
from lupi.estimators.targets import Classes, ClassTarget, Scale, SeveralLabels, SoftClasses, check_probabilities
from lupi.likelihoods import Categorical


@dataclass(eq=False, repr=False, kw_only=True)
class PrivilegedClassifier(ClassifierMixin, PrivilegedEstimator):
    """Classifier that learns from privileged information and predicts without it.

    A 1-D y is multi-class or, with `scale`, of grades in order. A 2-D y holds 0 and 1 for multi-label classification
    or, with `soft`, class probabilities.

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
        Kinds of columns of X and of `privileged`, by name (`lupi.tabular.KINDS`): "number", "standardized", "category",
        "text" or "text:MODEL", "vector", "image" or "image:MODEL". Kinds of other columns are recognized. Strings of
        three words or more are text, which is encoded with TF-IDF; dates in ISO format are numbers; other strings are
        categories; lists or arrays of numbers are vectors. Numbers are standardized in X and divided into ten quantile
        bins in `privileged`, unless they are "standardized". Columns that look like identifiers, or are named like true
        labels, are rejected. A missing number is replaced with the mean and marked by an additional feature, a missing
        category is a category of its own, and a missing text is an empty text.
    tower : (int, int)
        Widths of the tower, which combines features and privileged information.
    annotator : str or int, optional
        Column of `privileged` with the annotator of each label, by name or, for arrays, by number. By default it is the
        first column that has a typical name, such as ``annotator`` or ``worker_id``, and repeated values; if there is
        none, annotators are unknown. The column is also used as privileged information. A missing id counts as one
        more annotator.
    trust : dict, optional
        For each trusted annotator, by name, the probability that a label is correct, such as ``{"expert": 0.98}``. It
        counts as much as 100 of the annotator's labels with known truth. Methods with a model of the annotators, such
        as "auto", use it.
    predicts : {"truth", "labels"}
        Whether to predict the true label, or how people would answer, for subjective questions. With "labels", "auto",
        "label-posterior" and "stack" mix predictions by the likelihood of the labels and infer no true labels. Methods
        that learn the labels, such as "no-pi" and "tram", predict these in either case; those that predict only true
        labels, such as "pi-transition" and "dawid-skene", refuse it.
    epochs : int
        Number of passes over the data.
    batch_size : int, optional
        Number of annotations per batch. By default 32; for more than 65,536 annotations, the smallest power of two with
        at most 2048 batches per epoch, up to 4096.
    learning_rate : float
        Learning rate.
    l2 : float
        Weight λ of the penalty λ‖w‖² on the weights.
    patience : int, optional
        Stop after this many epochs without a lower held-out loss, and restore the best weights. Methods that predict
        the true label use the loss on the consensus of the held-out labels, for which a No PI network is trained
        first, unless `training` has ``stop_on="labels"``. Methods that cross-fit, such as "auto", ignore `patience` and
        hold no data out: each of their networks uses the fold that it is not trained on.
    training : dict, optional
        Further options: those of `lupi.settings.Settings` (`optimizer`, `schedule`, `learning_rates` and so on), of
        `lupi.training.fit` (`fabric`, `checkpoint` and `callbacks`), and `validation_fraction`, the fraction of the
        examples to hold out if `patience` is given, 0.1 by default.
    device : str
        Device for training and prediction, such as "cpu" or "cuda:1"; by default a GPU if there is one.
    random_state : int, RandomState or None
        Seed for initial weights, batches and noise.
    verbose : bool
        Whether to show progress.
    class_weight : dict or "balanced", optional
        Weights of the classes, as for scikit-learn's `compute_sample_weight`; they multiply `sample_weight`. The weight
        of a soft label is the expected weight of its classes.
    soft : bool
        Whether the columns of y are class probabilities, such as those of a language model. The class labels are
        the column names, or numbers if there are none. A model of the annotators uses only the most probable class.
    scale : {"nominal", "ordinal"} or sequence
        Whether the order of the classes matters. "ordinal" is for a rating scale of numbers, such as 1 to 5; for names,
        list the grades in order, such as ``["poor", "fair", "good"]``. `predict` then returns the median grade, and
        methods with a model of the annotators estimate their bias and spread on the scale.

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
        For "auto", the weights of the methods in the mixture.

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
    scale: Scale = "nominal"

    def _make_target(self, y: Any, names: Sequence[Any] | None) -> ClassTarget:
        if self.soft:
            return SoftClasses(y, names, self.scale)
        if y.ndim == 2 and y.shape[1] > 1:
            if self.scale != "nominal":
                raise ValueError(f"Expected y to have one column for `scale`, but got {y.shape[1]}.")
            return SeveralLabels(y)
        return Classes(y, self.scale)

    def _weigh(self, y: Tensor) -> NDArray[np.float64] | None:
        return self._target.weigh(y, self.class_weight)

    @property
    def _target(self) -> ClassTarget:
        check_is_fitted(self, "target_")  # its error is also an `AttributeError`, for `hasattr`
        assert isinstance(self.target_, ClassTarget)
        return self.target_

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels; for multi-label y the column numbers."""
        return self._target.classes

    @property
    def multi_label_(self) -> bool:
        """Whether y has several labels of 0 or 1."""
        return isinstance(self._target, SeveralLabels)

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
        """Return the most probable class, the median grade or, if multi-label, 1 where a label is probable."""
        return self._target.choose(self.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
