"""The base classes of methods: a method has training losses, training stages and a predictor that ships."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple, get_origin, get_type_hints

from torch import Tensor, nn

from lupi.data import Annotations, Batch
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from lupi.nn import Tower
from lupi.settings import Settings


class Remembered:
    """An attribute of a method: a dict of tensors that a stage leaves to later ones, such as out-of-fold predictions.

    Checkpoints contain it, but not the state dict. `lupi.training.fit` clears it at the end.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, method: Method, owner: type) -> dict[str, Tensor]:
        return method.memory.setdefault(self.name, {})


class Method(nn.Module, ABC):
    """A network with a training loss, `forward`, and a part that ships, `predictor()`."""

    name: ClassVar[str] = ""
    """The name of the method in `lupi.methods.names()`."""
    title: ClassVar[str] = ""
    """The name of the method in tables."""
    uses_privileged: ClassVar[bool] = True
    """Whether training uses the privileged information a."""
    needs_privileged: ClassVar[bool] = True
    """Whether the method is of no use without privileged information."""
    ships_privileged: ClassVar[bool] = False
    """Whether the predictor contains values of a from the training set, which matters for privacy."""
    aggregates: ClassVar[bool] = False
    """Whether the method is No PI on aggregated labels, a baseline even where it uses the annotators."""
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
    by_row: ClassVar[bool] = False
    """Whether `losses` returns means, by `likelihood.loss`, of what it computes from each annotation alone. Replicas of
    linear layers then need no vmap. A subclass that overrides `losses` must state it again."""
    is_stacked: ClassVar[bool] = False
    """Whether parameters and batches have a leading dimension, that of `replicas`."""
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (Categorical, Bernoulli, Gaussian)
    """The likelihoods that the method supports."""
    gradients: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The parts of the network that each loss trains, by name of the loss."""

    consensus = Remembered()
    """Weights of the No PI network whose predictions are part of the consensus of held-out labels."""

    trunk: nn.Module
    marginal: nn.Module
    likelihood: Likelihood

    @classmethod
    def can_predict_labels(cls) -> bool:
        """Return whether the predictor can estimate how people would answer, rather than the true label."""
        return not (cls.predicts_truth or cls.aggregates)

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
    def replicas(self) -> Sequence[Method]:
        """The networks that train side by side: this one, or those that are stacked in it."""
        return [self]

    def mixture(self) -> dict[str, float]:
        """Return the weights of the methods that this one mixes, by name."""
        return {}

    @property
    def memory(self) -> dict[str, dict[str, Tensor]]:
        """What stages have left to later ones, by the name of the attribute (`Remembered`)."""
        return self.__dict__.setdefault("_memory", {})  # type: ignore[no-any-return]


def list_facts() -> list[str]:
    """List the class attributes that describe a method."""
    return [name for name, kind in get_type_hints(Method).items() if get_origin(kind) is ClassVar]


def kind_of(make: Callable[..., Method]) -> type[Method]:
    """Return the class of the methods that a function makes, its return annotation."""
    kind: type[Method] = get_type_hints(make)["return"]
    return kind


class Group(Method):
    """Several networks of one method. The facts are those of the method, except those that a subclass states."""

    def __init__(self, members: Sequence[Method]) -> None:
        super().__init__()
        self.members: Sequence[Method] = nn.ModuleList(members)  # type: ignore[assignment]
        self.likelihood = members[0].likelihood
        for fact in list_facts():
            if fact not in vars(type(self)):
                object.__setattr__(self, fact, getattr(members[0], fact))
        object.__setattr__(self, "gradients", dict.fromkeys(members[0].gradients, ("members",)))


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
    by_row: ClassVar = True
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
    faster. `prepare` and `split_validation` then return one data set per network.
    """

    name: str
    """Name of the stage in the history."""
    method: Method | Sequence[Method]
    """The method, or the methods, whose loss is minimized."""
    prepare: Callable[[Annotations], Any] = lambda data: data
    """Makes the training set of the stage from the full training set."""
    prepare_validation: Callable[[Annotations], Any] | None = None
    """Makes the held-out annotations of the stage from the user's held-out annotations; `prepare` by default."""
    split_validation: Callable[[Annotations], Any] | None = None
    """Makes the held-out annotations of the stage from the training set instead."""
    validation_losses: Callable[[Method, Annotations], dict[str, float]] | None = None
    """Computes the held-out losses of a method; by default the mean of the method's own losses."""
    adapt: Callable[[Settings], Settings] = lambda settings: settings
    """Adapts the training settings to this stage."""
    finish: Callable[[Annotations], None] | None = None
    """Runs on the training set after the stage, to store what later stages need (`Remembered`)."""


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

    split_validation = [stage.split_validation for stage in stages if stage.split_validation is not None]
    return Stage(
        stages[0].name,
        [method for stage in stages for method in list_methods(stage)],
        join([stage.prepare for stage in stages]),
        join([stage.prepare_validation or stage.prepare for stage in stages]),
        split_validation=join(split_validation) if split_validation else None,
        validation_losses=stages[0].validation_losses,
        adapt=stages[0].adapt,
        finish=finish,
    )


def list_methods(stage: Stage) -> list[Method]:
    """Return the methods that a stage trains."""
    return [stage.method] if isinstance(stage.method, Method) else list(stage.method)
