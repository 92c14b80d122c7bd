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
from lupi._internal.devices import pick_device, seeded
from lupi._internal.sparse_rows import CodedRows
from lupi.data import Annotations, Batch, SparseRows
from lupi.estimators import fit_arguments
from lupi.estimators.fit_arguments import LabelledRows
from lupi.estimators.folder import save_model_folder
from lupi.estimators.onnx_export import export_onnx
from lupi.estimators.packing import pack_model, pack_state, unpack_state
from lupi.estimators.targets import Target
from lupi.methods.ensemble import Ensemble
from lupi.nn import MLP, Parts
from lupi.nn.inference import ROWS_AT_ONCE, measure_width, over_annotations, over_examples, take_first
from lupi.nn.pairwise import check_flips
from lupi.settings import Settings, choose_batch_size
from lupi.tabular.encoding import TableEncoder
from lupi.tabular.frames import Frame, as_frame, as_pandas, by_column
from lupi.tabular.recognizing import PYTHON_ADVICE, check_kinds, recognize_inputs, recognize_privileged
from lupi.tabular.values import code_categories
from lupi.training import fit, fit_seeds

Trunk = nn.Module | Callable[[], nn.Module]
MethodMaker = Callable[..., methods.Method]
OF_FIT = ("fabric", "checkpoint", "callbacks")
"""Arguments of `lupi.training.fit` that `training` may have."""
VALIDATION_FRACTION = 0.1
"""Fraction of the examples to hold out by default, if training may stop early."""


@dataclass(eq=False, repr=False)
class PrivilegedEstimator(BaseEstimator, ABC):
    """Base of `PrivilegedClassifier` and `PrivilegedRegressor`."""

    __metadata_request__fit: ClassVar[dict[str, bool]]
    __metadata_request__fit = dict.fromkeys(("privileged", "example", "sample_weight", "gold"), True)

    method: str | MethodMaker = "auto"
    _: KW_ONLY
    method_options: Mapping[str, Any] | None = None
    members: int = 1
    kind: Mapping[str, str] | None = None
    trunk: Trunk | None = None
    hidden: Sequence[int] = (64, 64)
    tower: Sequence[int] = (64, 64)
    annotator: str | int | None = None
    trust: Mapping[Any, float] | None = None
    predicts: str = "truth"
    epochs: int = 50
    batch_size: int | None = None
    learning_rate: float = 1e-3
    l2: float = 0.0
    patience: int | None = None
    training: Mapping[str, Any] | None = None
    device: str = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    @abstractmethod
    def _make_target(self, y: Any, names: Sequence[Any] | None) -> Target:
        """Return what y means; `names` are its columns."""

    def _weigh(self, y: Tensor) -> NDArray[np.float64] | None:  # noqa: ARG002 - classifiers do
        """Return the weight of each label, or None."""
        return None

    @property
    def _codes_classes(self) -> bool:
        """Whether labels are classes without an order, among which −1 may mean that there is no label."""
        return is_classifier(self) and getattr(self, "scale", "nominal") == "nominal"

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        privileged: Any = None,
        example: Any = None,
        sample_weight: Any = None,
        gold: Any = None,
    ) -> Self:
        """Train on annotations."""
        data, held_out, settings, seed = self._prepare(X, y, privileged, example, sample_weight, gold)
        self.history_ = fit(
            self.method_,
            data,
            settings,
            validation=held_out,
            seed=seed,
            device=pick_device(self.device),
            progress=bool(self.verbose),
            **self._options(OF_FIT),
        )
        self._finish(data)
        return self

    def _finish(self, data: Annotations) -> None:
        """Make the predictor of a trained network, unless it predicts NaN or infinity for training rows."""
        predictor = self.method_.predictor().eval()
        some = torch.arange(min(ROWS_AT_ONCE, data.examples))
        output = self.target_.decode(over_examples(predictor, data.x, rows=some).cpu().double())
        if not bool(output.isfinite().all()):
            raise FloatingPointError(
                "Expected finite predictions, but the trained network predicts NaN or infinity for rows that it was "
                "trained on: a lower `learning_rate` may help."
            )
        self.predictor_ = predictor

    def _prepare(
        self, X: Any, y: Any, privileged: Any = None, example: Any = None, sample_weight: Any = None, gold: Any = None
    ) -> tuple[Annotations, Annotations | None, Settings, int]:
        """Check and encode all arguments, build the network, and return how to train it.

        Returns the annotations to train on, those held out if training may stop early, the settings and the seed.
        """
        self._check_parameters()
        for name in ("predictor_", "_mixture"):  # so that a fit that fails leaves no model
            self.__dict__.pop(name, None)
        if gold is not None and self.predicts == "labels":
            raise ValueError("Expected `gold` to be None with predicts='labels', but got true labels, not answers.")
        X, privileged = by_column(X), by_column(privileged)
        fit_arguments.check_index(X, y=y, privileged=privileged, example=example)
        inputs = self._read_inputs(X, reset=True)
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        names = getattr(as_pandas(y), "columns", None)
        rows = fit_arguments.select_labelled(
            inputs,
            y,
            privileged=None if privileged is None else as_frame(privileged),
            example=example,
            sample_weight=sample_weight,
            classes=self._codes_classes,
        )
        seed = int(check_random_state(self.random_state).randint(2**31))
        fabric = self._options(OF_FIT).get("fabric")
        if fabric is not None:
            seed = fabric.broadcast(seed)  # all processes take the seed of the first
        data = self._annotate(rows, names, gold)
        self._build_network(data.x, seed)
        settings, held_out = self._check_parameters(len(data)), None
        forms_consensus = self.method_.predicts_truth and settings.stops_on_consensus
        if self.method_.stops_itself:
            settings = replace(settings, patience=None)
        elif self.patience is not None:
            fraction = (self.training or {}).get("validation_fraction", VALIDATION_FRACTION)
            data, held_out = fit_arguments.hold_out(data, fraction, seed)
        if self.trust and (self.predicts == "labels" or not (self.method_.models_annotators or forms_consensus)):
            reason = "predicts='labels'" if self.predicts == "labels" else f"Method {self.method!r}"
            warnings.warn(f"{reason} has no model of annotators: `trust` has no effect.", stacklevel=3)
        return data, held_out, settings, seed

    def _annotate(self, rows: LabelledRows, names: Any, gold: Any) -> Annotations:
        """Learn the target and the encodings of columns, and encode the rows."""
        inputs, privileged = rows.inputs, rows.privileged
        kinds, privileged_kinds = self._recognize(inputs, privileged)
        self.target_ = self._make_target(rows.y, names)
        y = self.target_.code(rows.y, "y")
        by_class = self._weigh(y)
        weight = by_class if rows.weight is None else rows.weight if by_class is None else rows.weight * by_class
        row = np.arange(inputs.shape[0])
        if rows.example is not None:
            inputs, row = fit_arguments.find_examples(rows.example, inputs)
        self.privileged_encoder_ = None
        if privileged is not None:
            encoder = TableEncoder(privileged_kinds, privileged=True, device=self.device)
            self.privileged_encoder_ = encoder.fit(privileged)
        elif not isinstance(self.method, str) or methods.kind(self.method).needs_privileged:
            warnings.warn(
                f"{type(self).__name__}.fit got no `privileged` information: method {self.method!r} trains "
                "without it, as if it were all zeros.",
                stacklevel=4,
            )
        a = self._encode_privileged(privileged, len(row))
        who = fit_arguments.find_annotators(privileged, self.annotator, privileged_kinds)
        trust = None if self.trust is None else fit_arguments.check_trust(self.trust, who)
        self.input_encoder_ = None
        if self.trunk is None:
            self.input_encoder_ = TableEncoder(kinds, device=self.device).fit(inputs)
        x = self._encode_inputs(inputs)
        self.widths_ = {"inputs": x.shape[1], "privileged": a.shape[1], "outputs": self.target_.outputs}
        annotator = None if who is None else code_categories(who)
        self.widths_["annotators"] = 1 if annotator is None else int(annotator.max()) + 1
        data = Annotations(
            x,
            torch.from_numpy(row),
            a,
            y,
            None if annotator is None else torch.from_numpy(annotator),
            None if weight is None else torch.from_numpy(weight / weight.mean()).float(),
            trust=trust,
        )
        if gold is None:
            return data
        classes = getattr(self, "classes_", None)
        true = fit_arguments.read_gold(gold, rows.kept, row, lambda labels: self.target_.code(labels, "gold"), classes)
        return replace(data, gold=true)

    def _recognize(self, inputs: Any, privileged: Frame | None) -> tuple[dict[str, str], dict[str, str]]:
        """Return the kinds of input and of privileged columns; warn of other notations."""
        chosen = {str(name): kind for name, kind in (self.kind or {}).items()}
        inputs = pd.DataFrame() if self.trunk is not None else inputs
        privileged = pd.DataFrame() if privileged is None else privileged
        check_kinds(chosen, [*map(str, inputs.columns), *map(str, privileged.columns)], "X or `privileged`")
        kinds, notes = recognize_inputs(inputs, chosen, PYTHON_ADVICE)
        named = fit_arguments.name_annotator(privileged, self.annotator) if len(privileged.columns) else None
        privileged_kinds, more = recognize_privileged(privileged, chosen, PYTHON_ADVICE, named)
        for note in (*notes, *more):
            warnings.warn(note, stacklevel=5)
        return kinds, privileged_kinds

    def _build_network(self, x: Any, seed: int) -> None:
        """Build the network."""
        with seeded(seed, pick_device(self.device)):
            trunk = self._make_trunk()
            self.widths_ |= {"features": measure_width(trunk, x), "odd": int(getattr(trunk, "odd", False))}
        with seeded(seed, pick_device(self.device)):
            self.method_: methods.Method = self._build()
            if self.widths_["odd"]:
                check_flips(self.method_.predictor(), self.target_.likelihood, take_first(x, ROWS_AT_ONCE))

    def _check_parameters(self, annotations: int = 0) -> Settings:
        """Check the parameters before looking at data, and return the settings of training on some annotations."""
        if not callable(self.method):
            methods.kind(self.method)
        if not (self.trunk is None or callable(self.trunk)):
            raise ValueError(f"Expected `trunk` to be a module or a callable that makes one, but got {self.trunk!r}.")
        for name in ("method_options", "training", "kind"):
            if not isinstance(options := getattr(self, name), Mapping | None):
                raise ValueError(f"Expected `{name}` to be a dict, but got {options!r}.")
        fit_arguments.check_predicts(self.predicts, self.method)
        pick_device(self.device)
        fit_arguments.check_widths("hidden", self.hidden)
        fit_arguments.check_widths("tower", self.tower, count=2)
        check_integer("members", self.members, 1)
        parameters, options = self.get_params(deep=False), dict(self.training or {})
        if self.batch_size is None:
            parameters["batch_size"] = choose_batch_size(annotations)
        names = [field.name for field in fields(Settings)]
        known = [name for name in (*names, *OF_FIT, "validation_fraction") if name not in parameters]
        for name in options:
            if name not in known:
                raise ValueError(f"Expected `training` to have options among {', '.join(known)}, but got {name!r}.")
        callbacks = options.get("callbacks")
        if not (isinstance(callbacks, Sequence | None) and all(map(callable, callbacks or ()))):
            raise ValueError(f"Expected `callbacks` to be a list of callables, but got {callbacks!r}.")
        check_number("validation_fraction", options.get("validation_fraction", VALIDATION_FRACTION), maximum=1)
        given = {name: value for name, value in parameters.items() if name in names}
        return Settings(**given, **self._options(names))

    def _options(self, names: Sequence[str]) -> dict[str, Any]:
        """Return those of the options in `training` that have the given names, without None."""
        return {name: value for name, value in (self.training or {}).items() if name in names and value is not None}

    def _read_inputs(self, X: Any, *, reset: bool) -> Any:
        """Return X as a frame or, for a trunk of the user's own, as an array, with the columns of training."""
        X = by_column(X) if self.trunk is None else as_pandas(X)
        if isinstance(X, Tensor):
            X = (X.float() if X.is_floating_point() else X).numpy(force=True)
        if self.trunk is None:
            if isinstance(X, Frame):
                named = X if isinstance(X, pd.DataFrame) else pd.DataFrame(columns=X.columns)
                validate_data(self, named, reset=reset, skip_check_array=True)
            else:
                X = validate_data(self, X, reset=reset, ensure_all_finite=False)
                if not reset and self.input_encoder_ is not None and self.input_encoder_.takes_matrix(X):
                    return X
            return as_frame(X, "x", "X")
        X = validate_data(self, X, reset=reset, ensure_all_finite=False, allow_nd=True)
        if not (finite := np.isfinite(X).reshape(len(X), -1).all(axis=1)).all():
            raise ValueError(f"Input X contains NaN or infinity in row {finite.argmin()}.")
        return X

    def _encode_inputs(self, inputs: Any) -> Tensor | CodedRows:
        if self.input_encoder_ is not None:
            return self.input_encoder_.encode_frame(inputs)
        x = torch.from_numpy(np.require(np.ascontiguousarray(inputs), requirements="W"))  # torch takes no other memory
        return x.float() if x.is_floating_point() else x

    def _encode_privileged(self, privileged: Any, n: int) -> Tensor | SparseRows:
        if self.privileged_encoder_ is None:
            return torch.zeros(n, 1)
        rows = self.privileged_encoder_.encode(privileged)
        assert isinstance(rows, CodedRows)
        fit_arguments.check_length("privileged", rows.shape[0], n)
        return rows.sparse()

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
            annotators=self.widths_.get("annotators", 1),
            outputs=self.widths_["outputs"],
            likelihood=self.target_.likelihood,
            tower_widths=(first, second),
            predicts=self.predicts,
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
        """Return the outputs of the network."""
        if "predictor_" not in vars(self):  # the check takes longer than a small network
            check_is_fitted(self, "predictor_")
        return self._outputs_of(self._read_inputs(X, reset=False))

    def _outputs_of(self, inputs: Any) -> Tensor:
        """Return the outputs for inputs that have been read, in double precision so that probabilities sum to one."""
        return over_examples(self.predictor_, self._encode_inputs(inputs)).cpu().double()

    def _predict(self, X: Any) -> NDArray[np.float64]:
        """Return the expected y."""
        return self._decode(self._outputs(X))

    def _predict_frame(self, frame: Frame, names: Sequence[Any] | None, start: int) -> NDArray[np.float64]:
        """Return the expected y of a table with the columns of training, which nobody has to check again.

        `names` are those of the classes or labels in messages, and `start` is the number of the first row.
        """
        return self._decode(self._outputs_of(as_frame(frame, "x", "X")), names, start)

    def _decode(self, output: Tensor, names: Sequence[Any] | None = None, start: int = 0) -> NDArray[np.float64]:
        """Return the expected y, given outputs of the network."""
        return self._check_finite(self.target_.decode(output).numpy(), names, start)

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
        fit_arguments.check_index(X, privileged=privileged)
        x = self._encode_inputs(self._read_inputs(X, reset=False))
        n = x.shape[0]
        data = Annotations(x, torch.arange(n), self._encode_privileged(privileged, n), torch.zeros(n))

        def conditional(batch: Batch) -> Tensor:
            a = F.pad(batch.a, (0, method.random))  # no random features for new rows
            return method.conditional_output(batch._replace(a=a))

        return self._decode(over_annotations(method, conditional, data).cpu().double())

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return pack_state(self, state) if "predictor_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        unpack_state(self)

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
        """Write the model as an ONNX file, which onnxruntime runs without `lupi` and torch. Needs the extra `export`.

        A model of a table has one input per column: numbers and booleans are float64 with NaN for missing ones, vectors
        are float64 [rows, width], and categories, texts and dates in strings are strings, empty where missing. A model
        of an array has the input `x`, float64 [rows, columns]; with a trunk of your own, `x` is what that takes. The
        outputs are `label` and `probabilities`, or `prediction` for regression. The metadata have `classes`, `inputs`
        and `versions` in JSON. The file is compared with the model before it is moved into place, on rows that are
        drawn or on `X`.
        """
        check_is_fitted(self, "predictor_")
        if X is None and self.input_encoder_ is None:
            raise ValueError("Expected `X` to be a few inputs, since the trunk is your own, but got None.")
        export_onnx(self, path, X=X)


def fit_together(models: Sequence[PrivilegedEstimator], sets: Sequence[Mapping[str, Any]]) -> None:
    """Fit estimators that differ in their seeds and data, as one stacked network where possible.

    Parameters
    ----------
    models : sequence of estimators
        Estimators that are identical except for `random_state`, on one device and without a checkpoint.
    sets : sequence of mapping
        The arguments of `fit` for each estimator: X, y, privileged, example, sample_weight and gold.

    Examples
    --------
    >>> from lupi import PrivilegedClassifier
    >>> from lupi.datasets import load_digits_annotated
    >>> digits = load_digits_annotated()
    >>> one = {"X": digits.X_train, "y": digits.y_train, "privileged": digits.privileged}
    >>> models = [PrivilegedClassifier("tram", epochs=1, random_state=seed) for seed in range(3)]
    >>> fit_together(models, [one] * 3)
    >>> models[2].predict(digits.X_test).shape
    (500,)
    """
    first = models[0]
    for name in first._options(OF_FIT):
        raise ValueError(f"Expected `{name}` to be None for models that train together.")
    prepared = [model._prepare(**one) for model, one in zip(models, sets, strict=True)]
    data, held_out, settings, seeds = zip(*prepared, strict=True)
    histories = fit_seeds(
        [model.method_ for model in models],
        data,
        settings[0],
        validation=held_out,
        seeds=seeds,
        device=pick_device(first.device),
        progress=bool(first.verbose),
    )
    for model, part, history in zip(models, data, histories, strict=True):
        model.history_ = history
        model._finish(part)
