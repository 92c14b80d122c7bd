"""What a method is: losses to train by, stages to train in, and a predictor that ships."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from lupi.data import Annotations, Batch
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood


class Method(nn.Module, ABC):
    """A network with its training loss, `forward`, and the part of it that ships, `predictor()`."""

    uses_privileged: ClassVar[bool] = True
    """Whether training looks at a."""
    ships_privileged: ClassVar[bool] = False
    """Whether the predictor carries values of a from the training set: a privacy fact."""
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (Categorical, Bernoulli, Gaussian)
    """The likelihoods that the method makes sense for."""
    gradients: ClassVar[Mapping[str, tuple[str, ...]]]
    """For each loss, by its name, the parts of the network that it trains."""

    likelihood: Likelihood

    @abstractmethod
    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Compute the terms of the training loss by name, each a mean over the annotations of the batch."""

    @abstractmethod
    def predictor(self) -> nn.Module:
        """Return the module of x alone that ships."""

    def forward(self, batch: Batch) -> Tensor:
        """Training loss: the sum of `losses`."""
        return reduce(add, self.losses(batch).values())

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002 - other methods look at the data
        """Yield what to train, one after the other; the loop resumes here when a stage is trained."""
        yield Stage("train", self)


class Conditional(ABC):
    """A method that has a conditional head."""

    random: int = 0
    """Number of random features that training appends to a; a new label has zeros there."""

    @abstractmethod
    def given(self, batch: Batch) -> Tensor:
        """Output of the conditional head q(y | x, a), [annotations, ...]."""


class Stage(NamedTuple):
    """A method to train by its loss, and what it trains on, made from the training set.

    The modules of a stage are parts of the method that yields it, so that a checkpoint of that method holds them.
    """

    name: str
    method: Method
    prepare: Callable[[Annotations], Annotations] = lambda data: data
    hold_out: Callable[[Annotations], Annotations] | None = None
    """What to do to held-out annotations, where it is not the same."""
