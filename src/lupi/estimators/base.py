"""The base of the estimators: checks, encoding, training and prediction."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from lupi import methods
from lupi._internal.checks import check_integer, check_number
from lupi._internal.devices import check_device
from lupi._internal.seeding import seeded
from lupi._internal.sparse_rows import CodedRows
from lupi.data import Annotations, Batch, SparseRows
from lupi.estimators import arguments
from lupi.estimators.folder import save_model_folder
from lupi.estimators.held_out import check_eval_set, encode_eval_set, hold_out, stops_by_consensus
from lupi.estimators.onnx_export import Deployed, check_numeric, draw_inputs, export_onnx
from lupi.estimators.rows import LabelledRows, select_labelled
from lupi.estimators.storing import pack_model
from lupi.estimators.truth import check_trust, read_gold
from lupi.likelihoods import Likelihood
from lupi.methods.ensemble import Ensemble
from lupi.nn import MLP, Parts
from lupi.nn.inference import ROWS_AT_ONCE, measure_width, over_annotations, over_examples, take_first
from lupi.nn.pairwise import check_flips
from lupi.settings import Settings, choose_batch_size
from lupi.tabular.containers import as_pandas
from lupi.tabular.encoding import InputEncoder, PrivilegedEncoder
from lupi.tabular.folds import take_rows
from lupi.tabular.frames import as_frame, check_inputs
from lupi.tabular.kinds.vector import expand_vectors
from lupi.tabular.lazy import Frame, by_column
from lupi.training import Checkpoint, fit

Trunk = nn.Module | Callable[[], nn.Module]
MethodMaker = Callable[..., methods.Method]


@dataclass(eq=False, repr=False)
class PrivilegedEstimator(BaseEstimator, ABC):
    """Base of `PrivilegedClassifier` and `PrivilegedRegressor`."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "privileged": True,
        "example": True,
        "sample_weight": True,
        "gold": True,
    }

    method: str | MethodMaker = "auto"
    _: KW_ONLY
    method_options: Mapping[str, Any] | None = None
    members: int = 1
    kind: Mapping[str, str] | None = None
    trunk: Trunk | None = None
    hidden: Sequence[int] = (64, 64)
    tower: Sequence[int] = (64, 64)
    tower_skip: bool = False
    numbers: str | Mapping[str, str] = "quantile"
    quantiles: int = 10
    annotator: str | int | None = None
    trust: Mapping[Any, float] | None = None
    epochs: int = 50
    batch_size: int | None = None
    learning_rate: float = 1e-3
    learning_rates: Mapping[str, float] | None = None
    l2: float = 0.0
    patience: int | None = None
    validation_fraction: float = 0.1
    training: Mapping[str, Any] | None = None
    device: str = "cpu"
    fabric: Any = None
    checkpoint: Checkpoint | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False
    callbacks: Sequence[Callable[[dict[str, Any], methods.Method], Any]] | None = None

    @abstractmethod
    def _fit_targets(self, y: Any, names: Sequence[Any] | None) -> tuple[Tensor, Likelihood, int]:
        """Check y, and return it as a tensor with its likelihood and the number of outputs; `names` its columns."""

    @abstractmethod
    def _code_targets(self, y: NDArray[Any], name: str) -> Tensor:
        """Return other labels as a tensor, as `_fit_targets` does for y; `name` is their argument in messages."""

    def _weigh_classes(self, y: Tensor) -> NDArray[np.float64] | None:  # noqa: ARG002 - classifiers do
        """Return the weight of each label's class, or None."""
        return None

    @abstractmethod
    def _decode(self, output: Tensor) -> Tensor:
        """Return the expected y of an output of the network, on the scale of the user's y."""

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        privileged: Any = None,
        example: Any = None,
        sample_weight: Any = None,
        gold: Any = None,
        eval_set: Any = None,
    ) -> Self:
        """Train on annotations."""
        data, held_out, settings, seed = self._prepare(X, y, privileged, example, sample_weight, gold, eval_set)
        self.history_ = fit(
            self.method_,
            data,
            settings,
            validation=held_out,
            seed=seed,
            device=self.device,
            fabric=self.fabric,
            checkpoint=self.checkpoint,
            progress=bool(self.verbose),
            callbacks=self.callbacks or (),
        )
        self._finish(data)
        return self

    def _finish(self, data: Annotations) -> None:
        """Make the predictor of a trained network, unless it predicts NaN or infinity for training rows."""
        predictor = self.method_.predictor().eval()
        some = torch.arange(min(ROWS_AT_ONCE, data.examples))
        output = self._decode(over_examples(predictor, data.x, rows=some).cpu().double())
        if not bool(output.isfinite().all()):
            raise FloatingPointError(
                "Expected finite predictions, but the trained network predicts NaN or infinity for rows that it was "
                "trained on: a lower `learning_rate` may help."
            )
        self.predictor_ = predictor

    def _prepare(
        self,
        X: Any,
        y: Any,
        privileged: Any = None,
        example: Any = None,
        sample_weight: Any = None,
        gold: Any = None,
        eval_set: Any = None,
    ) -> tuple[Annotations, Annotations | None, Settings, int]:
        """Check and encode all arguments, build the network, and return how to train it.

        Returns the annotations to train on, those held out if training may stop early, the settings and the seed.
        """
        self._check_parameters()
        for name in ("predictor_", "_mixture"):  # so that a fit that fails leaves no model
            self.__dict__.pop(name, None)
        X, privileged = by_column(X), by_column(privileged)
        arguments.check_index(X, y=y, privileged=privileged, example=example)
        inputs = self._check_inputs(X, reset=True)
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        names = getattr(as_pandas(y), "columns", None)
        rows = select_labelled(
            inputs,
            y,
            privileged=privileged,
            example=example,
            sample_weight=sample_weight,
            classes=is_classifier(self),
        )
        seed = int(check_random_state(self.random_state).randint(2**31))
        if self.fabric is not None:
            seed = self.fabric.broadcast(seed)  # all processes take the seed of the first
        data = self._annotate(rows, names, gold)
        held_out = None if eval_set is None else encode_eval_set(self, eval_set, data.a.shape[1])
        self._build_network(data.x, seed)
        settings = self._check_parameters(len(data))
        if self.method_.stops_itself:
            settings = replace(settings, patience=None)
        elif eval_set is not None:
            assert held_out is not None
            held_out = check_eval_set(self, eval_set, held_out, settings)
        elif self.patience is not None:
            data, held_out = hold_out(data, self.validation_fraction, seed)
        forms_consensus = stops_by_consensus(self.method_, settings)
        if self.trust and not (self.method_.models_annotators or forms_consensus):
            warnings.warn(f"Method {self.method!r} has no model of annotators: `trust` has no effect.", stacklevel=3)
        return data, held_out, settings, seed

    def _annotate(self, rows: LabelledRows, names: Any, gold: Any) -> Annotations:
        """Fit the encoders, and encode the rows."""
        inputs, privileged = rows.inputs, rows.privileged
        n = inputs.shape[0]
        target, self.likelihood_, outputs = self._fit_targets(rows.y, names)
        by_class = self._weigh_classes(target)
        weight = by_class if rows.weight is None else rows.weight if by_class is None else rows.weight * by_class
        row = np.arange(n)
        if rows.example is not None:
            first, row = arguments.find_examples(rows.example, inputs)
            inputs = take_rows(inputs, first)
        a = self._fit_privileged(privileged, n)
        who = arguments.find_annotators(privileged, self.annotator, self.numbers)
        trust = None
        if self.trust is not None:
            column = arguments.find_annotator_column(privileged, self.annotator, self.numbers)
            trust = check_trust(self.trust, column)
        self.input_encoder_ = None
        if self.trunk is None:
            self.input_encoder_ = InputEncoder(arguments.recognize_inputs(inputs, self.kind)).fit(inputs)
        x = self._encode_inputs(inputs)
        annotator = None if who is None else torch.from_numpy(who)
        weights = None if weight is None else torch.from_numpy(weight / weight.mean()).float()
        self.widths_: dict[str, int] = {"inputs": x.shape[1], "privileged": a.shape[1], "outputs": outputs}
        data = Annotations(x, torch.from_numpy(row), a, target, annotator, weights, trust=trust)
        if gold is None:
            return data
        classes = getattr(self, "classes_", None)
        true = read_gold(gold, rows.kept, row, lambda labels: self._code_targets(labels, "gold"), classes)
        return replace(data, gold=true)

    def _build_network(self, x: Any, seed: int) -> None:
        """Build the network."""
        with seeded(seed, torch.device(self.device)):
            trunk = self._make_trunk()
            self.widths_ |= {"features": measure_width(trunk, x), "odd": int(getattr(trunk, "odd", False))}
        with seeded(seed, torch.device(self.device)):
            self.method_: methods.Method = self._build()
            if self.widths_["odd"]:
                check_flips(self.method_.predictor(), self.likelihood_, take_first(x, ROWS_AT_ONCE))

    def _check_parameters(self, annotations: int = 0) -> Settings:
        """Check the parameters before looking at data, and return the settings of training on some annotations."""
        if not callable(self.method):
            methods.kind(self.method)
        if not (self.trunk is None or callable(self.trunk)):
            raise ValueError(f"Expected `trunk` to be a module or a callable that makes one, but got {self.trunk!r}.")
        for name in ("method_options", "training", "kind"):
            if not isinstance(options := getattr(self, name), Mapping | None):
                raise ValueError(f"Expected `{name}` to be a dict, but got {options!r}.")
        if not (isinstance(self.callbacks, Sequence | None) and all(map(callable, self.callbacks or ()))):
            raise ValueError(f"Expected `callbacks` to be a list of callables, but got {self.callbacks!r}.")
        check_device(self.device)
        arguments.check_widths("hidden", self.hidden)
        arguments.check_widths("tower", self.tower, count=2)
        parameters, options = self.get_params(deep=False), self.training or {}
        if self.batch_size is None:
            parameters["batch_size"] = choose_batch_size(annotations)
        names = [field.name for field in fields(Settings)]
        for name in options:
            if name in parameters or name not in names:
                known = ", ".join(name for name in names if name not in parameters)
                raise ValueError(f"Expected `training` to have options among {known}, but got {name!r}.")
        check_number("validation_fraction", self.validation_fraction, maximum=1)
        check_integer("members", self.members, 1)
        return Settings(**{name: value for name, value in parameters.items() if name in names}, **options)

    def _check_inputs(self, X: Any, *, reset: bool) -> NDArray[Any] | Frame:
        vectors = [name for name, kind in (self.kind or {}).items() if kind == "vector"]
        X = as_pandas(X) if vectors or self.trunk is not None else by_column(X)
        if isinstance(X, Tensor):
            X = (X.float() if X.is_floating_point() else X).numpy(force=True)
        if self.trunk is None and isinstance(X, Frame):
            if isinstance(X, pd.DataFrame):
                X = expand_vectors(X, vectors)
            named = X if isinstance(X, pd.DataFrame) else pd.DataFrame(columns=X.columns)
            validate_data(self, named, reset=reset, skip_check_array=True)
            return arguments.check_values(check_inputs(X), "input column")
        X = validate_data(self, X, reset=reset, ensure_all_finite=False, allow_nd=self.trunk is not None)
        if self.trunk is None:
            check_inputs(X)
        elif not (finite := np.isfinite(X).reshape(len(X), -1).all(axis=1)).all():
            raise ValueError(f"Input X contains NaN or infinity in row {finite.argmin()}.")
        return X  # type: ignore[no-any-return]

    def _encode_inputs(self, inputs: NDArray[Any] | Frame) -> Tensor | CodedRows:
        encoder = self.input_encoder_
        return self._own_inputs(inputs) if encoder is None else encoder.encode(inputs)

    def _own_inputs(self, inputs: Any) -> Tensor:
        """Return the inputs of a trunk of the user's own."""
        x = torch.from_numpy(np.require(np.ascontiguousarray(inputs), requirements="W"))  # torch takes no other memory
        return x.float() if x.is_floating_point() else x

    def _fit_privileged(self, privileged: Any, n: int) -> Tensor | SparseRows:
        self.privileged_encoder_: PrivilegedEncoder | None = None
        if privileged is not None:
            frame = arguments.check_values(as_frame(privileged), "privileged column")
            numbers = arguments.choose_numbers(frame, self.numbers, self.annotator)
            self.privileged_encoder_ = PrivilegedEncoder(numbers, self.quantiles).fit(frame)
        elif not isinstance(self.method, str) or methods.kind(self.method).needs_privileged:
            warnings.warn(
                f"{type(self).__name__}.fit got no `privileged` information: method {self.method!r} trains "
                "without it, as if it were all zeros.",
                stacklevel=5,
            )
        return self._encode_privileged(privileged, n)

    def _encode_privileged(self, privileged: Any, n: int) -> Tensor | SparseRows:
        if self.privileged_encoder_ is None:
            return torch.zeros(n, 1)
        a = self.privileged_encoder_.encode(privileged).sparse()
        arguments.check_length("privileged", a.shape[0], n)
        return a

    def _make_trunk(self) -> nn.Module:
        if self.trunk is None:
            return MLP(self.widths_["inputs"], tuple(map(int, self.hidden)))
        return copy.deepcopy(self.trunk) if isinstance(self.trunk, nn.Module) else self.trunk()

    def _build(self) -> methods.Method:
        first, second = map(int, self.tower)
        parts = Parts(
            self._make_trunk,
            features=self.widths_["features"],
            privileged=self.widths_.get("privileged", 1),
            outputs=self.widths_["outputs"],
            likelihood=self.likelihood_,
            tower_widths=(first, second),
            tower_skip=self.tower_skip,
            odd=bool(self.widths_.get("odd")),
        )
        networks = [self._build_one(parts) for _ in range(self.members)]
        return networks[0] if self.members == 1 else Ensemble(networks)

    def _build_one(self, parts: Parts) -> methods.Method:
        if isinstance(self.method, str):
            return methods.build(self.method, parts, **(self.method_options or {}))
        method = self.method(parts, **(self.method_options or {}))
        if not isinstance(method, methods.Method):
            raise ValueError(f"Expected `method` to make a lupi.methods.Method, but got {type(method).__name__}.")
        return method

    @property
    def n_iter_(self) -> int:
        """Number of epochs that were trained, over all stages of the method."""
        return len(self.history_)

    @property
    def mixture_(self) -> dict[str, float]:
        """Weights of the methods that the method has mixed."""
        check_is_fitted(self, "predictor_")
        if getattr(self, "_mixture", None) is not None:  # it was loaded without the whole network
            return dict(self._mixture)
        mixture = self.method_.mixture() if hasattr(self, "method_") else {}
        if not mixture:
            raise AttributeError(f"Expected a method that mixes others, such as 'auto', but got {self.method!r}.")
        return mixture

    def _outputs(self, X: Any) -> Tensor:
        """Return the outputs of the network; in double precision probabilities sum to one as scikit-learn expects."""
        check_is_fitted(self, "predictor_")
        x = self._encode_inputs(self._check_inputs(X, reset=False))
        return over_examples(self.predictor_, x).cpu().double()

    def _predict(self, X: Any, *, names: Sequence[Any] | None = None, start: int = 0) -> NDArray[np.float64]:
        """Return the expected y.

        `names` are those of the classes or labels in messages, and `start` is the number of the first row.
        """
        return self._check_finite(self._decode(self._outputs(X)).numpy(), names, start)

    def _check_finite(
        self, expected: NDArray[np.float64], names: Sequence[Any] | None = None, start: int = 0
    ) -> NDArray[np.float64]:
        """Return predictions; raise an error that names the row and class of one that is NaN or infinite."""
        if np.isfinite(expected).all():
            return expected
        row, *column = np.argwhere(~np.isfinite(expected))[0]
        names = getattr(self, "classes_", None) if names is None else names
        what = "prediction" if names is None or not column else f"probability of {str(names[column[0]])!r}"
        got = expected[(row, *column)]
        raise FloatingPointError(f"Expected predictions to be finite, but the {what} is {got} in row {start + row}.")

    def _predict_given(self, X: Any, privileged: Any) -> NDArray[np.float64]:
        """Return the expected y of the conditional head."""
        check_is_fitted(self, "predictor_")
        if not hasattr(self, "method_"):
            raise ValueError(
                "Expected a model with its conditional head, but this one was saved without privileged information."
            )
        method = self.method_
        if not isinstance(method, methods.Conditional):
            raise ValueError(
                f"Expected a method with a conditional head, such as 'tram', but {self.method!r} has none."
            )
        if self.privileged_encoder_ is None:
            raise ValueError("Expected a model that was fitted with `privileged`, but this one was not.")
        arguments.check_index(X, privileged=privileged)
        x = self._encode_inputs(self._check_inputs(X, reset=False))
        n = x.shape[0]
        data = Annotations(x, torch.arange(n), self._encode_privileged(privileged, n), torch.zeros(n))

        def conditional(batch: Batch) -> Tensor:
            a = F.pad(batch.a, (0, method.random))  # no random features for new rows
            return method.conditional_output(batch._replace(a=a))

        return self._check_finite(self._decode(over_annotations(method, conditional, data).cpu().double()).numpy())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.trunk is None
        return tags

    def save(self, path: str | Path, *, privileged: bool = True) -> None:
        """Write the model to a folder that `lupi.load` reads.

        The folder holds no pickle, and reading it runs no code from it. It holds only the weights of a trunk or method
        of your own; pass that trunk or method to `lupi.load` again. It holds neither callbacks nor functions in
        `training`, such as an optimizer of your own.
        """
        save_model_folder(path, pack_model(self, privileged=privileged))

    def export_onnx(self, path: str | Path, *, X: Any = None) -> None:
        """Write the predictor as an ONNX file, from unscaled inputs `x` to probabilities or real numbers `y`.

        Both are of type float32, unless a trunk of your own takes integers. The file is compared with torch before it
        is moved into place. Needs the extra `export`.
        """
        check_is_fitted(self, "predictor_")
        encoder = self.input_encoder_
        if encoder is not None:
            check_numeric(encoder)
        if X is not None:
            X = self._check_inputs(X, reset=False)
        elif encoder is None:
            raise ValueError("Expected `X` to be a few inputs, since the trunk is your own, but got None.")
        else:
            X = draw_inputs(encoder, self.n_features_in_)
        x = self._own_inputs(X) if encoder is None else torch.from_numpy(np.array(X, dtype=np.float32))
        export_onnx(Deployed(copy.deepcopy(self.predictor_).cpu(), self._decode, encoder), x, path)
