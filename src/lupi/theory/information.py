"""How much privileged information tells of the label beyond the input: I(y; a | x), in nats.

Exact for the paper's synthetic process, by the paper's bins, and from data: the gap between the held-out losses of
q(y | x) and q(y | x, a).

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), sections 1 and 2 and the appendix that varies ε.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import t as student
from sklearn.model_selection import GroupKFold
from sklearn.utils.multiclass import type_of_target
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_positive
from lupi.data import Annotations, Batch, SparseRows
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.methods import Method
from lupi.nn import Parts, Tower
from lupi.nn.inference import over_annotations
from lupi.nn.towers import FixedTower

NOISY = 0.3
"""Share of the synthetic labels that the noisy annotator gives."""
COMPONENTS = 8
"""Gaussians of the mixture density of a real y."""
SMALLEST_SCALE = 1e-2
"""Of a component, where y has standard deviation 1."""
SMALLEST = 1e-7
"""Least probability of a label: a class that a fold has not seen costs both models the same."""
TRAINING: Mapping[str, Any] = {"epochs": 20, "learning_rate": 3e-3, "training": {"schedule": "cosine"}}
"""How both models of the gap are trained: parameters of the estimators."""
STEPS = 50
"""Steps of an epoch, which says how large a batch is; it holds 32 annotations or more."""

Floats = NDArray[np.float64]


def draw_synthetic(
    n: int, noise: float, rng: np.random.Generator, noisy: float = NOISY, span: tuple[float, float] = (0.0, 1.0)
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Draw x, a and y of the synthetic process: y = (1 − a) sin 2πx + a v + ε.

    x ~ U(`span`), a ~ Bernoulli(`noisy`), v ~ U(−1, 1), ε ~ N(0, `noise`²).

    Examples
    --------
    >>> x, a, y = draw_synthetic(5, 0.1, np.random.default_rng(0))
    >>> x.shape, a.tolist()
    ((5,), [0, 0, 0, 0, 0])
    """
    x, a = rng.uniform(*span, size=n), (rng.uniform(size=n) < noisy).astype(np.int64)
    y = (1 - a) * np.sin(2 * np.pi * x) + a * rng.uniform(-1, 1, size=n)
    return x, a, y + noise * rng.normal(size=n)


def log_densities(signal: Floats, y: Floats, noise: float) -> tuple[Floats, Floats]:
    """Compute log p(y | x, a) for a = 0 and a = 1, where `signal` is sin 2πx.

    a = 0 is N(sin 2πx, ε²). a = 1 is U(−1, 1) + N(0, ε²), with density (Φ((y + 1)/ε) − Φ((y − 1)/ε)) / 2.
    """
    careful = -((y - signal) ** 2) / (2 * noise**2) - math.log(noise * math.sqrt(2 * math.pi))
    y = -np.abs(y)  # of the two tails the one in which Φ keeps its digits
    return careful, np.log((ndtr((y + 1) / noise) - ndtr((y - 1) / noise)) / 2)


def exact_information(noise: float, noisy: float = NOISY) -> float:
    """Compute I(y; a | x) of the synthetic process by quadrature.

    E_x Σ_a p(a) ∫ p(y | x, a) log(p(y | x, a) / p(y | x)) dy. The integrand is smooth and periodic in x and vanishes
    at both ends of y, so that sums over even grids converge faster than any power of their step.

    Examples
    --------
    >>> [round(exact_information(noise), 4) for noise in (0.1, 0.5, 1.0, 1.5, 2.0)]
    [0.3998, 0.1376, 0.0476, 0.0224, 0.0129]
    """
    noise = check_positive("noise", noise)
    if not 0 < noisy < 1:
        raise ValueError(f"Expected `noisy` to be a number between 0 and 1, but got {noisy!r}.")
    points = 2 * math.ceil(32 + 8 / math.sqrt(noise))  # near the crests of the sine, y's edge is √ε wide in x
    step = noise / 8
    y = np.arange(-1 - 10 * noise, 1 + 10 * noise, step)
    total = 0.0
    for x in (np.arange(points // 2) + 0.5) / points - 0.25:  # from trough to crest; the way back is the same
        careful, random = log_densities(np.sin(2 * np.pi * x), y, noise)
        marginal = np.logaddexp(math.log(1 - noisy) + careful, math.log(noisy) + random)
        gain = (1 - noisy) * np.exp(careful) * (careful - marginal) + noisy * np.exp(random) * (random - marginal)
        total += float(gain.sum()) * step
    return total / (points // 2)


def plug_in_information(x: NDArray[np.intp], a: NDArray[np.intp], y: NDArray[np.intp]) -> float:
    """Compute I(y; a | x) of the frequencies of discrete values, 0, 1, … each.

    H(x, y) + H(x, a) − H(x) − H(x, y, a). A sample leaves cells emptier than they are, so the entropy of frequencies is
    too low, by about (cells − 1) / 2n (Miller and Madow, 1955), most for the last of the four. So this is too high.

    Examples
    --------
    >>> x, a, y = np.zeros(4, int), np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    >>> plug_in_information(x, a, y)  # log 2
    0.6931471805599453
    """
    shape = tuple(int(values.max()) + 1 for values in (x, a, y))
    counts = np.bincount(np.ravel_multi_index((x, a, y), shape), minlength=math.prod(shape)).reshape(shape)
    return entropy(counts.sum(1)) + entropy(counts.sum(2)) - entropy(counts.sum((1, 2))) - entropy(counts)


def entropy(counts: NDArray[np.intp]) -> float:
    """Entropy of frequencies."""
    share = counts[counts > 0] / counts.sum()
    return -float(np.sum(share * np.log(share)))


def binned_information(x: Floats, a: NDArray[np.int64], y: Floats, bins: int) -> float:
    """Compute I(y; a | x) of real x and y by so many bins of equal width for each, over the range of the sample.

    Examples
    --------
    >>> x, a, y = draw_synthetic(100_000, 1.0, np.random.default_rng(0))
    >>> f"{binned_information(x, a, y, bins=60):.3f}, exactly {exact_information(1.0):.3f}"
    '0.062, exactly 0.048'
    >>> shuffled = np.random.default_rng(1).permutation(a)  # tells nothing
    >>> f"{binned_information(x, shuffled, y, bins=60):.3f}, exactly 0"
    '0.013, exactly 0'
    """
    bins = check_integer("bins", bins, 2)
    return plug_in_information(equal_bins(x, bins), a, equal_bins(y, bins))


def equal_bins(values: Floats, bins: int) -> NDArray[np.intp]:
    """Return the bin of each value."""
    return np.digitize(values, np.linspace(values.min(), values.max(), bins + 1)[1:-1])


@dataclass(frozen=True)
class Information:
    """I(y; a | x) as estimated from data: the estimate, its standard error and its interval."""

    estimate: float
    standard_error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"


def cross_entropy_gap(
    marginal: ArrayLike, conditional: ArrayLike, *, example: Any = None, level: float = 0.95
) -> Information:
    r"""Estimate I(y; a | x) by the mean of log q(y | x, a) − log q(y | x) over held-out annotations.

    Its expectation is I(y; a | x) + KL(p(y | x) ‖ q(y | x)) − KL(p(y | x, a) ‖ q(y | x, a)). So it is exact up to the
    misfit of the two models. What q(y | x, a) misses lowers it and what q(y | x) misses raises it: only where q(y | x)
    is right is it a lower bound. The interval is for the choice of the held-out examples; it does not hold the misfit,
    nor that other seeds or folds would have trained other models.

    Parameters
    ----------
    marginal, conditional : array
        −log q(y | x) and −log q(y | x, a) of each annotation, by models that were not trained on its example.
    example : array, optional
        Ids of examples: annotations of one example are not independent, so the standard error is clustered.
    level : float
        Coverage of the interval, that of Student's t with one degree of freedom less than there are examples.

    Examples
    --------
    >>> print(cross_entropy_gap([0.7, 0.7, 0.7, 0.7], [0.5, 0.4, 0.6, 0.5]))
    0.2000 [0.0701, 0.3299]
    """
    losses = np.asarray(marginal, dtype=np.float64), np.asarray(conditional, dtype=np.float64)
    for name, values in zip(("marginal", "conditional"), losses, strict=True):
        if values.ndim != 1 or not np.isfinite(values).all():
            raise ValueError(f"Expected `{name}` to be a finite loss per annotation, but got {values!r}.")
    if len(losses[0]) != len(losses[1]):
        raise ValueError(f"Expected `conditional` to have {len(losses[0])} losses, but got {len(losses[1])}.")
    if not 0 < level < 1:
        raise ValueError(f"Expected `level` to be a number between 0 and 1, but got {level!r}.")
    gain = losses[0] - losses[1]
    n = len(gain)
    groups = pd.factorize(np.asarray(example))[0] if example is not None else np.arange(n)
    if len(groups) != n:
        raise ValueError(f"Expected `example` to have {n} ids, but got {len(groups)}.")
    examples = len(np.unique(groups))
    if examples < 2:
        raise ValueError(f"Expected annotations of at least 2 examples, but got {examples}.")
    estimate = float(gain.mean())
    sums = np.bincount(groups, gain - estimate)
    error = math.sqrt(examples / (examples - 1) * float(sums @ sums)) / n
    reach = float(student.ppf((1 + level) / 2, examples - 1)) * error
    return Information(estimate, error, estimate - reach, estimate + reach)


def estimate_information(
    X: Any,
    y: Any,
    A: Any,
    *,
    example: Any = None,
    folds: int = 3,
    level: float = 0.95,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Information:
    """Estimate I(y; a | x) from data: `cross_entropy_gap` of two models that are trained out of fold.

    Parameters
    ----------
    X, y, A : array or DataFrame
        Inputs, labels and privileged information, one row per annotation.
    example, folds, parameters, seed
        As of `held_out_losses`.
    level : float
        As of `cross_entropy_gap`, which says what the interval holds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, careless = rng.integers(2, size=600), rng.integers(2, size=600)
    >>> y = np.where(careless, rng.integers(2, size=600), truth)  # I(y; a | x) = 0.216
    >>> found = estimate_information(truth[:, None], y, careless[:, None], folds=2, parameters={"epochs": 10})
    >>> found.low < 0.216 < found.high
    True
    """
    options: Any = {"example": example, "folds": folds, "parameters": parameters, "seed": seed}
    marginal = held_out_losses(X, y, None, **options)
    conditional = held_out_losses(X, y, A, **options)
    return cross_entropy_gap(marginal, conditional, example=example, level=level)


def held_out_losses(
    X: Any,
    y: Any,
    A: Any,
    *,
    example: Any = None,
    folds: int = 3,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    real: bool | None = None,
) -> Floats:
    """Compute −log q(y | x, a) of each annotation by models that were trained without its fold.

    A y of classes has the plain network with privileged information ("zero-imputation"); a real y that network with
    a mixture of Gaussians for its density, since a single one, too wide for both models, would hide the gap.

    Parameters
    ----------
    X, y : array or DataFrame
        Inputs and labels, one row per annotation. A y of several columns of 0 and 1 is multi-label; their losses are
        summed.
    A : array or DataFrame or None
        Privileged information; None gives q(y | x). It is the same network with a blank for a, not the shallower No
        PI: else what depth does would count as information.
    example : array, optional
        Rows with equal ids are one example: it is never in training and held out at once.
    folds : int
        Number of folds.
    parameters : mapping, optional
        Parameters of `PrivilegedClassifier` or `PrivilegedRegressor` beside or instead of `TRAINING` and a
        batch size by `STEPS`.
    seed : int
        Seed of folds, initial weights and batches.
    real : bool, optional
        Whether y is real numbers; by default it is if some have a fractional part.

    Returns
    -------
    ndarray
        [annotations] nats.

    Examples
    --------
    >>> x, a, y = draw_synthetic(300, 0.1, np.random.default_rng(0))
    >>> held_out_losses(x[:, None], y, a[:, None], folds=2, parameters={"epochs": 1}).shape
    (300,)
    """
    folds = check_integer("folds", folds, 2)
    y = np.asarray(y)
    if y.ndim != 1 and type_of_target(y) != "multilabel-indicator":
        raise ValueError(f"Expected `y` to be one label per annotation, or 0 and 1, but got shape {y.shape}.")
    if A is None:
        A = np.zeros((len(y), 1))
    groups = np.arange(len(y)) if example is None else pd.factorize(np.asarray(example))[0]
    real = type_of_target(y) == "continuous" if real is None else real
    size = max(32, len(y) * (folds - 1) // folds // STEPS)
    chosen = {**TRAINING, "batch_size": size, "random_state": seed, **(parameters or {})}
    losses = np.empty(len(y))
    for train, test in GroupKFold(folds, shuffle=True, random_state=seed).split(y, groups=groups):
        estimator = (
            PrivilegedRegressor(mixture, **chosen) if real else PrivilegedClassifier("zero-imputation", **chosen)
        )
        estimator.fit(rows(X, train), y[train], privileged=rows(A, train), example=groups[train])
        score = density_losses if real else class_losses
        losses[test] = score(estimator, rows(X, test), y[test], rows(A, test))
    return losses


def rows(table: Any, index: NDArray[np.intp]) -> Any:
    """Select rows of an array, tensor or frame."""
    return table.iloc[index] if isinstance(table, pd.DataFrame | pd.Series) else table[index]


def class_losses(model: PrivilegedClassifier, X: Any, y: NDArray[Any], A: Any) -> Floats:
    """−log q(y | x, a) of classes."""
    p = model.predict_proba_given(X, A)
    if y.ndim == 2:
        return np.asarray(-np.log(np.maximum(np.where(y == 1, p, 1 - p), SMALLEST)).sum(1))
    place = pd.Index(model.classes_).get_indexer(pd.Index(y))
    own = np.where(place < 0, 0.0, p[np.arange(len(y)), place])
    return np.asarray(-np.log(np.maximum(own, SMALLEST)))


def density_losses(model: PrivilegedRegressor, X: Any, y: Floats, A: Any) -> Floats:
    """−log q(y | x, a) of real numbers."""
    x = torch.as_tensor(X if model.input_encoder_ is None else model.input_encoder_.transform(X))
    encoder: Any = model.privileged_encoder_
    method: Any = model.method_
    a = SparseRows.from_matrix(encoder.transform(A))
    standard = torch.from_numpy(((y - model.y_mean_) / model.y_scale_).astype(np.float32))
    data = Annotations(x, torch.arange(len(y)), a, standard)
    losses = over_annotations(method, method.each, data)
    return losses.double().cpu().numpy() + math.log(model.y_scale_)


class MixtureDensity(Method):
    r"""A density of y with several modes: Σ_j π_j N(m_j, s_j²), all functions of ψ(φ(x), a) (Bishop, 1994).

    Parameters
    ----------
    trunk, tower, conditional : Module
        φ(x), ψ(φ, a), and the head on ψ: for each component log π, m and s before a softplus.
    """

    gradients: ClassVar = {"conditional": ("trunk", "tower", "conditional")}
    places: Tensor

    def __init__(self, trunk: nn.Module, tower: Tower, conditional: nn.Module) -> None:
        super().__init__()
        self.trunk, self.tower, self.conditional = trunk, tower, conditional
        self.register_buffer("places", torch.linspace(-1.5, 1.5, COMPONENTS))

    def each(self, batch: Batch) -> Tensor:
        """−log q(y | x, a) of each annotation, for a y of mean 0 and standard deviation 1."""
        output = self.conditional(self.tower(batch.spread(self.trunk(batch.x)), batch.a))
        weight, mean, scale = output.chunk(3, -1)
        scale = F.softplus(scale) + SMALLEST_SCALE
        z = (batch.y[:, None] - self.places - mean) / scale  # components begin apart, else they stay together
        log_component = -0.5 * z.square() - scale.log() - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(torch.log_softmax(weight, -1) + log_component, -1)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Mean of −log q(y | x, a)."""
        return {"conditional": self.each(batch).mean()}

    def predictor(self) -> nn.Module:
        """Parameters of the density at a = 0."""
        blank = self.places.new_zeros(self.tower.first.in_features)
        return nn.Sequential(self.trunk, FixedTower(self.tower, blank), self.conditional)


def mixture(parts: Parts) -> MixtureDensity:
    """Make a mixture density."""
    return MixtureDensity(parts.trunk(), parts.tower(), nn.Linear(parts.tower_features, 3 * COMPONENTS))
