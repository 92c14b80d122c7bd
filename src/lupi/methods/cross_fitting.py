"""Cross-fitting: split examples into folds, and predict each with networks that were not trained on its labels."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from lupi._internal.arrays import Floats
from lupi._internal.checks import check_integer
from lupi._internal.devices import seeded
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Ordinal
from lupi.methods.base import Method, Remembered, Stage, join_stages
from lupi.methods.explanation import Explanation, explain, hide_telling, to_numpy
from lupi.methods.label_mixture import mix_by_labels
from lupi.methods.linear import cross_fit_linear, has_vectors
from lupi.nn.inference import over_examples
from lupi.settings import Settings

MAX_CROSS_FITTED = 100_000
"""Maximum number of examples to cross-fit. The others are predicted by the networks of all folds together."""
LINEAR = "linear"
"""The name of the linear models in the mixture."""
PATIENCE = 3
"""Number of epochs without a lower loss on its held-out fold after which a cross-fitted network stops, at a constant
learning rate."""


class CrossFitting(Method):
    """Cross-fit several methods, and mix their predictions by how well they explain the labels.

    Parameters
    ----------
    members : mapping of str to callable
        Functions that make the networks to cross-fit. If there are several, their predictions are mixed.
    likelihood : Likelihood
        The likelihood of the labels.
    folds : int
        Number of folds. If there are more than 100,000 examples, a random sample of that size is cross-fitted, and the
        other examples are predicted by the average of its networks.
    """

    needs_privileged: ClassVar = False
    stops_itself: ClassVar = True
    models_annotators: ClassVar = True
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (Categorical, Bernoulli)
    mixes_linear: ClassVar[bool] = False
    """Whether to mix logistic regressions of the true label with the members, if inputs are vectors and y is a class.
    Regressions of grades, with a score for each grade or with one for all, had a higher RPS than networks."""
    weights: Tensor
    """[sources] weights of the mixture."""
    seed: Tensor

    predictions = Remembered()
    """[examples, ...] predictions of each member: out-of-fold, or averaged for examples in no fold."""
    other_predictions = Remembered()
    """[other inputs, ...] averaged predictions of each member for `other_inputs`."""

    weight: float | None = None
    """λ, the weight of the posterior in the targets; None to infer it."""
    predicts: str = "truth"
    """What is predicted: the "truth", or the "labels" that people would give."""
    exponent: float | None = None
    """Exponent of the likelihood of the labels; None to infer it."""

    def __init__(
        self,
        members: Mapping[str, Callable[[], Method]],
        *,
        likelihood: Likelihood,
        folds: int = 5,
    ) -> None:
        super().__init__()
        self.members, self.likelihood = dict(members), likelihood
        self.folds = check_integer("folds", folds, 2)
        self.sources = [*self.members, LINEAR] if self.mixes_linear else list(self.members)
        self.register_buffer("weights", torch.full((len(self.sources),), 1 / len(self.sources)))
        self.register_buffer("seed", torch.randint(2**31, (), device="cpu"))

    def extra_repr(self) -> str:
        """Return the names of the members, so that checkpoints of different methods differ."""
        return f"members={list(self.members)}"

    def mixture(self) -> dict[str, float]:
        """Return the weights of what is mixed."""
        return dict(zip(self.sources, self.weights.tolist(), strict=True))

    def make_temporary(self) -> list[Method]:
        """Make one network of each member."""
        return [make() for make in self.members.values()]

    def make_networks(self, make: Callable[[], Method], name: str, folds: int, device: torch.device) -> list[Method]:
        """Make networks whose initial weights depend only on the seed and the name."""
        with seeded(zlib.crc32(f"{int(self.seed)} {name}".encode())):
            return [make().to(device, self.weights.dtype) for _ in range(folds)]

    def other_inputs(self, data: Annotations) -> Tensor | None:  # noqa: ARG002
        """Return inputs to predict besides those of the training set."""
        return None

    def cross_fit_members(self, data: Annotations, fold: Tensor) -> Iterator[Stage]:
        """Yield the stages of the members; each network is trained on the labels of all folds but one.

        The labels of the remaining fold are used only for early stopping. If privileged information tells the label
        better than the predictions of the first member, No PI, it is hidden from the others, except who gave a label.
        """
        names = list(self.members) if privileged_varies(data) else list(self.members)[:1]
        for number, name in enumerate(names):
            if number == 1 and names[0] in self.predictions and not isinstance(self.likelihood, Gaussian):
                data = hide_telling(data, to_numpy(self.predictions[names[0]][data.annotated]), self.likelihood)
            networks = self.make_networks(self.members[name], name, int(fold.max()) + 1, data.row.device)
            last = partial(self.finish_member, name, names, networks, fold)
            yield from cross_fit_networks(name, networks, *split_folds(data.with_gold(), fold, int(self.seed)), last)

    def finish_member(
        self, name: str, names: Sequence[str], networks: Sequence[Method], fold: Tensor, data: Annotations
    ) -> None:
        """Store the predictions of a member; after the last member, mix them."""
        self.remember(name, networks, data, fold)
        if name == names[-1]:
            self.mix(names, data, fold)

    def remember(self, name: str, networks: Sequence[Method], data: Annotations, fold: Tensor) -> None:
        """Store predictions: out-of-fold for examples in a fold, averaged for other examples and other inputs."""
        others, averages = self.other_inputs(data), []
        rest = data.annotated[fold[data.annotated] < 0]  # only in large data sets
        for number, network in enumerate(networks):
            predictor, mine = network.predictor(), (fold == number).nonzero().squeeze(1)
            p = self.likelihood.moments(over_examples(predictor, data.x, rows=mine))
            if number == 0:
                self.predictions[name] = p.new_zeros(data.examples, p.shape[1])
            self.predictions[name][mine] = p
            if rest.shape[0]:
                p = self.likelihood.moments(over_examples(predictor, data.x, rows=rest))
                self.predictions[name][rest] += p / len(networks)
            if others is not None:
                averages.append(self.likelihood.moments(over_examples(predictor, others)) / len(networks))
        if averages:
            self.other_predictions[name] = torch.stack(averages).sum(0)

    def explain(
        self, names: Sequence[str], data: Annotations, predict: Callable[[Floats], Floats] | None = None
    ) -> Explanation:
        """Explain the labels by the stored predictions of some networks."""
        predictions = [to_numpy(self.predictions[name][data.annotated]) for name in names]
        if self.predicts == "labels":
            return mix_by_labels(data, predictions, self.likelihood)
        return explain(data, predictions, self.likelihood, self.weight, self.exponent, predict)

    def mix(self, names: Sequence[str], data: Annotations, fold: Tensor) -> None:
        """Explain the labels by members and, if possible, by linear models, and use the result."""
        likelihood, every = self.likelihood, list(names)

        def predict(evidence: Floats) -> Floats:
            assert isinstance(likelihood, Categorical | Bernoulli)
            self.remember(LINEAR, cross_fit_linear(data, fold, evidence, likelihood), data, fold)
            every.append(LINEAR)
            return to_numpy(self.predictions[LINEAR][data.annotated])

        classes = isinstance(likelihood, Categorical | Bernoulli) and not isinstance(likelihood, Ordinal)
        possible = self.mixes_linear and classes and has_vectors(data)
        self.use(self.explain(names, data, predict if possible else None), every, data)

    def use(self, found: Explanation, names: Sequence[str], data: Annotations) -> None:  # noqa: ARG002
        """Store the weights of the mixture."""
        weights = dict(zip(names, found.weights.tolist(), strict=True))
        self.weights.copy_(self.weights.new_tensor([weights.get(name, 0.0) for name in self.sources]))


def assign_folds(data: Annotations, folds: int, seed: int) -> Tensor:
    """Assign annotated examples to folds at random, [examples]; fold sizes differ by at most one.

    Examples without annotations are in fold −1. In a large data set, so are all but `MAX_CROSS_FITTED` examples, chosen
    at random: training several networks per fold on all of them would take hours, and these networks only serve to
    estimate how reliable the labels are.
    """
    example, fold = data.annotated, data.row.new_full((data.examples,), -1)
    order = torch.randperm(example.shape[0], generator=torch.Generator().manual_seed(seed))
    order = order[:MAX_CROSS_FITTED].to(example.device)
    fold[example[order]] = torch.arange(order.shape[0], device=example.device) % folds
    return fold


def split_folds(data: Annotations, fold: Tensor, seed: int) -> tuple[list[Annotations], list[Annotations]]:
    """Return, for each fold, the annotations of the other folds and those of the fold itself; fold −1 is left out.

    With n annotations and F folds, the sets have n (F − 1)/F and n/F annotations, rounded, because the networks of all
    folds and seeds can be stacked only if their training sets have the same size. Larger sets drop annotations at
    random, and smaller ones repeat some. If examples have similar numbers of labels, few annotations are affected.
    """
    of, folds = fold[data.row], int(fold.max()) + 1
    count = int((of >= 0).sum())
    each = max(1, round(count / folds))
    generator = torch.Generator().manual_seed(seed)

    def resize(chosen: Tensor, size: int) -> Annotations:
        index = chosen.nonzero().squeeze(1)
        if index.shape[0] != size:
            index = index[torch.randperm(index.shape[0], generator=generator).to(index.device)]
            index = index.repeat(-(-size // index.shape[0]))[:size].sort().values
        return data.take(index)

    others = [resize((of != number) & (of >= 0), count - each) for number in range(folds)]
    return others, [resize(of == number, each) for number in range(folds)]


def cross_fit_networks(
    name: str,
    networks: Sequence[Method],
    others: Sequence[Annotations],
    own: Sequence[Annotations],
    finish: Callable[[Annotations], None],
) -> Iterator[Stage]:
    """Yield the stages of networks that each learn from the other folds, and stop by their own fold."""
    parts = list(zip(networks, others, strict=True))
    every = list(zip(*(network.stages(part) for network, part in parts), strict=True))
    for number, stages in enumerate(every):
        joint = join_stages(stages, lambda _: others)
        yield joint._replace(
            name=name if len(every) == 1 else f"{name}: {joint.name}",
            prepare=partial(prepare_observed, parts if number == 0 else [], joint),
            split_validation=join_stages(stages, lambda _: own).prepare_validation,
            adapt=stop_early,
            finish=finish if number + 1 == len(every) else None,
        )


def prepare_observed(parts: Sequence[tuple[Method, Annotations]], stage: Stage, data: Annotations) -> list[Annotations]:
    """Let each network observe its data, and prepare the data for a stage."""
    for network, part in parts:
        network.observe(part)
    prepared: list[Annotations] = stage.prepare(data)
    return prepared


def stop_early(settings: Settings) -> Settings:
    """Keep the best epoch, and stop early unless the learning rate falls: then the last epochs matter most."""
    patience = PATIENCE if settings.schedule == "constant" else settings.epochs
    return replace(settings, patience=patience)


def privileged_varies(data: Annotations) -> bool:
    """Return whether the privileged information differs between any two labels."""
    parts = [data.a] if isinstance(data.a, Tensor) else [data.a.index, data.a.value]
    return any(bool((part != part[:1]).any()) for part in parts)
