"""Compute how informative a is about y beyond x: I(y; a | x), in nats.

The value is exact for the paper's synthetic process, or from a sample by the paper's bins;
`lupi.diagnose.estimate_information` estimates it from data of any kind.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), sections 1 and 2 and the appendix that varies ε.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from lupi_paper.settings import check_number

NOISY = 0.3
"""Share of the synthetic labels that the noisy annotator gives."""

SMALLEST = 1e-4
"""Smallest standard deviation of ε: the grids of `exact_information` grow as it falls."""
Floats = NDArray[np.float64]


def draw_synthetic(
    n: int, noise: float, rng: np.random.Generator, noisy: float = NOISY, span: tuple[float, float] = (0.0, 1.0)
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Draw x, a and y from the synthetic process y = (1 − a) sin 2πx + a v + ε.

    x is uniform in `span`, a is 1 with probability `noisy`, v ~ U(−1, 1), and ε has the standard deviation `noise`.

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
    """Return log p(y | x, a) for a = 0 and a = 1, where `signal` is sin 2πx.

    a = 0 is N(sin 2πx, ε²). a = 1 is U(−1, 1) + N(0, ε²), with density (Φ((y + 1)/ε) − Φ((y − 1)/ε)) / 2.
    """
    careful = -((y - signal) ** 2) / (2 * noise**2) - math.log(noise * math.sqrt(2 * math.pi))
    y = -np.abs(y)  # the tail in which Φ is accurate
    return careful, np.log((ndtr((y + 1) / noise) - ndtr((y - 1) / noise)) / 2)


def exact_information(noise: float, noisy: float = NOISY) -> float:
    """Compute I(y; a | x) of the synthetic process by quadrature.

    It is E_x Σ_a p(a) ∫ p(y | x, a) log(p(y | x, a) / p(y | x)) dy. The integrand is smooth and periodic in x and
    vanishes at both ends of y, so that sums over regular grids converge faster than any power of the step.

    Parameters
    ----------
    noise : float
        Standard deviation of ε.
    noisy : float
        Probability of a = 1.

    Examples
    --------
    >>> [round(exact_information(noise), 4) for noise in (0.1, 0.5, 1.0, 1.5, 2.0)]
    [0.3998, 0.1376, 0.0476, 0.0224, 0.0129]
    """
    check_noise(noise)
    if not 0 < noisy < 1:
        raise ValueError(f"Expected `noisy` to be between 0 and 1, but got {noisy!r}.")
    points = 2 * math.ceil(32 + 8 / math.sqrt(noise))  # near the crests of the sine, the edge of y is √ε wide in x
    step = noise / 8
    y = np.arange(-1 - 10 * noise, 1 + 10 * noise, step)
    total = 0.0
    for x in (np.arange(points // 2) + 0.5) / points - 0.25:  # from trough to crest; the rest is symmetric
        careful, random = log_densities(np.sin(2 * np.pi * x), y, noise)
        marginal = np.logaddexp(math.log(1 - noisy) + careful, math.log(noisy) + random)
        gain = (1 - noisy) * np.exp(careful) * (careful - marginal) + noisy * np.exp(random) * (random - marginal)
        total += float(gain.sum()) * step
    return total / (points // 2)


def check_noise(noise: float) -> None:
    """Check that a standard deviation of ε is at least `SMALLEST`."""
    if check_number("noise", noise, above=True) < SMALLEST:
        raise ValueError(f"Expected `noise` to be at least {SMALLEST:g}, but got {noise:g}.")


def plug_in_information(x: NDArray[np.intp], a: NDArray[np.intp], y: NDArray[np.intp]) -> float:
    """Compute I(y; a | x) from the frequencies of discrete values 0, 1, ….

    It is H(x, y) + H(x, a) − H(x) − H(x, y, a). The entropy of frequencies is biased downwards by about
    (cells − 1) / 2n (Miller and Madow, 1955), most for the last of the four terms, so this estimate is biased upwards.

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
    """Return the entropy of frequencies."""
    share = counts[counts > 0] / counts.sum()
    return -float(np.sum(share * np.log(share)))


def binned_information(x: Floats, a: NDArray[np.int64], y: Floats, bins: int) -> float:
    """Compute I(y; a | x) of real x and y, each discretized into `bins` bins of equal width over its range.

    Examples
    --------
    >>> x, a, y = draw_synthetic(100_000, 1.0, np.random.default_rng(0))
    >>> f"{binned_information(x, a, y, bins=60):.3f}, exactly {exact_information(1.0):.3f}"
    '0.062, exactly 0.048'
    >>> shuffled = np.random.default_rng(1).permutation(a)  # independent of y
    >>> f"{binned_information(x, shuffled, y, bins=60):.3f}, exactly 0"
    '0.013, exactly 0'
    """
    bins = check_number("bins", bins, 2, whole=True)
    return plug_in_information(equal_bins(x, bins), a, equal_bins(y, bins))


def equal_bins(values: Floats, bins: int) -> NDArray[np.intp]:
    """Return the bin of each value."""
    return np.digitize(values, np.linspace(values.min(), values.max(), bins + 1)[1:-1])
