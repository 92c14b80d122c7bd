"""A factory for the parts of networks, shared by all methods."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from torch import nn

from lupi.likelihoods import Bernoulli, Categorical, Likelihood
from lupi.nn.towers import Tower


@dataclass(frozen=True)
class Parts:
    """Make the parts of a network. Every call returns a newly initialized part.

    Parameters
    ----------
    trunk : callable
        Makes a trunk φ(x).
    features : int
        Width of φ(x).
    privileged : int
        Number of privileged features.
    outputs : int
        Number of outputs of a plain head: classes, labels, or 1 for regression.
    likelihood : Likelihood
        The likelihood of the labels.
    annotators : int
        Number of annotators, for methods that have parameters for each of them.
    tower_widths : (int, int)
        Widths of the layers of the tower. Networks that see only a have one layer of the first width.
    tower_skip : bool
        Whether the head on the tower also sees the features directly (see `lupi.nn.Tower`).
    odd : bool
        Whether φ is an odd function, as in `lupi.nn.Pairwise`. Plain heads on it then have no bias, so that they are
        odd too.

    Examples
    --------
    >>> from lupi.likelihoods import Categorical
    >>> from lupi.nn import MLP
    >>> parts = Parts(lambda: MLP(5, (8,)), features=8, privileged=3, outputs=2, likelihood=Categorical())
    >>> parts.head()
    Linear(in_features=8, out_features=2, bias=True)
    """

    trunk: Callable[[], nn.Module]
    _: KW_ONLY
    features: int
    privileged: int
    outputs: int
    likelihood: Likelihood
    annotators: int = 1
    tower_widths: tuple[int, int] = (64, 64)
    tower_skip: bool = False
    odd: bool = False

    def __post_init__(self) -> None:
        binary = isinstance(self.likelihood, Bernoulli) or (
            isinstance(self.likelihood, Categorical) and self.outputs == 2
        )
        if self.odd and not binary:
            got = f"{self.outputs} classes" if isinstance(self.likelihood, Categorical) else self.likelihood.y
            raise ValueError(f"Expected y to have two classes, since the trunk compares pairs, but got {got}.")

    def tower(self, random: int = 0) -> Tower:
        """Make a tower for privileged information followed by `random` random features."""
        return Tower(self.privileged + random, self.features, self.tower_widths, skip=self.tower_skip)

    @property
    def tower_features(self) -> int:
        """Width of the tower's output."""
        return self.tower_widths[1] + self.features * self.tower_skip

    def head(self) -> nn.Linear:
        """Make a plain head on the features."""
        return nn.Linear(self.features, self.outputs, bias=not self.odd)

    def tower_head(self) -> nn.Linear:
        """Make a plain head on the tower."""
        return nn.Linear(self.tower_features, self.outputs)
