"""Distillation: train a student that sees only x on the soft labels of a teacher.

Lopez-Paz, Bottou, Schölkopf and Vapnik, "Unifying distillation and privileged information" (ICLR 2016),
https://arxiv.org/abs/1511.03643; Furlanello et al., "Born-again neural networks" (ICML 2018),
https://arxiv.org/abs/1805.04770, for a teacher without privileged information; Collier et al. (2022) for
Distilled-TRAM.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_number, check_positive
from lupi.data import Annotations, Batch
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import Conditional, Method, Stage
from lupi.methods.imputation import zero_imputation
from lupi.methods.no_pi import no_pi
from lupi.methods.tram import TRAM
from lupi.nn import MLP, Parts
from lupi.nn.inference import over_annotations, over_examples


class Distillation(Method):
    r"""Train a teacher, then a student with the loss λ CE(teacher softened by T, student) + (1 − λ) CE(y, student).

    The loss is linear in the target, so the student is trained on λ·teacher + (1 − λ)·y, which is computed once. For a
    real-valued y the soft label is the teacher's mean, and the two losses differ by a constant.

    Parameters
    ----------
    teacher : Method
        Provides the soft labels, with its conditional head if it has one, else with its predictor.
    student : Method
        Uses no privileged information; its predictor ships.
    temperature : float
        T, which applies to the teacher only, as in the reference code.
    weight : float
        λ, the weight of the soft labels.
    """

    name: ClassVar = "distillation"
    title: ClassVar = "Distillation, no PI"
    uses_privileged: ClassVar = False
    needs_privileged: ClassVar = False
    gradients: ClassVar = {"marginal": ("student",)}

    def __init__(self, teacher: Method, student: Method, *, temperature: float = 3.0, weight: float = 0.5) -> None:
        super().__init__()
        self.teacher, self.student = teacher, student
        self.likelihood = student.likelihood
        self.temperature = check_positive("temperature", temperature)
        self.weight = check_number("weight", weight, maximum=1)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of the student on the softened targets."""
        return self.student.losses(batch)

    def observe(self, data: Annotations) -> None:
        """Let the teacher and the student observe the data."""
        self.teacher.observe(data)
        self.student.observe(data)

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield the stage of the teacher, then that of the student."""
        yield Stage("teacher", self.teacher)
        yield Stage("student", self.student, self.soften, self.prepare_held_out)

    def soften(self, data: Annotations) -> Annotations:
        """Replace y with λ·teacher + (1 − λ)·y."""
        if isinstance(self.teacher, Conditional):
            output = over_annotations(self.teacher, self.teacher.conditional_output, data)
        else:
            output = over_examples(self.teacher.predictor(), data.x)[data.row]
        soft = self.likelihood.mean(output, self.temperature)
        y = self.likelihood.target(data.y, output.shape[-1]).to(soft.dtype)
        return replace(data, y=self.weight * soft + (1 - self.weight) * y)

    def prepare_held_out(self, data: Annotations) -> Annotations:
        """Return the held-out labels unchanged: early stopping of the student uses them, not the teacher."""
        return data

    def predictor(self) -> nn.Module:
        """Return q(y | x) of the student."""
        return self.student.predictor()


class GeneralizedDistillation(Distillation):
    """Distil the conditional head of a teacher that is trained with privileged information."""

    name: ClassVar = "generalized-distillation"
    title: ClassVar = "Generalized distillation (Lopez-Paz et al.)"
    uses_privileged: ClassVar = True
    needs_privileged: ClassVar = True


class SoftTRAM(TRAM):
    """TRAM with two targets per annotation: y[:, 0] for the conditional head and y[:, 1] for the marginal head."""

    def targets(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the soft targets for the conditional head and the labels for the marginal head."""
        return batch.y[:, 0], batch.y[:, 1]


class DistilledTRAM(GeneralizedDistillation, Conditional):
    """Train TRAM with L₁ replaced by the distillation loss of a teacher trained with privileged information.

    Parameters
    ----------
    teacher : Method
        Provides the soft labels, with its conditional head.
    student : SoftTRAM
        The network whose marginal head ships.
    temperature : float
        T of the distillation loss.
    weight : float
        λ of the distillation loss.
    """

    name: ClassVar = "distilled-tram"
    title: ClassVar = "Distilled-TRAM"
    gradients: ClassVar = {
        "marginal": ("student.marginal",),
        "conditional": ("student.trunk", "student.tower", "student.conditional"),
    }
    student: SoftTRAM

    def soften(self, data: Annotations) -> Annotations:
        """Replace y with λ·teacher + (1 − λ)·y and y, stacked."""
        soft = super().soften(data).y
        return replace(data, y=torch.stack([soft, self.likelihood.target(data.y, soft.shape[-1])], 1))

    def prepare_held_out(self, data: Annotations) -> Annotations:
        """Soften held-out labels too. Early stopping uses the loss of the marginal head, whose target is still y."""
        return self.soften(data)

    def conditional_output(self, batch: Batch) -> Tensor:
        """Return q(y | x, a) of the student's conditional head."""
        return self.student.conditional_output(batch)


class PrivilegedTeacher(Conditional):
    """Learn q(y | a) without x. It can only be a teacher, since it cannot predict from x.

    A teacher that sees x can memorize the labels, and then teaches the student nothing else. A teacher that sees only a
    can do so only if a distinguishes the examples.

    Parameters
    ----------
    conditional : Module
        Maps a to the output.
    likelihood : Likelihood
        The likelihood of the labels.
    """

    gradients: ClassVar = {"conditional": ("conditional",)}

    def __init__(self, conditional: nn.Module, *, likelihood: Likelihood = Categorical()) -> None:
        super().__init__()
        self.conditional, self.likelihood = conditional, likelihood

    def conditional_output(self, batch: Batch) -> Tensor:
        """Return q(y | a)."""
        return self.conditional(batch.a)  # type: ignore[no-any-return]


def distillation(parts: Parts, *, temperature: float = 3.0, weight: float = 0.5) -> Distillation:
    """Make the method "distillation", whose teacher uses no privileged information either."""
    return Distillation(no_pi(parts), no_pi(parts), temperature=temperature, weight=weight)


TEACHERS = ("both", "privileged", "linear")


def make_teacher(parts: Parts, sees: str) -> Conditional:
    """Make a teacher that sees "both" x and a, only the "privileged" information, or is a "linear" function of it."""
    if sees not in TEACHERS:
        raise ValueError(f"Expected `teacher` to be one of {', '.join(TEACHERS)}, but got {sees!r}.")
    if sees == "both":
        return zero_imputation(parts)
    widths = parts.tower_widths[:1] if sees == "privileged" else ()
    return PrivilegedTeacher(MLP(parts.privileged, widths, parts.outputs), likelihood=parts.likelihood)


def generalized_distillation(
    parts: Parts, *, temperature: float = 3.0, weight: float = 0.5, teacher: str = "both"
) -> GeneralizedDistillation:
    """Make the method "generalized-distillation"; the authors' experiments use the `teacher` "linear"."""
    return GeneralizedDistillation(make_teacher(parts, teacher), no_pi(parts), temperature=temperature, weight=weight)


def distilled_tram(parts: Parts, *, temperature: float = 3.0, weight: float = 0.5) -> DistilledTRAM:
    """Make the method "distilled-tram"."""
    student = SoftTRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head(), likelihood=parts.likelihood)
    return DistilledTRAM(zero_imputation(parts), student, temperature=temperature, weight=weight)
