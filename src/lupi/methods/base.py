"""What a method is: losses to minimise, stages to train in, and a predictor that ships."""

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
    """A network with its training loss, `forward`, and the part of it that ships, `predictor()`."""

    uses_privileged: ClassVar[bool] = True
    """Whether training uses a."""
    ships_privileged: ClassVar[bool] = False
    """Whether the predictor contains values of a from the training set: a privacy fact."""
    stops_itself: ClassVar[bool] = False
    """Whether the method decides how long to train from the training set, and needs no held-out annotations."""
    models_annotators: ClassVar[bool] = False
    """Whether the method has a model of the annotators, which learns from true labels that are known and from trust in
    annotators. Others are trained on a true label in place of the labels of its example."""
    predicts_truth: ClassVar[bool] = False
    """Whether the predictor, the marginal head on the trunk, estimates the true label rather than the label that an
    annotator would give. Early stopping then looks at the consensus of the held-out labels."""
    takes_sparse: ClassVar[bool] = False
    """Whether `losses` accepts a sparse `batch.a`, because linear layers are all that sees it."""
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (Categorical, Bernoulli, Gaussian)
    """The likelihoods that the method supports."""
    gradients: ClassVar[Mapping[str, tuple[str, ...]]]
    """For each loss, by name, the parts of the network that it trains."""

    trunk: nn.Module
    marginal: nn.Module
    likelihood: Likelihood

    @abstractmethod
    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of the training loss by name, each a mean over annotations weighted by `batch.weight`."""

    def predictor(self) -> nn.Module:
        """Return the module that ships, a function of x alone: by default, the marginal head on the trunk."""
        return nn.Sequential(self.trunk, self.marginal)

    def forward(self, batch: Batch) -> Tensor:
        """Return the training loss, the sum of `losses`."""
        return reduce(add, self.losses(batch).values())

    def observe(self, data: Annotations) -> None:
        """Learn from the training set what gradient steps do not, such as the mean of a.

        `lupi.training.fit` calls it once, before the first stage. Store the result in buffers, which are saved with
        the weights.
        """

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield what to train, in order; each stage is trained before the next one is requested."""
        yield Stage("train", self)

    def make_temporary(self) -> Sequence[Method]:
        """Make one network of each kind that stages train besides the method's own, such as those of folds."""
        return ()

    @property
    def memory(self) -> dict[str, Tensor]:
        """What later stages need from earlier ones, such as out-of-fold predictions.

        Checkpoints contain it; the state dict does not, and `lupi.training.fit` empties it at the end.
        """
        return self.__dict__.setdefault("_memory", {})  # type: ignore[no-any-return]


class Conditional(Method):
    """A method with a conditional head, by default trained with the loss L(y, q(y | x, a))."""

    random: int = 0
    """Number of random features that training appends to a; they are zero for other annotations."""

    @abstractmethod
    def given(self, batch: Batch) -> Tensor:
        """Return the output of the conditional head q(y | x, a), [annotations, ...]."""

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return L(y, q(y | x, a))."""
        return {"conditional": self.likelihood.loss(self.given(batch), batch.y, batch.weight)}


class ConditionalMethod(Conditional):
    """Learn q(y | x, a) with a tower; subclasses define how to predict without a.

    Parameters
    ----------
    trunk : Module
        φ(x).
    tower : Tower
        ψ(φ, a).
    conditional : Module
        Head on ψ.
    likelihood : Likelihood
        The likelihood of the labels.
    """

    takes_sparse: ClassVar = True
    gradients: ClassVar = {"conditional": ("trunk", "tower", "conditional")}

    def __init__(
        self, trunk: nn.Module, tower: Tower, conditional: nn.Module, *, likelihood: Likelihood = Categorical()
    ) -> None:
        super().__init__()
        self.trunk, self.tower, self.conditional = trunk, tower, conditional
        self.likelihood = likelihood

    def given(self, batch: Batch) -> Tensor:
        """Return q(y | x, a)."""
        return self.conditional(self.tower(batch.spread(self.trunk(batch.x)), batch.a))  # type: ignore[no-any-return]


class Stage(NamedTuple):
    """One stage of training: what to train, and the data to train it on.

    The modules of a stage are parts of the method that yields it, or networks that only this stage needs; a checkpoint
    contains both. A sequence of methods, such as one per fold, trains as independent networks, stacked where that is
    faster; `prepare` and `validate` then return one set for each.
    """

    name: str
    """Name of the stage in the history."""
    method: Method | Sequence[Method]
    """The method whose loss is minimised, or several."""
    prepare: Callable[[Annotations], Any] = lambda data: data
    """Makes the stage's training set from the training set."""
    hold_out: Callable[[Annotations], Any] | None = None
    """Makes the stage's held-out annotations from those held out for the whole training; `prepare` by default."""
    validate: Callable[[Annotations], Any] | None = None
    """Makes the stage's held-out annotations from the training set instead."""
    measure: Callable[[Method, Annotations], dict[str, float]] | None = None
    """Computes the held-out losses of a method; by default the method's own, averaged."""
    adapt: Callable[[Any], Any] = lambda settings: settings
    """Adapts the settings of training to this stage."""
    finish: Callable[[Annotations], None] | None = None
    """Runs on the training set after the stage is trained, and stores what later stages need in `memory`."""


def join_stages(stages: Sequence[Stage], split: Callable[[Any], Sequence[Annotations]]) -> Stage:
    """Join the same stage of several methods into one.

    Parameters
    ----------
    stages : sequence of Stage
        The stage of each method.
    split : callable
        From the data of the joint stage to those of each method.
    """

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
