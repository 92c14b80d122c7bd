"""Auto: cross-fit several methods, mix them, denoise the labels with the mixture, and train one network on the result.

Where inputs are vectors and labels are classes, logistic regressions of the true label are part of the mixture (see
`lupi.methods.linear`). The mixture weights maximize the likelihood of the labels under the model of the annotators, on
examples that the networks were not trained on. They do not show whether privileged information helped: a method that
sees useless information may predict as well as No PI, and share its weight.

References
----------
Wolpert, "Stacked generalization" (Neural Networks 1992).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from lupi.data import Annotations, Batch
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from lupi.methods.base import Method, Stage, kind_of
from lupi.methods.cross_fitting import CrossFitting, assign_folds
from lupi.methods.ensemble import Mixture
from lupi.methods.imputation import mean_imputation
from lupi.methods.label_posterior import LabelPosterior
from lupi.methods.no_pi import no_pi
from lupi.methods.pi_dual import pi_dual
from lupi.methods.tram import tram
from lupi.methods.transition import pi_transition
from lupi.nn import Parts

MEMBERS = (no_pi, mean_imputation, pi_transition)
"""The methods that "auto" mixes by default."""
POSSIBLE = (no_pi, tram, mean_imputation, pi_transition, pi_dual)
"""The methods that "auto" can mix."""


class Budget(NamedTuple):
    """The folds and methods of "auto" for networks of up to `size` parameters."""

    size: float
    folds: int
    members: Sequence[Callable[[Parts], Method]]


BUDGETS = (
    Budget(10_000_000, 5, MEMBERS),
    Budget(50_000_000, 3, MEMBERS),
    Budget(math.inf, 2, (no_pi, pi_transition)),
)


class Auto(LabelPosterior):
    """Train one network on label posteriors whose prior is a mixture of several methods.

    In regression, the targets are a weighted average of the mixture and the mean labels. The parameters are those of
    `LabelPosterior`.

    Examples
    --------
    >>> from lupi.methods import build
    >>> from lupi.nn import MLP
    >>> parts = Parts(lambda: MLP(5, (8,)), features=8, privileged=3, outputs=2, likelihood=Categorical())
    >>> list(build("auto", parts).members)
    ['no-pi', 'mean-imputation', 'pi-transition']
    """

    name: ClassVar = "auto"
    title: ClassVar = "Auto"
    mixes_linear: ClassVar = True
    likelihoods: ClassVar = (Categorical, Bernoulli, Gaussian)


class Stack(CrossFitting):
    """Ship the mixture that "auto" distils into one network; predictions cost as much as those of all its networks.

    Parameters
    ----------
    members, likelihood, folds
        As for `CrossFitting`.

    Examples
    --------
    >>> from lupi.methods import build
    >>> from lupi.nn import MLP
    >>> parts = Parts(lambda: MLP(5, (8,)), features=8, privileged=3, outputs=2, likelihood=Categorical())
    >>> len(build("stack", parts, methods=["no-pi", "tram"], folds=3).list_networks())
    6
    """

    name: ClassVar = "stack"
    title: ClassVar = "Stack"
    ships_privileged: ClassVar = True
    gradients: ClassVar = {}
    used: Tensor
    """Number of folds, and of networks per member, in use. With few or many examples, not all networks are needed."""

    def __init__(
        self,
        members: Mapping[str, Callable[[], Method]],
        *,
        likelihood: Likelihood,
        folds: int = 5,
    ) -> None:
        super().__init__(members, likelihood=likelihood, folds=folds)
        networks = {name: nn.ModuleList(make() for _ in range(folds)) for name, make in self.members.items()}
        self.networks: Mapping[str, Sequence[Method]] = nn.ModuleDict(networks)  # type: ignore[assignment]
        self.register_buffer("used", torch.tensor(folds))

    def observe(self, data: Annotations) -> None:
        """Let every network observe the data; in training, it observes the data of its folds only."""
        for network in self.list_networks():
            network.observe(data)

    def list_networks(self) -> list[Method]:
        """Return all networks that are used."""
        return [network for name in self.members for network in self.networks[name][: int(self.used)]]

    def make_networks(self, make: Callable[[], Method], name: str, folds: int, device: torch.device) -> list[Method]:  # noqa: ARG002
        """Return the networks of a member; they are part of this method."""
        return list(self.networks[name][: int(self.used)])

    def stages(self, data: Annotations) -> Iterator[Stage]:
        """Yield the stages of the cross-fitted networks of every member."""
        examples = data.annotated.shape[0]
        if examples < 4:
            raise ValueError(f"Expected at least 4 examples, two for each of two folds, but got {examples}.")
        self.used.fill_(min(self.folds, examples // 2))
        yield from self.cross_fit_members(data, assign_folds(data, int(self.used), int(self.seed)))

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the mean loss of the networks, each of which is trained separately."""
        every = [network.losses(batch) for network in self.list_networks()]
        return {"networks": torch.stack([sum(losses.values(), torch.zeros(())) for losses in every]).mean()}

    def predictor(self) -> nn.Module:
        """Return the mixture."""
        groups = [[network.predictor() for network in self.networks[name][: int(self.used)]] for name in self.members]
        return Mixture(groups, self.likelihood, self.weights)


def auto(
    parts: Parts,
    *,
    methods: Sequence[str] | None = None,
    folds: int | None = None,
    weight: float | None = None,
    exponent: float | None = None,
    combined_inputs: int | None = None,
) -> Auto:
    """Make the method "auto"; by default the size of the network determines `methods` and `folds`."""
    members, budget = choose_members(parts, methods)
    folds = budget.folds if folds is None else folds
    make = partial(no_pi, parts)
    method = Auto(members, make, folds=folds, weight=weight, exponent=exponent, combined_inputs=combined_inputs)
    method.predicts = parts.predicts
    return method


def stack(parts: Parts, *, methods: Sequence[str] | None = None, folds: int | None = None) -> Stack:
    """Make the method "stack"; by default the size of the network determines `methods` and `folds`."""
    members, budget = choose_members(parts, methods)
    method = Stack(members, likelihood=parts.likelihood, folds=budget.folds if folds is None else folds)
    method.predicts = parts.predicts
    return method


def choose_members(parts: Parts, methods: Sequence[str] | None) -> tuple[dict[str, Callable[[], Method]], Budget]:
    """Return the functions that make the members, and the budget for the size of the network."""
    size = sum(parameter.numel() for parameter in parts.trunk().parameters())
    budget = next(budget for budget in BUDGETS if size <= budget.size)
    of_labels = parts.predicts == "labels"
    makers = [make for make in POSSIBLE if not (of_labels and kind_of(make).predicts_truth)]
    usual = makers if of_labels else budget.members  # TRAM's marginal head is the p(y | x) of the paper
    known = {kind_of(make).name: make for make in makers}  # No PI first
    for name in methods or ():
        if name not in known:
            raise ValueError(f"Expected `methods` to be among {', '.join(known)}, but got {name!r}.")
    chosen = {name: make for name, make in known.items() if (name in methods if methods else make in usual)}
    possible = {name: make for name, make in chosen.items() if isinstance(parts.likelihood, kind_of(make).likelihoods)}
    if not possible:
        raise ValueError(
            f"Expected `methods` to be possible where y is {parts.likelihood.y}, but got {', '.join(chosen)}."
        )
    return {name: partial(make, parts) for name, make in possible.items()}, budget
