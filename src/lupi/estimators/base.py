"""scikit-learn estimators: `PrivilegedClassifier` and `PrivilegedRegressor`."""

from __future__ import annotations

import copy
import numbers as number_types
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from lupi import __version__, methods
from lupi._internal.devices import check_device
from lupi.data import Annotations, Batch, SparseRows
from lupi.estimators.arguments import (
    Inputs,
    check_index,
    check_length,
    check_widths,
    complete_targets,
    examples_of,
    python,
    tensor_of,
)
from lupi.estimators.onnx_export import Affine, Mean, Standardize, export_onnx
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from lupi.nn import MLP, Parts
from lupi.nn.inference import over_annotations, over_examples
from lupi.tabular.encoding import InputEncoder, PrivilegedEncoder, check_inputs
from lupi.training import Checkpoint, Epoch, Settings, fit, fit_seeds, seed_noise

if TYPE_CHECKING:
    from lupi.estimators.folder import Stored

FLAT_SETTINGS = ("epochs", "batch_size", "learning_rate", "l2", "patience")
NOT_STORED = ("method", "trunk", "device", "fabric", "checkpoint", "random_state")
"""Parameters that a model folder does not hold, or not as parameters."""
LIKELIHOODS: dict[str, Likelihood] = {type(kind).__name__: kind for kind in (Categorical(), Bernoulli(), Gaussian())}


class Training(NamedTuple):
    """What an estimator trains: a method on annotations, with held-out ones where it may stop early."""

    method: methods.Method
    data: Annotations
    held_out: Annotations | None
    settings: Settings
    seed: int


class PrivilegedEstimator(BaseEstimator, ABC):
    """What both estimators share: encoding, training, prediction and storage."""

    _target_attributes: ClassVar[tuple[str, ...]]
    """What `_fit_targets` learns, beside likelihood and number of outputs."""
    __metadata_request__fit: ClassVar = {"privileged": True, "example": True}

    def __init__(
        self,
        method: str | Callable[[Parts], methods.Method] = "tram",
        *,
        method_options: Mapping[str, Any] | None = None,
        trunk: nn.Module | Callable[[], nn.Module] | None = None,
        hidden: Sequence[int] = (64, 64),
        tower: Sequence[int] = (64, 64),
        tower_skip: bool = False,
        numbers: str | Mapping[str, str] = "quantile",
        quantiles: int = 10,
        epochs: int = 50,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        l2: float = 0.0,
        patience: int | None = None,
        validation_fraction: float = 0.1,
        training: Mapping[str, Any] | None = None,
        device: str = "cpu",
        fabric: Any = None,
        checkpoint: Checkpoint | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.method_options = method_options
        self.trunk = trunk
        self.hidden = hidden
        self.tower = tower
        self.tower_skip = tower_skip
        self.numbers = numbers
        self.quantiles = quantiles
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.l2 = l2
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.training = training
        self.device = device
        self.fabric = fabric
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _fit_targets(self, y: Any) -> tuple[Tensor, Likelihood, int]:
        """Check y, learn its form, and return it as a tensor with its likelihood and the number of outputs."""

    @abstractmethod
    def _decoder(self) -> nn.Module:
        """Module from the expected y of training to the y of the user."""

    def fit(self, X: Any, y: Any, *, privileged: Any = None, example: Any = None) -> Self:
        """Train on annotations.

        Parameters
        ----------
        X : array or DataFrame
            Inputs, one row per annotation.
        y : array
            Labels, one per annotation.
        privileged : array or DataFrame, optional
            What is known of each label and will not be known at prediction, one row per annotation; may miss values.
        example : array, optional
            Rows with equal ids are annotations of one example: their X is equal, and the trunk sees it once.
        """
        training = self._prepare(X, y, privileged=privileged, example=example)
        history = fit(
            training.method,
            training.data,
            training.settings,
            validation=training.held_out,
            seed=training.seed,
            device=self.device,
            fabric=self.fabric,
            checkpoint=self.checkpoint,
            progress=bool(self.verbose),
        )
        return self._finish(history)

    def _prepare(self, X: Any, y: Any, *, privileged: Any, example: Any) -> Training:
        """Check and encode everything, and make the network."""
        settings = self._settings()
        self.__dict__.pop("predictor_", None)  # a fit that fails leaves no model, rather than parts of two
        check_index(X, privileged)
        inputs = self._check_inputs(X, reset=True)
        n = inputs.shape[0]
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        target, self.likelihood_, outputs = self._fit_targets(y)
        check_length("y", target.shape[0], n)
        row = np.arange(n)
        if example is not None:
            first, row = examples_of(example, inputs)
            inputs = inputs.iloc[first] if isinstance(inputs, pd.DataFrame) else inputs[first]
        a = self._fit_privileged(privileged, n)
        self.input_encoder_ = InputEncoder().fit(inputs) if self.trunk is None else None
        x = self._encode_inputs(inputs)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if self.fabric is not None:
            seed = self.fabric.broadcast(seed)  # that of the first process
        data, held_out = self._hold_out(Annotations(x, torch.from_numpy(row), a, target), seed)
        with seed_noise(seed, torch.device(self.device)):
            trunk = self._make_trunk(x.shape[1])
            self.widths_ = {
                "inputs": x.shape[1],
                "features": width_of(trunk(), x),
                "privileged": a.shape[1],
                "outputs": outputs,
            }
        with seed_noise(seed, torch.device(self.device)):
            self.method_ = self._build(trunk)
        return Training(self.method_, data, held_out, settings, seed)

    def _finish(self, history: list[Epoch]) -> Self:
        """Take the trained network."""
        self.history_ = history
        self.predictor_ = self.method_.predictor().eval()
        return self

    def save(self, path: str | Path) -> None:
        """Write the model to a folder. It holds no pickle, and reading it runs no code from it.

        For `predict_proba_given` it holds the whole network and the encoder of the privileged information, with the
        names of its categories, such as annotators; `export_onnx` writes the predictor alone.

        A trunk or a method of your own is stored by its weights alone; pass it again to `load`.
        """
        from lupi.estimators import folder as persistence  # needs skops, which training does not

        persistence.write(path, self._stored())

    def _stored(self) -> Stored:
        """What a model folder holds of this model."""
        from lupi.estimators import folder as persistence

        check_is_fitted(self, "predictor_")
        facts = {
            "lupi": __version__,
            "estimator": type(self).__name__,
            "method": self.method if isinstance(self.method, str) else None,
            "own_trunk": self.trunk is not None,
            "parameters": {name: value for name, value in self.get_params().items() if name not in NOT_STORED},
            "likelihood": type(self.likelihood_).__name__,
            "widths": self.widths_,
            "ships_privileged": self.method_.ships_privileged,
        }
        names = ("input_encoder_", "privileged_encoder_", "n_features_in_", "feature_names_in_")
        fitted = {name: value for name, value in vars(self).items() if name in (*names, *self._target_attributes)}
        return persistence.Stored(facts, self.method_.state_dict(), fitted)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        trunk: nn.Module | Callable[[], nn.Module] | None = None,
        method: Callable[..., methods.Method] | None = None,
        device: str = "cpu",
    ) -> Self:
        """Read a model that `save` wrote; `trunk` and `method` are for a model that was made with your own."""
        from lupi.estimators import folder as persistence

        facts, weights, fitted = persistence.read(path)
        if facts["estimator"] != cls.__name__:
            raise ValueError(f"Expected {path} to be a {cls.__name__}, but it is a {facts['estimator']}.")
        for name, own, passed in (
            ("trunk", facts["own_trunk"], trunk),
            ("method", facts["method"] is None, method),
        ):
            if own and passed is None:
                raise ValueError(f"Expected `{name}` to be the {name} that {path} was made with, but got None.")
            if not own and passed is not None:
                raise ValueError(f"Expected `{name}` to be None, since {path} was made without a {name} of your own.")
        model = cls(method or facts["method"], trunk=trunk, device=device, **facts["parameters"])
        model.__dict__.update(fitted)
        model.likelihood_ = LIKELIHOODS[facts["likelihood"]]
        model.widths_ = facts["widths"]
        with seed_noise(0, torch.device("cpu")):  # making a network draws weights, which are replaced
            model.method_ = model._build(model._make_trunk(model.widths_["inputs"]))
        try:
            model.method_.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(f"Expected the network of the weights in {path}, but got another: {error}") from error
        model.method_.to(device).eval()
        model.predictor_ = model.method_.predictor().eval()
        return model

    def export_onnx(self, path: str | Path, *, X: Any = None) -> None:
        """Write the predictor as an ONNX file: from inputs as they are, `x`, to probabilities or real numbers, `y`.

        Both are float32, unless a trunk of your own takes integers. The file is checked against torch before it is
        moved into place. Needs the extra `export`.

        Parameters
        ----------
        path : str or Path
            The file.
        X : array, optional
            A few inputs to check with; needed with a trunk of your own, else made up.
        """
        check_is_fitted(self, "predictor_")
        encoder = self.input_encoder_
        encode: nn.Module = nn.Identity()
        if encoder is not None:
            if not encoder.numeric_:
                kinds = encoder.encoder_.kinds_
                category = next(name for name, kind in kinds.items() if kind == "category")
                raise ValueError(
                    f"Expected all columns of X to be numbers for an ONNX file, but {category!r} is a category."
                )
            encode = Standardize(encoder.mean_, encoder.scale_)
            if X is None:
                made_up = np.random.default_rng(0).normal(size=(10, self.n_features_in_))
                x = torch.from_numpy((made_up * encoder.scale_ + encoder.mean_).astype(np.float32))
            else:
                x = torch.from_numpy(np.array(self._check_inputs(X, reset=False), dtype=np.float32))
        elif X is None:
            raise ValueError("Expected `X` to be a few inputs, since the trunk is your own, but got None.")
        else:
            x = torch.as_tensor(self._check_inputs(X, reset=False))
        deployed = nn.Sequential(encode, self.predictor_, Mean(self.likelihood_), self._decoder())
        export_onnx(copy.deepcopy(deployed).eval().cpu(), x, path)

    def _settings(self) -> Settings:
        """Check everything that can be checked without data."""
        if isinstance(self.method, str):
            methods.kind(self.method)
        elif not callable(self.method):
            raise ValueError(f"Expected `method` to be a name or a callable, but got {self.method!r}.")
        if not (self.trunk is None or callable(self.trunk)):
            raise ValueError(f"Expected `trunk` to be a module or a callable that makes one, but got {self.trunk!r}.")
        for name in ("method_options", "training"):
            if not isinstance(options := getattr(self, name), Mapping | None):
                raise ValueError(f"Expected `{name}` to be a dict of options, but got {options!r}.")
        check_device(self.device)
        check_widths("hidden", self.hidden)
        check_widths("tower", self.tower, count=2)
        more = dict(self.training or {})
        for name in more:
            if name in FLAT_SETTINGS or name not in Settings.__dataclass_fields__:
                known = [field for field in Settings.__dataclass_fields__ if field not in FLAT_SETTINGS]
                raise ValueError(f"Expected `training` to have options among {', '.join(known)}, but got {name!r}.")
        share = self.validation_fraction
        if not (isinstance(share, number_types.Real) and 0 < share < 1):
            raise ValueError(f"Expected `validation_fraction` to be a number between 0 and 1, but got {share!r}.")
        flat = {name: getattr(self, name) for name in FLAT_SETTINGS}
        # A search over a numpy array sets numpy's numbers.
        return Settings(**{name: v.item() if isinstance(v, np.generic) else v for name, v in flat.items()}, **more)

    def _check_inputs(self, X: Any, *, reset: bool) -> Inputs:
        if self.trunk is not None:
            x = tensor_of(X)
            if reset:
                self.n_features_in_ = x.shape[1]
            elif x.shape[1] != self.n_features_in_:
                raise ValueError(f"X has {x.shape[1]} features, but the model was fitted with {self.n_features_in_}.")
            return x
        if type(X).__module__.startswith("polars."):
            X = X.to_pandas()
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return check_inputs(X)
        X = validate_data(self, X, reset=reset, ensure_all_finite=False)
        check_inputs(X)  # names row and column of NaN and infinity
        return X  # type: ignore[no-any-return]

    def _encode_inputs(self, inputs: Inputs) -> Tensor:
        if self.input_encoder_ is None:
            return torch.as_tensor(inputs)
        return torch.from_numpy(self.input_encoder_.transform(inputs))

    def _fit_privileged(self, privileged: Any, n: int) -> Tensor | SparseRows:
        self.privileged_encoder_ = None
        if privileged is None:
            if not isinstance(self.method, str) or methods.kind(self.method).uses_privileged:
                warnings.warn(
                    f"{type(self).__name__}.fit got no `privileged` information: method {self.method!r} trains "
                    "with none, as if it were all zeros.",
                    stacklevel=4,
                )
            return torch.zeros(n, 1)
        self.privileged_encoder_ = PrivilegedEncoder(self.numbers, self.quantiles).fit(privileged)
        a = SparseRows.from_matrix(self.privileged_encoder_.transform(privileged))
        check_length("privileged", a.shape[0], n)
        return a

    def _hold_out(self, data: Annotations, seed: int) -> tuple[Annotations, Annotations | None]:
        """Hold out examples, with all of their noisy labels, where training may stop early."""
        if self.patience is None:
            return data, None
        examples = data.x.shape[0]
        held = round(examples * self.validation_fraction)
        if not 0 < held < examples:
            raise ValueError(
                f"Expected `validation_fraction` to hold out some of {examples} examples, "
                f"but {self.validation_fraction} of them is {held}."
            )
        order = torch.randperm(examples, generator=torch.Generator().manual_seed(seed))
        is_held = torch.zeros(examples, dtype=torch.bool)
        is_held[order[:held]] = True
        of_held = is_held[data.row]
        return data.take((~of_held).nonzero().squeeze(1)), data.take(of_held.nonzero().squeeze(1))

    def _make_trunk(self, inputs: int) -> Callable[[], nn.Module]:
        if self.trunk is None:
            return partial(MLP, inputs, tuple(map(int, self.hidden)))
        return partial(copy.deepcopy, self.trunk) if isinstance(self.trunk, nn.Module) else self.trunk

    def _build(self, trunk: Callable[[], nn.Module]) -> methods.Method:
        first, second = map(int, self.tower)
        parts = Parts(
            trunk,
            features=self.widths_["features"],
            privileged=self.widths_["privileged"],
            outputs=self.widths_["outputs"],
            likelihood=self.likelihood_,
            tower_widths=(first, second),
            tower_skip=self.tower_skip,
        )
        if isinstance(self.method, str):
            return methods.build(self.method, parts, **(self.method_options or {}))
        method = self.method(parts, **(self.method_options or {}))
        if not isinstance(method, methods.Method):
            raise ValueError(f"Expected `method` to make a lupi.methods.Method, but got {type(method).__name__}.")
        return method

    def _outputs(self, X: Any) -> Tensor:
        """Output of the predictor."""
        check_is_fitted(self, "predictor_")
        return over_examples(self.predictor_, self._encode_inputs(self._check_inputs(X, reset=False))).cpu()

    def _outputs_given(self, X: Any, privileged: Any) -> Tensor:
        """Output of the conditional head."""
        check_is_fitted(self, "predictor_")
        if not isinstance(self.method_, methods.Conditional):
            raise ValueError(f"Expected a method with a conditional head, but {self.method!r} has none.")
        if self.privileged_encoder_ is None:
            raise ValueError("Expected a model that was fitted with `privileged`, but this one was not.")
        check_index(X, privileged)
        x = self._encode_inputs(self._check_inputs(X, reset=False))
        a = SparseRows.from_matrix(self.privileged_encoder_.transform(privileged))
        check_length("privileged", a.shape[0], x.shape[0])
        data = Annotations(x, torch.arange(x.shape[0]), a, torch.zeros(x.shape[0]))
        random = self.method_.random
        return over_annotations(self.method_, partial(given, self.method_, random), data).cpu()


class PrivilegedClassifier(ClassifierMixin, PrivilegedEstimator):
    """Classifier that learns from privileged information and predicts without it.

    y 1-D is multi-class; y 2-D of 0 and 1 is multi-label.

    Parameters
    ----------
    method : str or callable
        A name of `lupi.methods.names()`, or your own: from `lupi.nn.Parts` to a `lupi.methods.Method`.
    method_options : dict, optional
        Options of the method.
    trunk : Module or callable, optional
        φ(x) for images, text and what else it accepts; from the module as it is (a copy of it), or made by the
        callable. By default an MLP on columns, which are standardised or one-hot encoded.
    hidden : sequence of int
        Widths of that MLP.
    tower : (int, int)
        Widths of the tower, which joins features and privileged information.
    tower_skip : bool
        Whether the features skip the tower too, as in the paper's ImageNet variant.
    numbers : str or mapping
        How privileged numbers are encoded: "quantile", "standardize" or "category", for all or by column.
    quantiles : int
        Number of quantile bins.
    epochs, batch_size, learning_rate, l2, patience
        How to train, as in `lupi.training.Settings`.
    validation_fraction : float
        Share of the examples that is held out, with their noisy labels, where `patience` is given.
    training : dict, optional
        More of `lupi.training.Settings`: optimizer, schedule, clip, precision and so on.
    device : str
        Where to train and predict.
    fabric : lightning.fabric.Fabric, optional
        For several devices, processes or machines.
    checkpoint : lupi.training.Checkpoint, optional
        Where to keep the state of training, and to go on from when it was interrupted.
    random_state : int, RandomState or None
        Seed of initial weights, batches and noise.
    verbose : bool
        Show progress.

    Attributes
    ----------
    classes_ : ndarray
        The classes; of a multi-label problem the numbers of the labels.
    method_ : Method
        The whole network.
    predictor_ : Module
        The part of it that predicts, from encoded inputs to logits.
    history_ : list of dict
        Losses of every epoch.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> digits = load_digits_annotated()
    >>> model = PrivilegedClassifier(method="tram", epochs=5, random_state=0)
    >>> model = model.fit(digits.X_train, digits.y_train, privileged=digits.privileged)
    >>> model.predict_proba(digits.X_test).shape
    (500, 10)
    """

    _target_attributes: ClassVar = ("classes_", "multi_label_")

    def _fit_targets(self, y: Any) -> tuple[Tensor, Likelihood, int]:
        y = complete_targets(y)
        self.multi_label_ = y.ndim == 2 and y.shape[1] > 1
        if self.multi_label_:
            wrong = np.argwhere((y != 0) & (y != 1))
            if len(wrong):
                row, column = map(int, wrong[0])
                raise ValueError(
                    f"Expected a y with several columns to be 0 or 1, one column per label, "
                    f"but got {python(y[row, column])!r} in row {row}, column {column}."
                )
            self.classes_ = np.arange(y.shape[1])
            return torch.from_numpy(np.array(y, dtype=np.float32)), Bernoulli(), y.shape[1]
        y = column_or_1d(y, warn=True)
        if y.dtype == object:
            kind, *others = {type(label) for label in y}
            if others:
                names = sorted(kind.__name__ for kind in (kind, *others))
                raise ValueError(f"Expected y to be labels of one kind, but got {' and '.join(names)}.")
            if issubclass(kind, number_types.Number | np.generic):
                y = np.array(y.tolist())
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            only = python(self.classes_[0])
            raise ValueError(f"Expected y to have at least two classes, but all labels are one class, {only!r}.")
        return torch.from_numpy(codes.astype(np.int64)), Categorical(), len(self.classes_)

    def _decoder(self) -> nn.Module:
        return nn.Identity()

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, or of each label being on."""
        output = self._outputs(X)
        return probabilities(self.likelihood_, output)

    def predict_proba_given(self, X: Any, privileged: Any) -> NDArray[np.float64]:
        """Probabilities by the conditional head, for methods that have one: what this annotator would answer."""
        output = self._outputs_given(X, privileged)
        return probabilities(self.likelihood_, output)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class, or the labels that are more likely on than off."""
        p = self.predict_proba(X)
        return (p > 0.5).astype(int) if self.multi_label_ else self.classes_[p.argmax(1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class PrivilegedRegressor(RegressorMixin, PrivilegedEstimator):
    """Regressor that learns from privileged information and predicts without it.

    The parameters are those of `PrivilegedClassifier`. The target is standardised for training.

    Attributes
    ----------
    y_mean_, y_scale_ : float
        Mean and standard deviation of y.
    method_, predictor_, history_
        As of `PrivilegedClassifier`; the predictor's output is the mean of the standardised y, and for "het-tram" its
        variance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.uniform(size=(500, 1)), rng.integers(2, size=(500, 1))
    >>> y = (1 - A[:, 0]) * X[:, 0] + A[:, 0] * rng.normal(size=500)  # every other label is noise, and A says which
    >>> model = PrivilegedRegressor(method="tram", epochs=5, random_state=0).fit(X, y, privileged=A)
    >>> model.predict(X).shape
    (500,)
    """

    _target_attributes: ClassVar = ("y_mean_", "y_scale_")

    def _fit_targets(self, y: Any) -> tuple[Tensor, Likelihood, int]:
        y = column_or_1d(complete_targets(y), warn=True)
        if y.dtype.kind not in "biuf":
            for row, value in enumerate(y):
                if not isinstance(value, number_types.Real):
                    raise ValueError(f"Expected y to be numbers, but got {python(value)!r} in row {row}.")
        y = y.astype(np.float64)
        self.y_mean_ = float(y.mean())
        self.y_scale_ = float(y.std()) or 1.0
        return torch.from_numpy(((y - self.y_mean_) / self.y_scale_).astype(np.float32)), Gaussian(), 1

    def _decoder(self) -> nn.Module:
        return Affine(self.y_scale_, self.y_mean_)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Expected y."""
        return self._real(self._outputs(X))

    def predict_given(self, X: Any, privileged: Any) -> NDArray[np.float64]:
        """Expected y by the conditional head, for methods that have one."""
        return self._real(self._outputs_given(X, privileged))

    def _real(self, output: Tensor) -> NDArray[np.float64]:
        return self.likelihood_.mean(output).double().numpy() * self.y_scale_ + self.y_mean_


def fit_together(models: Sequence[PrivilegedEstimator], sets: Sequence[Mapping[str, Any]]) -> None:
    """Fit estimators that differ in their seeds and data, together where that is possible.

    Parameters
    ----------
    models : sequence of estimators
        Equal but for `random_state`; they train on one device and keep no checkpoint.
    sets : sequence of mapping
        The arguments of `fit` for each: X, y, privileged and example.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> digits = load_digits_annotated()
    >>> one = {"X": digits.X_train, "y": digits.y_train, "privileged": digits.privileged}
    >>> models = [PrivilegedClassifier(epochs=1, random_state=seed) for seed in range(3)]
    >>> fit_together(models, [one] * 3)
    >>> models[2].predict(digits.X_test).shape
    (500,)
    """
    first = models[0]
    for name in ("fabric", "checkpoint"):
        if getattr(first, name) is not None:
            raise ValueError(f"Expected `{name}` to be None for models that train together.")
    prepared = [
        model._prepare(**{"privileged": None, "example": None, **one}) for model, one in zip(models, sets, strict=True)
    ]
    networks, data, held_out, settings, seeds = zip(*prepared, strict=True)
    histories = fit_seeds(
        networks,
        data,
        settings[0],
        validation=held_out,
        seeds=seeds,
        device=first.device,
        progress=bool(first.verbose),
    )
    for model, history in zip(models, histories, strict=True):
        model._finish(history)


def given(method: methods.Conditional, random: int, batch: Batch) -> Tensor:
    """Conditional output for labels that training did not see: their random features are zero."""
    return method.given(batch._replace(a=F.pad(batch.a, (0, random))))


def probabilities(likelihood: Likelihood, output: Tensor) -> NDArray[np.float64]:
    """Probabilities in double precision, so that they sum to one as scikit-learn wants."""
    return likelihood.mean(output.double()).numpy()


def width_of(trunk: nn.Module, x: Tensor) -> int:
    """Find the width of the features that a trunk makes."""
    try:
        shape = over_examples(trunk, x[:1]).shape
    except RuntimeError as error:
        got = f"shape {list(x[:1].shape)} and {x.dtype}"
        raise ValueError(f"Expected `trunk` to take a row of X of {got}, but it says: {error}") from error
    if len(shape) != 2:
        raise ValueError(f"Expected `trunk` to map a row of X to features [1, width], but got shape {list(shape)}.")
    return shape[1]
