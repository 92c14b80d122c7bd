"""Accuracy on true labels where some annotators always answer 0: ``python -m benchmarks.spammers``.

Three classes, 400 examples, ten annotators; the others are right 90 % of the time. Mean, lowest and highest of ten
seeds. With the argument ``anchored``, seven spammers and one label per example, with some true labels or a trusted
annotator, and three seeds.
"""

import math
import sys
from dataclasses import replace

import torch
from torch import Tensor

from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import fit

EXAMPLES, TEST, ANNOTATORS = 400, 2000, 10


def make_crowd(seed: int, each: int, spammers: int) -> tuple[Annotations, Tensor, Tensor]:
    """Return annotations with `each` labels per example, with all true labels, and test inputs with theirs."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(EXAMPLES + TEST, 5, generator=generator)
    truth = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    row = torch.arange(EXAMPLES).repeat_interleave(each)
    who = torch.randint(ANNOTATORS, (len(row),), generator=generator)
    right = torch.rand(len(row), generator=generator) < 0.85
    y = torch.where(right, truth[row], torch.randint(3, (len(row),), generator=generator))
    y = torch.where(who < spammers, torch.zeros_like(y), y)
    data = Annotations(x[:EXAMPLES], row, torch.eye(ANNOTATORS)[who], y, who, gold=truth[:EXAMPLES])
    return data, x[EXAMPLES:], truth[EXAMPLES:]


def measure(name: str, seed: int, each: int, spammers: int, *, known: int = 0, trusted: int = 0) -> float:
    """Train a method, knowing some true labels and trusting the last annotators; return its accuracy on true labels."""
    data, x, truth = make_crowd(seed, each, spammers)
    assert data.gold is not None
    trust = torch.full((ANNOTATORS,), math.nan)
    trust[ANNOTATORS - trusted :] = 0.9
    gold = torch.where(torch.arange(EXAMPLES) < known, data.gold, -1)
    data = replace(data, gold=gold if known else None, trust=trust if trusted else None)
    torch.manual_seed(seed)
    parts = Parts(
        lambda: MLP(5, (32,)),
        features=32,
        privileged=ANNOTATORS,
        outputs=3,
        likelihood=Categorical(),
        tower_widths=(16, 16),
    )
    method = build(name, parts)
    fit(method, data, Settings(epochs=20, batch_size=32, learning_rate=0.005))
    with torch.no_grad():
        return float((method.predictor()(x).argmax(1) == truth).double().mean())


if __name__ == "__main__":
    if "anchored" in sys.argv:
        for name in ("no-pi", "label-posterior", "auto"):
            for known, trusted in ((0, 0), (20, 0), (40, 0), (0, 1)):
                found = [f"{measure(name, seed, 1, 7, known=known, trusted=trusted):.2f}" for seed in (0, 1, 2)]
                print(f"{known:2} true labels, {trusted} trusted, {name:16} {' '.join(found)}", flush=True)
        sys.exit()
    for each in (1, 3):
        for spammers in (2, 5, 6, 7):
            for name in ("no-pi", "pi-transition", "label-posterior", "auto"):
                scores = [measure(name, seed, each, spammers) for seed in range(10)]
                shown = f"{sum(scores) / 10:.2f} ({min(scores):.2f} to {max(scores):.2f})"
                print(f"{each} labels per example, {spammers} spammers, {name:16} {shown}", flush=True)
