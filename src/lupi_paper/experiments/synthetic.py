"""The common part of the synthetic experiments: representations learned with and without privileged information.

Step 1 trains φ(x) with a head on φ(x), or on [φ(x), a]; step 2 freezes φ and fits a linear model on it. All seeds of a
variant train together.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 2.2 and the appendices on hyperparameters and ε. The
paper does not state initialization, batch size, learning rate and ridge; the defaults here are those of Keras, which
reproduce its figures.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from torch import Tensor, nn

from lupi.compare import Arm, run_arms, to_frame
from lupi.data import Annotations, Batch
from lupi.likelihoods import Likelihood
from lupi.methods import Method
from lupi.nn import MLP, over_examples
from lupi.settings import Settings
from lupi.training import fit_seeds
from lupi_paper.findings import COLOURS, draw_strips, make_figure
from lupi_paper.settings import check_settings, seed_range
from lupi_paper.theory.information import draw_synthetic

Floats = NDArray[np.float64]
Variant = Literal["no PI", "PI", "zeros", "shuffled", "noise"]
VARIANTS: dict[Variant, str] = {
    "no PI": "a linear head on φ(x)",
    "PI": "a head with a hidden layer on [φ(x), a]",
    "zeros": "the same head on [φ(x), 0]",
    "shuffled": "the same head, a shuffled between examples",
    "noise": "the same head, a replaced by N(0, 1)",
}
PAIR: tuple[Variant, ...] = ("no PI", "PI")
SHADES: dict[str, str] = {"no PI": COLOURS["no-pi"], "PI": COLOURS["pi"]}
WIDTH = 64
LEAST = {"seed": 0, "seeds": 2, "n": 10, "epochs": 1}
"""Smallest values of settings."""
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


@dataclass(frozen=True)
class Protocol:
    """Data, and how representations are learned."""

    seed: int = 0
    seeds: int = 20
    n: int = 2500
    noise: float = 0.1
    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 1e-3
    initialization: str = "glorot"
    head: str = "tanh"
    long: int = 200

    def __post_init__(self) -> None:
        choices = {"initialization": ("glorot", "torch"), "head": ACTIVATIONS}
        least = LEAST | {"batch_size": 1, "long": 1}
        check_settings(self, least, positive=["noise", "learning_rate"], choices=choices)

    @property
    def is_published(self) -> bool:
        """Whether the paper's numbers are for these settings, apart from seeds and the longer control."""
        return self == replace(type(self)(), seed=self.seed, seeds=self.seeds, long=self.long)


class Sample(NamedTuple):
    """A training set of the synthetic process."""

    x: Floats
    a: NDArray[np.int64]
    y: Floats


def draw_samples(n: int, noise: float, seeds: Sequence[int], span: tuple[float, float] = (0.0, 1.0)) -> list[Sample]:
    """Draw a training set for each seed."""
    return [Sample(*draw_synthetic(n, noise, np.random.default_rng(seed), span=span)) for seed in seeds]


class Representation(Method):
    """φ(x) and a head on [φ(x), a]; the predictor is φ."""

    gradients: ClassVar = {"conditional": ("trunk", "head")}

    def __init__(self, trunk: nn.Module, head: nn.Module, likelihood: Likelihood) -> None:
        super().__init__()
        self.trunk, self.head, self.likelihood = trunk, head, likelihood

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return L(y, q(y | x, a))."""
        output = self.head(torch.cat([batch.spread(self.trunk(batch.x)), batch.a], -1))
        return {"conditional": self.likelihood.loss(output, batch.y, batch.weight)}

    def predictor(self) -> nn.Module:
        """Return φ."""
        return self.trunk


def make_representation(variant: Variant, likelihood: Likelihood, protocol: Protocol, seed: int) -> Representation:
    """Make the network of a variant; φ has two layers of 64 units and tanh."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk = MLP(1, (WIDTH, WIDTH), activation=nn.Tanh)
        on_both = MLP(WIDTH + 1, (WIDTH,), 1, activation=ACTIVATIONS[protocol.head])
        head = MLP(WIDTH, (), 1) if variant == "no PI" else on_both
        method = Representation(trunk, head, likelihood)
        if protocol.initialization == "glorot":
            for module in method.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight)
                    nn.init.zeros_(module.bias)
    return method


def make_privileged(variant: Variant, sample: Sample, seed: int) -> Floats:
    """Return the second input of the head, in addition to φ(x), [n, 1] or [n, 0]."""
    rng, n = np.random.default_rng((seed, 1)), len(sample.x)
    columns: dict[Variant, Any] = {
        "no PI": np.zeros((n, 0)),
        "PI": sample.a,
        "zeros": np.zeros(n),
        "shuffled": rng.permutation(sample.a),
        "noise": rng.normal(size=n),
    }
    return np.asarray(columns[variant], dtype=np.float64).reshape(n, -1)


def learn_representations(
    variant: Variant,
    samples: Sequence[Sample],
    targets: Sequence[Floats],
    likelihood: Likelihood,
    protocol: Protocol,
    seeds: Sequence[int],
) -> list[nn.Module]:
    """Learn φ of a variant for all seeds together."""
    methods = [make_representation(variant, likelihood, protocol, seed) for seed in seeds]
    data = [
        Annotations(
            torch.from_numpy(sample.x[:, None]).float(),
            torch.arange(len(sample.x)),
            torch.from_numpy(make_privileged(variant, sample, seed)).float(),
            torch.from_numpy(target).float(),
        )
        for sample, target, seed in zip(samples, targets, seeds, strict=True)
    ]
    training = Settings(epochs=protocol.epochs, batch_size=protocol.batch_size, learning_rate=protocol.learning_rate)
    fit_seeds(methods, data, training, seeds=seeds)
    return [method.trunk for method in methods]


def compute_features(trunk: nn.Module, x: Floats) -> Floats:
    """Return φ(x), [n, 64]."""
    return over_examples(trunk, torch.from_numpy(x[:, None]).float()).double().numpy()


def make_grid(span: tuple[float, float], points: int = 1000) -> Floats:
    """Return the points at which fits are compared with the truth: the centres of equal cells."""
    return span[0] + (span[1] - span[0]) * (np.arange(points) + 0.5) / points


def fit_probe(probe: Any, trunk: nn.Module, sample: Sample, target: Any, x: Floats) -> Floats:
    """Fit a probe on φ(x), and predict at other points x: means, or probabilities of class 1."""
    fitted = clone(probe).fit(compute_features(trunk, sample.x), target)
    at = compute_features(trunk, x)
    return np.asarray(fitted.predict_proba(at)[:, 1] if is_classifier(probe) else fitted.predict(at))


def train_variants(
    train: Callable[[Any, Variant, Sequence[int]], Sequence[Mapping[str, Any]]],
    arms: Mapping[str, tuple[Any, Variant]],
    settings: Any,
    *,
    progress: bool = False,
) -> tuple[pd.DataFrame, dict[str, Floats]]:
    """Train variants, all seeds of one together; return a table of the scores, and the curves by arm, [seeds, x]."""
    made = [Arm(name=name, train=partial(train, own, variant)) for name, (own, variant) in arms.items()]
    runs = run_arms(made, seed_range(settings), seeds_at_once=settings.seeds, progress=progress)
    curves = {name: np.stack([run.values["curve"] for run in runs if run.arm == name]) for name in arms}
    return to_frame(runs).rename(columns={"method": "variant"}), curves


def list_arms(settings: Any, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, Variant]]:
    """List all variants, and the pair without and with PI again, longer and under each change of the settings."""
    arms: dict[str, tuple[Any, Variant]] = {variant: (settings, variant) for variant in VARIANTS}
    for name, change in {f"{settings.long} epochs": {"epochs": settings.long}, **changes}.items():
        arms |= {f"{variant}, {name}": (replace(settings, **change), variant) for variant in PAIR}
    return arms


def by_variant(table: pd.DataFrame, metric: str) -> dict[str, Floats]:
    """Return the values of all seeds by the name of the arm."""
    return {str(name): values.to_numpy() for name, values in table.groupby("variant")[metric]}


def fits_figure(
    curves: Mapping[str, Floats], x: Floats, draw_truth: Callable[[Any], None], label: str, **limits: Any
) -> Figure:
    """Draw the curves of every seed without and with PI over what `draw_truth` draws."""

    def draw(axes: Sequence[Any]) -> None:
        for axis, variant in zip(axes, PAIR, strict=True):
            draw_truth(axis)
            axis.plot(x, curves[variant].T, color=SHADES[variant], lw=0.8, alpha=0.5)
            axis.plot([], [], color=SHADES[variant], label=f"{variant}, {len(curves[variant])} seeds")
            axis.set(title=f"φ learned with {variant}", xlabel="x", **limits)
            axis.legend(loc="upper right", fontsize=8, ncols=2)
        axes[0].set_ylabel(label)

    return make_figure(draw, 2, figsize=(9.6, 4.0))


def strips_figure(values: Mapping[str, Floats], long: int, label: str, scale: str) -> Figure:
    """Draw the values of every seed of every variant, and of the pair that trains for `long` epochs."""
    names = [*VARIANTS, *(f"{variant}, {long} epochs" for variant in PAIR)]
    rows = [(name, values[name], SHADES.get(name.split(",")[0], COLOURS["control"])) for name in names]

    def draw(axes: Sequence[Any]) -> None:
        draw_strips(axes[0], rows, label)
        axes[0].set_xscale(scale)

    return make_figure(draw, figsize=(7.2, 3.8))
