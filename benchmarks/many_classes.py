"""A heteroscedastic head with 5000 classes, against one with as many samples as for a few classes, all at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Result, at_least, ratio
from lupi.likelihoods import Categorical
from lupi.nn.heads import MIN_SCALE, HeteroscedasticHead, average_noisy_logits

CLASSES, FEATURES, ROWS = 5_000, 64, 8
SAMPLES, EVALUATION_SAMPLES = 100, 1_000


def results() -> Iterator[Result]:
    torch.manual_seed(0)
    head = HeteroscedasticHead(FEATURES, CLASSES, Categorical(), samples=SAMPLES, evaluation_samples=EVALUATION_SAMPLES)
    x, y = torch.randn(ROWS, FEATURES), torch.randint(CLASSES, (ROWS,))

    def step(output: Tensor) -> None:
        Categorical().loss(output, y).backward()

    def draw(*shape: int) -> tuple[Tensor, Tensor]:
        return torch.randn(*shape, head.factors), torch.randn(*shape, head.outputs)

    value = ratio(lambda: step(average(head, x, draw(ROWS, SAMPLES))), lambda: step(head.train()(x)), rounds=3)
    remark = f"{CLASSES} classes, batch of {ROWS}; {SAMPLES} / {head.samples} samples"
    yield at_least("heteroscedastic head, training step, all samples / ours", value, 2, remark)
    with torch.no_grad():
        noise = draw(EVALUATION_SAMPLES)
        value = ratio(lambda: average(head, x, noise), lambda: head.eval()(x), rounds=3)
    remark = f"{CLASSES} classes, {ROWS} rows; {EVALUATION_SAMPLES} / {head.evaluation_noise.shape[1]} samples"
    yield at_least("heteroscedastic head, evaluation, all samples / ours", value, 4, remark)


def average(head: HeteroscedasticHead, x: Tensor, noise: tuple[Tensor, Tensor]) -> Tensor:
    """Return the output of a head for all noise at once."""
    assert head.factor is not None
    factor = head.factor(x).unflatten(-1, (head.outputs, head.factors))
    scale = F.softplus(head.scale(x)) + MIN_SCALE
    return average_noisy_logits(Categorical(), head.mean(x), factor, scale, noise, head.temperature)
