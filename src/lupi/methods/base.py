"""The base classes of methods: a method has training losses, training stages and a predictor that ships."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from lupi.data import Annotations, Batch
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from lupi.nn import Tower


class Method(nn.Module, ABC):
    """A network with a training loss, `forward`, and a part that ships, `predictor()`."""

    uses_privileged: ClassVar[bool] = True
    """Whether training uses the privileged information a."""
    ships_privileged: ClassVar[bool] = False
    """Whether the predictor contains values of a from the training set, which matters for privacy."""
    stops_itself: ClassVar[bool] = False
    """Whether the method decides from the training set alone when to stop, without held-out annotations."""
    models_annotators: ClassVar[bool] = False
    """Whether the method has a model of the annotators, which uses known true labels and trust in annotators. Other
    methods train on the known true label of an example instead of its labels."""
    predicts_truth: ClassVar[bool] = False
    """Whether the predictor, the marginal head on the trunk, estimates the true label rather than an annotator's label.
    Early stopping then uses the consensus of the held-out labels, unless `Settings.stop_on` is "labels"."""
    takes_sparse: ClassVar[bool] = False
    """Whether `losses` accepts a sparse `batch.a`. It can if only linear layers take a as input."""
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (Categorical, Bernoulli, Gaussian)
    """The likelihoods that the method supports."""
    gradients: ClassVar[Mapping[str, tuple[str, ...]]]
    """The parts of the network that each loss trains, by name of the loss."""

    trunk: nn.Module
    marginal: nn.Module
    likelihood: Likelihood

    @abstractmethod
    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of the training loss by name: means over annotations, weighted by `batch.weight`."""

    def predictor(self) -> nn.Module:
        """Return the module that ships, a function of x alone. By default it is the marginal head on the trunk."""
        return nn.Sequential(self.trunk, self.marginal)

    def forward(self, batch: Batch) -> Tensor:
        """Return the training loss, the sum of `losses`."""
        return reduce(add, self.losses(batch).values())

    def observe(self, data: Annotations) -> None:
        """Compute statistics of the training set that gradient descent does not learn, such as the mean of a.

        `lupi.training.fit` calls this once, before the first stage. Store the result in buffers, which are saved with
        the weights.
        """

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield the training stages in order. Each is trained before the next one is requested."""
        yield Stage("train", self)

    def make_temporary(self) -> Sequence[Method]:
        """Make one network of each kind that only the stages train, such as the networks of folds."""
        return ()

    @property
    def memory(self) -> dict[str, Tensor]:
        """Tensors that later stages need from earlier ones, such as out-of-fold predictions.

        They are part of checkpoints, but not of the state dict. `lupi.training.fit` clears them at the end.
        """
        return self.__dict__.setdefault("_memory", {})  # type: ignore[no-any-return]


class Conditional(Method):
    """A method with a conditional head. By default its loss is L(y, q(y | x, a))."""

    random: int = 0
    """Number of random features that are appended to a in training; elsewhere they are zero."""

    @abstractmethod
    def conditional_output(self, batch: Batch) -> Tensor:
        """Return the output of the conditional head q(y | x, a), [annotations, ...]."""

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return L(y, q(y | x, a))."""
        return {"conditional": self.likelihood.loss(self.conditional_output(batch), batch.y, batch.weight)}


class ConditionalMethod(Conditional):
    """Learn q(y | x, a) with a tower; subclasses define how to predict without a."""

    takes_sparse: ClassVar = True
    gradients: ClassVar = {"conditional": ("trunk", "tower", "conditional")}

    def __init__(
        self, trunk: nn.Module, tower: Tower, conditional: nn.Module, *, likelihood: Likelihood = Categorical()
    ) -> None:
        super().__init__()
        self.trunk, self.tower, self.conditional = trunk, tower, conditional
        self.likelihood = likelihood

    def conditional_output(self, batch: Batch) -> Tensor:
        """Return q(y | x, a)."""
        return self.conditional(self.tower(batch.spread(self.trunk(batch.x)), batch.a))  # type: ignore[no-any-return]


class Stage(NamedTuple):
    """One stage of training: the method to train and the data to train it on.

    A stage trains parts of the method that yields it, or networks that only this stage needs; a checkpoint contains
    both. A sequence of methods, such as one per fold, is trained as independent networks, stacked where that is
    faster. `prepare` and `validate` then return one data set per network.
    """

    name: str
    """Name of the stage in the history."""
    method: Method | Sequence[Method]
    """The method, or the methods, whose loss is minimized."""
    prepare: Callable[[Annotations], Any] = lambda data: data
    """Makes the training set of the stage from the full training set."""
    hold_out: Callable[[Annotations], Any] | None = None
    """Makes the held-out annotations of the stage from the user's held-out annotations; `prepare` by default."""
    validate: Callable[[Annotations], Any] | None = None
    """Makes the held-out annotations of the stage from the training set instead."""
    measure: Callable[[Method, Annotations], dict[str, float]] | None = None
    """Computes the held-out losses of a method; by default the mean of the method's own losses."""
    adapt: Callable[[Any], Any] = lambda settings: settings
    """Adapts the training settings to this stage."""
    finish: Callable[[Annotations], None] | None = None
    """Runs on the training set after the stage, to store what later stages need in `memory`."""


def join_stages(stages: Sequence[Stage], split: Callable[[Any], Sequence[Annotations]]) -> Stage:
    """Join the same stage of several methods into one."""

    def join(functions: Sequence[Callable[[Annotations], Any]]) -> Callable[[Any], list[Any]]:
        def prepare(data: Any) -> list[Any]:
            made = [function(part) for function, part in zip(functions, split(data), strict=True)]
            return [part for own in made for part in ([own] if isinstance(own, Annotations) else own)]

        return prepare

    def finish(data: Any) -> None:
        for stage, part in zip(stages, split(data), strict=True):
            if stage.finish is not None:
                stage.finish(part)

    validate = [stage.validate for stage in stages if stage.validate is not None]
    return Stage(
        stages[0].name,
        [method for stage in stages for method in list_methods(stage)],
        join([stage.prepare for stage in stages]),
        join([stage.hold_out or stage.prepare for stage in stages]),
        validate=join(validate) if validate else None,
        measure=stages[0].measure,
        adapt=stages[0].adapt,
        finish=finish,
    )


def list_methods(stage: Stage) -> list[Method]:
    """Return the methods that a stage trains."""
    return [stage.method] if isinstance(stage.method, Method) else list(stage.method)
