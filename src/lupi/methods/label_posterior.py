"""Label posteriors: denoise the labels first, then train one network on the result.

Every example is predicted by networks that were trained on the other folds (cross-fitting). With these predictions as
the prior, a model of the annotators (`lupi.crowd`) turns the labels of an example into a posterior over its true label.
One network of the size of No PI is trained on the posterior, mixed with the prior, and ships.

References
----------
Raykar et al., "Learning from crowds" (JMLR 2010). Hinton, Vinyals and Dean, "Distilling the knowledge in a neural
network" (2015).
"""

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_number
from lupi._internal.seeding import seeded
from lupi.data import Annotations, Batch
from lupi.likelihoods import Bernoulli, Categorical, Likelihood
from lupi.methods.base import Method, Stage, join_stages
from lupi.methods.combining import combine_inputs
from lupi.methods.cross_fitting import assign_folds, split_folds
from lupi.methods.explanation import apply_mixture, explain
from lupi.methods.no_pi import NoPI, no_pi
from lupi.nn import Parts
from lupi.nn.inference import over_examples

PATIENCE = 3
"""Number of epochs without a lower loss on its held-out fold after which a cross-fitted network stops, at a constant
learning rate."""
FEW, SMALL = 10_000, 200_000
"""Maximum number of examples and of parameters of the network for ten folds by default instead of five."""
POINTS = 20_000
"""Number of combined inputs in all, within the limits of 1 and `VECTORS` or `IMAGES` per training input."""
VECTORS, IMAGES = 4, 19
"""Maximum number of combined inputs per training input. On 1000 images 19 were better than 4, but not on tables."""
BYTES = 2**30
"""Maximum size of the combined inputs, unless there is only one per training input."""


class LabelPosterior(Method):
    r"""Train a network on λ P(true label | labels, x) + (1 − λ) P(true label | x), both estimated by cross-fitting.

    The network is also trained on the cross-fitted predictions for combinations of two training inputs (points between
    vectors, and images with a rectangle of another image), so that it learns more from the cross-fitted networks.

    Weights of labels affect the training of networks, but not the model of the annotators. The weight of an example is
    the mean weight of its labels. The model of the annotators treats a soft label as its most probable class. If the
    true label of an example is known, it is the target.

    Parameters
    ----------
    members : mapping of str to callable
        Functions that make the networks to cross-fit. If there are several, their predictions are mixed.
    make_student : callable
        Function that makes the network that ships, and the networks of later rounds.
    folds : int, optional
        Number of folds; by default five, or ten for small networks on up to 10,000 examples, where more folds cost
        little and each network learns from more of the few examples. If there are more than 100,000 examples, a random
        sample of that size is cross-fitted, and the other examples are predicted by the average of its networks.
    rounds : int
        Number of times the posterior is computed. Each round after the first cross-fits students on the last
        posterior; their predictions are the next prior.
    weight : float
        λ, the weight of the posterior.
    exponent : float, optional
        Exponent of the likelihood of the labels; by default `lupi.crowd.infer_votes` chooses it.
    between : int, optional
        Number of combinations of two training inputs, as a multiple of the number of inputs. By default up to 4 for
        vectors and 19 for images, and 1 for large data sets.

    Examples
    --------
    >>> make = lambda: NoPI(nn.Identity(), nn.Linear(4, 2))
    >>> method = LabelPosterior({"no-pi": make}, make, folds=2)
    >>> data = Annotations(torch.eye(4), torch.arange(4), torch.ones(4, 1), torch.tensor([0, 1, 0, 1]))
    >>> [stage.name for stage in method.stages(data)]
    ['no-pi', 'student']
    """

    stops_itself: ClassVar = True
    models_annotators: ClassVar = True
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (Categorical, Bernoulli)
    gradients: ClassVar = {"marginal": ("student",)}
    weights: Tensor
    powers: Tensor
    seed: Tensor

    def __init__(
        self,
        members: Mapping[str, Callable[[], Method]],
        make_student: Callable[[], NoPI],
        *,
        folds: int | None = None,
        rounds: int = 1,
        weight: float = 0.75,
        exponent: float | None = None,
        between: int | None = None,
    ) -> None:
        super().__init__()
        self.members, self.make_student = dict(members), make_student
        self.student = make_student()
        self.likelihood = self.student.likelihood
        self.folds = None if folds is None else check_integer("folds", folds, 2)
        self.small = sum(parameter.numel() for parameter in self.student.parameters()) <= SMALL
        self.rounds = check_integer("rounds", rounds, 1)
        self.weight = check_number("weight", weight, maximum=1)
        self.exponent = None if exponent is None else check_number("exponent", exponent)
        self.between = None if between is None else check_integer("between", between, 0)
        self.register_buffer("weights", torch.full((len(self.members),), 1 / len(self.members)))
        self.register_buffer("powers", torch.ones(len(self.members) + 1))
        self.register_buffer("seed", torch.randint(2**31, ()))

    def extra_repr(self) -> str:
        """Return the names of the members, so that checkpoints of different methods differ."""
        return f"members={list(self.members)}"

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of the student."""
        return self.student.losses(batch)

    def predictor(self) -> nn.Module:
        """Return q(y | x) of the student."""
        return self.student.predictor()

    def stages(self, data: Annotations) -> Iterator[Stage]:
        """Yield the stages of the cross-fitted networks of every member and round, then that of the student."""
        examples = data.annotated.shape[0]
        folds = min(self.count_folds(examples), examples // 2)
        if folds < 2:  # too few examples
            yield Stage("student", self.student, Annotations.with_gold)
            return
        fold = assign_folds(data, folds, int(self.seed))
        yield from self.cross_fit_members(data, fold)
        for number in range(2, self.rounds + 1):
            yield self.cross_fit_students(f"round {number}", data, fold)
        yield Stage("student", self.student, self.make_targets, lambda held: held, adapt=partial(self.adapt, data))

    def adapt(self, data: Annotations, settings: Any) -> Any:
        """Adapt the settings for training on posteriors: use a cosine schedule and no early stopping."""
        epochs = math.ceil(settings.epochs * max(0.4, 2 / (1 + self.count_combined(data))))
        return replace(settings, schedule="cosine", patience=None, epochs=epochs)

    # ---------------------------------------------------------------------------- cross-fitting

    def count_folds(self, examples: int) -> int:
        """Return the number of folds for a number of examples."""
        return self.folds or (10 if self.small and examples <= FEW else 5)

    def make_temporary(self) -> list[Method]:
        """Make one network of each member."""
        return [make() for make in self.members.values()]

    def make_networks(self, make: Callable[[], Method], name: str, folds: int, device: torch.device) -> list[Method]:
        """Make networks whose initial weights depend only on the seed and the name."""
        with seeded(zlib.crc32(f"{int(self.seed)} {name}".encode())):
            return [make().to(device, self.weights.dtype) for _ in range(folds)]

    def cross_fit_members(self, data: Annotations, fold: Tensor) -> Iterator[Stage]:
        """Yield the stages of the members; each network is trained on the labels of all folds but one.

        The labels of the remaining fold are used only for early stopping.
        """
        names = list(self.members) if privileged_varies(data) else list(self.members)[:1]
        others, own = split_folds(data.with_gold(), fold, int(self.seed))
        for name in names:
            networks = self.make_networks(self.members[name], name, len(others), data.row.device)
            parts = list(zip(networks, others, strict=True))
            every = list(zip(*(network.stages(part) for network, part in parts), strict=True))
            for number, stages in enumerate(every):
                joint = join_stages(stages, lambda _: others)
                yield joint._replace(
                    name=name if len(every) == 1 else f"{name}: {joint.name}",
                    prepare=partial(prepare_observed, parts if number == 0 else [], joint),
                    validate=join_stages(stages, lambda _: own).hold_out,
                    adapt=stop_early,
                    finish=partial(self.finish_member, name, names, networks, fold)
                    if number + 1 == len(every)
                    else None,
                )

    def finish_member(
        self, name: str, names: Sequence[str], networks: Sequence[Method], fold: Tensor, data: Annotations
    ) -> None:
        """Store the predictions of a member; after the last member, compute the targets."""
        self.remember(name, networks, data, fold)
        if name == names[-1]:
            self.explain(names, data)

    def cross_fit_students(self, name: str, data: Annotations, fold: Tensor) -> Stage:
        """Return the stage of the students; each is trained on the posteriors of all folds but one."""
        networks = self.make_networks(self.make_student, name, int(fold.max()) + 1, data.row.device)

        def finish(data: Annotations) -> None:
            self.remember(name, networks, data, fold)
            self.explain([name], data)

        def prepare(data: Annotations) -> list[Annotations]:
            return split_folds(self.make_targets(data, between=False), fold, int(self.seed))[0]

        def validate(data: Annotations) -> list[Annotations]:
            return split_folds(self.make_targets(data, between=False), fold, int(self.seed))[1]

        adapt = partial(replace, schedule="cosine", patience=None)
        return Stage(name, networks, prepare, validate=validate, adapt=adapt, finish=finish)

    def remember(self, name: str, networks: Sequence[Method], data: Annotations, fold: Tensor) -> None:
        """Store predictions: out-of-fold for examples in a fold, averaged for other examples and combined inputs."""
        combined, averages = self.combine(data)[0], []
        rest = data.annotated[fold[data.annotated] < 0]  # only in large data sets
        for number, network in enumerate(networks):
            predictor, mine = network.predictor(), (fold == number).nonzero().squeeze(1)
            p = self.likelihood.moments(over_examples(predictor, data.x, rows=mine))
            if number == 0:
                self.memory[name] = p.new_zeros(data.examples, p.shape[1])
            self.memory[name][mine] = p
            if rest.shape[0]:
                p = self.likelihood.moments(over_examples(predictor, data.x, rows=rest))
                self.memory[name][rest] += p / len(networks)
            if combined is not None:
                averages.append(self.likelihood.moments(over_examples(predictor, combined)) / len(networks))
        if averages:
            self.memory[f"{name} between"] = torch.stack(averages).sum(0)

    # ---------------------------------------------------------------------------- targets

    def explain(self, names: Sequence[str], data: Annotations) -> None:
        """Compute and store the targets of the next networks from the labels and the predictions of the last ones."""
        predictions = [to_numpy(self.memory[name][data.annotated]) for name in names]
        found = explain(data, predictions, self.likelihood, self.weight, self.exponent)
        self.memory["target"] = torch.from_numpy(found.target).to(data.row.device, self.weights.dtype)
        if f"{names[0]} between" in self.memory:
            points = [to_numpy(self.memory.pop(f"{name} between")) for name in names]
            mixed = apply_mixture(found, points, self.likelihood)
            self.memory["target between"] = torch.from_numpy(mixed).to(data.row.device, self.weights.dtype)
        if names[0] in self.members:
            mixture = dict(zip(names, found.weights.tolist(), strict=True))
            powers = dict(zip(names, found.powers.tolist(), strict=True))
            self.weights.copy_(self.weights.new_tensor([mixture.get(name, 0.0) for name in self.members]))
            self.powers.copy_(self.powers.new_tensor([*(powers.get(name, 1.0) for name in self.members), found.power]))

    def make_targets(self, data: Annotations, *, between: bool = True) -> Annotations:
        """Return one annotation with its target per example, followed by those of the combined inputs."""
        x, row, y, weight = data.x, data.annotated, self.memory["target"], data.weight_examples()
        combined, more = self.combine(data) if between else (None, None)
        if combined is not None:
            assert isinstance(x, Tensor)
            row = torch.cat([row, torch.arange(combined.shape[0], device=row.device) + x.shape[0]])
            x, y = torch.cat([x, combined]), torch.cat([y, self.memory["target between"]])
            weight = None if weight is None or more is None else torch.cat([weight, more])
        return Annotations(x, row, y.new_zeros(row.shape[0], 0), y, weight=weight)

    def count_combined(self, data: Annotations) -> int:
        """Return the number of combinations per input; 0 if inputs cannot be combined."""
        if not (isinstance(data.x, Tensor) and (data.x.is_floating_point() or data.x.dtype == torch.uint8)):
            return 0
        if self.between is not None:
            return self.between
        most, examples = IMAGES if data.x.ndim == 4 else VECTORS, data.annotated.shape[0]
        size = data.x[0].numel() * data.x.element_size()
        return max(1, min(most, round(POINTS / examples), BYTES // (examples * size)))

    def combine(self, data: Annotations) -> tuple[Tensor | None, Tensor | None]:
        """Return combinations of inputs and their weights, the same in every call; None if there are none."""
        times = self.count_combined(data)
        return combine_inputs(data, times, int(self.seed) + 1) if times else (None, None)


def prepare_observed(parts: Sequence[tuple[Method, Annotations]], stage: Stage, data: Annotations) -> list[Annotations]:
    """Let each network observe its data, and prepare the data for a stage."""
    for network, part in parts:
        network.observe(part)
    prepared: list[Annotations] = stage.prepare(data)
    return prepared


def stop_early(settings: Any) -> Any:
    """Keep the best epoch, and stop early unless the learning rate falls: then the last epochs matter most."""
    patience = PATIENCE if settings.schedule == "constant" else settings.epochs
    return replace(settings, patience=patience)


def privileged_varies(data: Annotations) -> bool:
    """Return whether the privileged information differs between any two labels."""
    parts = [data.a] if isinstance(data.a, Tensor) else [data.a.index, data.a.value]
    return any(bool((part != part[:1]).any()) for part in parts)


def to_numpy(values: Tensor) -> NDArray[np.float64]:
    """Return a tensor as an array."""
    return values.double().cpu().numpy()


def label_posterior(
    parts: Parts,
    *,
    folds: int | None = None,
    rounds: int = 2,
    weight: float = 0.75,
    exponent: float | None = None,
    between: int | None = None,
) -> LabelPosterior:
    """Make the method "label-posterior"."""
    make = partial(no_pi, parts)
    return LabelPosterior(
        {"no-pi": make}, make, folds=folds, rounds=rounds, weight=weight, exponent=exponent, between=between
    )
