"""Label posteriors: denoise the labels first, then train one network on the result.

Every example is predicted by networks that were trained on the other folds (cross-fitting). With these predictions as
the prior, a model of the annotators (`lupi.crowd`) turns the labels of an example into a posterior over its true label.
One network of the size of No PI is trained on the posterior, mixed with the prior, and ships.

References
----------
Raykar et al., "Learning from crowds" (JMLR 2010). Hinton, Vinyals and Dean, "Distilling the knowledge in a neural
network" (2015). The combined inputs: Zhang et al., "mixup: Beyond empirical risk minimization" (ICLR 2018); Yun et al.,
"CutMix: Regularization strategy to train strong classifiers with localizable features" (ICCV 2019).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_number
from lupi.data import Annotations, Batch
from lupi.likelihoods import Gaussian
from lupi.methods.base import Method, Remembered, Stage
from lupi.methods.cross_fitting import CrossFitting, assign_folds, split_folds
from lupi.methods.explanation import Explanation, mix, to_numpy
from lupi.methods.linear import has_vectors
from lupi.methods.no_pi import NoPI, no_pi
from lupi.nn import Parts
from lupi.settings import Settings

COMBINED_INPUTS = 20_000
"""Number of combined inputs in all, within the limits of 1 and `MAX_PER_VECTOR` or `MAX_PER_IMAGE` per input."""
MAX_PER_VECTOR, MAX_PER_IMAGE = 4, 19
"""Maximum number of combined inputs per training input. On 1000 images 19 were better than 4, but not on tables."""
FEW_EXAMPLES = 5000
"""Number of examples up to which the student takes 1.5 times as many steps as No PI; beyond, it takes as many."""
IMAGE_EPOCHS = 0.4
"""Share of the epochs that the student takes if there are more than `MAX_PER_VECTOR` combined inputs per input."""
L2 = 1e-3
"""The student's L2 penalty, if inputs are vectors and the settings have none, so that it is less sure of inputs unlike
those it has seen."""
MAX_COMBINED_BYTES = 2**30
"""Maximum size of the combined inputs, unless there is only one per training input."""


class LabelPosterior(CrossFitting):
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
    folds : int
        Number of folds. If there are more than 100,000 examples, a random sample of that size is cross-fitted, and the
        other examples are predicted by the average of its networks.
    rounds : int
        Number of times the posterior is computed. Each round after the first cross-fits students on the last
        posterior; their predictions are the next prior.
    weight : float, optional
        λ, the weight of the posterior; by default the share of an example's labels that are independent, or ½ if it has
        a single one.
    exponent : float, optional
        Exponent of the likelihood of the labels; by default chosen as by `lupi.crowd.infer`.
    combined_inputs : int, optional
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

    name: ClassVar = "label-posterior"
    title: ClassVar = "Label posterior"
    gradients: ClassVar = {"marginal": ("student",)}

    targets = Remembered()
    """What the next networks learn: the targets of "examples" and of "combined" inputs."""

    def __init__(
        self,
        members: Mapping[str, Callable[[], Method]],
        make_student: Callable[[], NoPI],
        *,
        folds: int = 5,
        rounds: int = 1,
        weight: float | None = None,
        exponent: float | None = None,
        combined_inputs: int | None = None,
    ) -> None:
        student = make_student()
        super().__init__(members, likelihood=student.likelihood, folds=folds)
        self.student, self.make_student = student, make_student
        self.rounds = check_integer("rounds", rounds, 1)
        self.weight = None if weight is None else check_number("weight", weight, maximum=1)
        self.exponent = None if exponent is None else check_number("exponent", exponent)
        self.combined_inputs = None if combined_inputs is None else check_integer("combined_inputs", combined_inputs, 0)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of the student."""
        return self.student.losses(batch)

    def predictor(self) -> nn.Module:
        """Return q(y | x) of the student."""
        return self.student.predictor()

    def stages(self, data: Annotations) -> Iterator[Stage]:
        """Yield the stages of the cross-fitted networks of every member and round, then that of the student."""
        examples = data.annotated.shape[0]
        folds = min(self.folds, examples // 2)
        if folds < 2:  # too few examples
            yield Stage("student", self.student, Annotations.with_gold)
            return
        fold = assign_folds(data, folds, int(self.seed))
        yield from self.cross_fit_members(data, fold)
        for number in range(2, self.rounds + 1):
            yield self.cross_fit_students(f"round {number}", data, fold)
        yield Stage("student", self.student, self.make_targets, lambda held: held, adapt=partial(self.adapt, data))

    def adapt(self, data: Annotations, settings: Settings) -> Settings:
        """Adapt the settings for training on posteriors: a cosine schedule, no early stopping, and L2 for vectors."""
        times, more = self.count_combined(data), 1.5 if data.annotated.shape[0] <= FEW_EXAMPLES else 1
        share = more / (1 + times) if times <= MAX_PER_VECTOR else IMAGE_EPOCHS
        penalize = has_vectors(data) and settings.optimizer == "adam" and not settings.l2
        return replace(
            settings,
            schedule="cosine",
            patience=None,
            epochs=math.ceil(share * settings.epochs),
            l2=L2 if penalize else settings.l2,
        )

    def cross_fit_students(self, name: str, data: Annotations, fold: Tensor) -> Stage:
        """Return the stage of the students; each is trained on the posteriors of all folds but one."""
        networks = self.make_networks(self.make_student, name, int(fold.max()) + 1, data.row.device)

        def finish(data: Annotations) -> None:
            self.remember(name, networks, data, fold)
            self.set_targets(self.explain([name], data), [name], data)

        def prepare(data: Annotations) -> list[Annotations]:
            return split_folds(self.make_targets(data, combined=False), fold, int(self.seed))[0]

        def split_validation(data: Annotations) -> list[Annotations]:
            return split_folds(self.make_targets(data, combined=False), fold, int(self.seed))[1]

        adapt = partial(replace, schedule="cosine", patience=None)
        return Stage(name, networks, prepare, split_validation=split_validation, adapt=adapt, finish=finish)

    def use(self, found: Explanation, names: Sequence[str], data: Annotations) -> None:
        """Store the weights of the mixture, and the targets of the next networks."""
        super().use(found, names, data)
        self.set_targets(found, names, data)

    def set_targets(self, found: Explanation, names: Sequence[str], data: Annotations) -> None:
        """Store the targets of the next networks."""
        self.targets["examples"] = torch.from_numpy(found.target).to(data.row.device, self.weights.dtype)
        if names[0] in self.other_predictions:
            points = [to_numpy(self.other_predictions.pop(name)) for name in names]
            mixed = mix(points, found.weights)
            mixed = found.adjust(mixed[:, 0] if isinstance(self.likelihood, Gaussian) else mixed)
            self.targets["combined"] = torch.from_numpy(mixed).to(data.row.device, self.weights.dtype)

    def make_targets(self, data: Annotations, *, combined: bool = True) -> Annotations:
        """Return one annotation with its target per example, followed by those of the combined inputs."""
        x, row, y, weight = data.x, data.annotated, self.targets["examples"], data.weight_examples()
        others, more = self.combine(data) if combined else (None, None)
        if others is not None:
            assert isinstance(x, Tensor)
            row = torch.cat([row, torch.arange(others.shape[0], device=row.device) + x.shape[0]])
            x, y = torch.cat([x, others]), torch.cat([y, self.targets["combined"]])
            weight = None if weight is None or more is None else torch.cat([weight, more])
        return Annotations(x, row, y.new_zeros(row.shape[0], 0), y, weight=weight)

    def count_combined(self, data: Annotations) -> int:
        """Return the number of combinations per input; 0 if inputs cannot be combined."""
        if not (isinstance(data.x, Tensor) and (data.x.is_floating_point() or data.x.dtype == torch.uint8)):
            return 0
        if self.combined_inputs is not None:
            return self.combined_inputs
        most, examples = MAX_PER_IMAGE if data.x.ndim == 4 else MAX_PER_VECTOR, data.annotated.shape[0]
        size = data.x[0].numel() * data.x.element_size()
        return max(1, min(most, round(COMBINED_INPUTS / examples), MAX_COMBINED_BYTES // (examples * size)))

    def combine(self, data: Annotations) -> tuple[Tensor | None, Tensor | None]:
        """Return combinations of inputs and their weights, the same in every call; None if there are none."""
        times = self.count_combined(data)
        return combine_inputs(data, times, int(self.seed) + 1) if times else (None, None)

    def other_inputs(self, data: Annotations) -> Tensor | None:
        """Return the combined inputs."""
        return self.combine(data)[0]


def label_posterior(
    parts: Parts,
    *,
    folds: int = 5,
    rounds: int = 2,
    weight: float | None = None,
    exponent: float | None = None,
    combined_inputs: int | None = None,
) -> LabelPosterior:
    """Make the method "label-posterior"."""
    make = partial(no_pi, parts)
    method = LabelPosterior(
        {NoPI.name: make},
        make,
        folds=folds,
        rounds=rounds,
        weight=weight,
        exponent=exponent,
        combined_inputs=combined_inputs,
    )
    method.predicts = parts.predicts
    return method


def combine_inputs(data: Annotations, times: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """Combine random pairs of annotated inputs, and return `times` combinations per example.

    A rectangle of one image is pasted into another; other inputs are interpolated. The weights of the inputs are
    averaged in the same proportions and returned too; they are None if the annotations have no weights.
    """
    assert isinstance(data.x, Tensor)
    generator, device = torch.Generator().manual_seed(seed), data.row.device
    example = data.annotated
    size = times * example.shape[0]
    pairs = torch.randint(example.shape[0], (2, size), generator=generator).to(device)
    first, second = (data.x.index_select(0, example[side]) for side in pairs)
    function = paste_rectangles if data.x.ndim == 4 else interpolate
    combined, share = function(first, second, generator)
    weight = data.weight_examples()
    if weight is not None:
        weight = torch.lerp(weight[pairs[0]], weight[pairs[1]], share.to(weight.dtype))
    return combined, weight


def interpolate(first: Tensor, second: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Interpolate at a random place between each pair, and return the share of the second too; integers are rounded."""
    share = torch.rand(first.shape[0], generator=generator).to(first.device)
    place = share.reshape(-1, *(1,) * (first.ndim - 1))
    if first.is_floating_point():
        return torch.lerp(first, second, place.to(first.dtype)), share
    return torch.lerp(first.float(), second.float(), place).round().to(first.dtype), share


def paste_rectangles(first: Tensor, second: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Paste a random rectangle of each second image into the first one, and return the share of its pixels too.

    The rectangle has the proportions of the image, a uniformly distributed area, and a centre anywhere in the image.
    What reaches beyond the edges is cut off.
    """
    side, *centres = torch.rand(3, first.shape[0], 1, generator=generator).to(first.device)
    side = side.sqrt()

    def cover(pixels: int, centre: Tensor) -> Tensor:
        place = (torch.arange(pixels, device=first.device) + 0.5) / pixels
        return torch.le((place - centre).abs(), side / 2)

    rows, columns = (cover(pixels, centre) for pixels, centre in zip(first.shape[2:], centres, strict=True))
    inside = rows[:, None, :, None] & columns[:, None, None, :]
    return torch.where(inside, second, first), inside.float().mean((1, 2, 3))
