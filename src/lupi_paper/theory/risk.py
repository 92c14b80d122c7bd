"""When does privileged information help a linear model? Risks of four estimators, in closed form and simulated.

Collier, Jenatton, Kokiopoulou and Berent, "Transfer and Marginalize: Explaining Away Label Noise with Privileged
Information" (ICML 2022), https://arxiv.org/abs/2202.09244, the appendix "Risk analysis".

The design X is fixed, y = Xw* + Av* + ε with ε ~ N(0, σ²I), and a | x ~ N(μ(x), Σ(x)). Π_x projects on the span of X;
A_x⊥ = (I − Π_x)A and X_a⊥ = (I − Π_a)X; G_x⊥ and H_a⊥ are their pseudo-inverses; Λ = diag(v*ᵀ Σ(x_i) v*).

| estimator            | prediction                  | risk, without tr(σ²I + Λ)/n                     |
|----------------------|-----------------------------|-------------------------------------------------|
| `no-pi`              | Xŵ₀                         | ‖(I − Π_x)μ(X)v*‖²/n + σ²d/n + tr(Π_x Λ)/n      |
| `pi`                 | Xŵ₁ + μ(X)v̂₁                | σ²/n · E‖K‖²,  K = X H_a⊥ + μ(X) G_x⊥           |
| `marginalized-no-pi` | E[Xŵ₀], ε held fixed        | ‖(I − Π_x)μ(X)v*‖²/n + σ²d/n                    |
| `marginalized-pi`    | E[Xŵ₁ + Av̂₁], ε held fixed  | σ²/n · ‖E L‖²,  L = X H_a⊥ + A G_x⊥             |

ŵ₀ is least squares of y on X, and (ŵ₁, v̂₁) of y on [X, A]. Expectations are over A.

The table omits tr(σ²I + Λ)/n from every risk. It is the variance of a new label given x (`LinearModel.noise`), which
no predictor that sees only x can avoid.

With X H_a⊥ = Π_x(I − A G_x⊥) and G_x⊥ Π_x = 0, the two matrices and their norms become:

    K = Π_x + (μ(X) − Π_x A) G_x⊥    ‖K‖² = d + ‖(μ(X) − Π_x A) G_x⊥‖²
    L = Π_x + A_x⊥ G_x⊥              the projection on [X, A], so that ‖L‖² = d + m and ‖E L‖² ≤ d + m
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lupi_paper.settings import check_number

Array = NDArray[np.float64]
Seed = int | np.random.SeedSequence

ESTIMATORS = ("no-pi", "pi", "marginalized-no-pi", "marginalized-pi")
PROPOSITIONS = {"imputed": ("no-pi", "pi"), "marginalized": ("marginalized-no-pi", "marginalized-pi")}
"""The paper's two comparisons: PI helps if the second estimator has the lower risk."""

BLOCK = 50
"""Number of draws of A in a block; standard errors are computed from block means."""

NUMBERS = 2**21
"""Approximate number of values that a simulation holds in memory."""


class Estimate(NamedTuple):
    """A number and its standard error, which is 0 if the number is exact."""

    value: float
    error: float = 0.0


class Condition(NamedTuple):
    """The left side of a condition minus its right side: PI helps if and only if `exact` is positive.

    `exact` is the risk without PI minus the risk with PI. `sufficient` is the paper's second condition with the factor
    σ²/n that its proof gives: if it is positive, PI helps; if it is negative, it is inconclusive. `printed` lacks that
    factor, as in the paper; it is kept to show the erratum. The paper states both for m = 1, and its proof holds for
    any m if ‖B‖²/‖A_x⊥‖² is read as ‖B G_x⊥‖².
    """

    exact: Estimate
    sufficient: Estimate
    printed: Estimate


class Moments(NamedTuple):
    """Expectations over A without a simple closed form."""

    K: Estimate
    """E‖K‖²."""
    L: Estimate
    """‖E L‖²."""
    imputed: Estimate
    """E[‖Π_x A G_x⊥‖² + ‖μ(X) G_x⊥‖²]; for m = 1, E[(‖Π_x A‖² + ‖μ(X)‖²) / ‖A_x⊥‖²]."""
    marginalized: Estimate
    """E[‖Π_x A G_x⊥‖² + ‖A G_x⊥‖²]; for m = 1, E[(‖Π_x A‖² + ‖A‖²) / ‖A_x⊥‖²]."""


class Simulation(NamedTuple):
    """Risks measured on simulated data."""

    risks: dict[str, Estimate]
    """Risk of each estimator."""
    differences: dict[str, Estimate]
    """For each proposition, the risk without PI minus the risk with PI, on the same draws."""


class LinearModel:
    """y = x·w* + a·v* + ε with a | x ~ N(μ(x), Σ(x)), at n fixed inputs.

    Parameters
    ----------
    X : array of shape (n, d)
        Inputs, of rank d. At least d + m + 4 rows are required: with fewer, the risk with PI or the variance of its
        estimate is infinite if all rows of A vary. If Σ(x) is 0 at most rows, it may be infinite nevertheless.
    mu : array of shape (n, m)
        μ(X), the mean of A.
    covariance : array of shape (m, m) or (n, m, m)
        Σ(x), common to all rows or one per row.
    v : array of shape (m,)
        v*.
    sigma : float
        Standard deviation of ε.
    w : array of shape (d,), optional
        w*, 0 by default. The risks do not depend on it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2))
    >>> model = LinearModel(X, mu=X[:, :1] ** 2, covariance=np.eye(1), v=np.ones(1), sigma=1.0)
    >>> round(model.outside, 3), round(model.inside, 3), round(model.noise, 3)
    (1.662, 0.067, 2.0)
    """

    def __init__(self, X: Any, *, mu: Any, covariance: Any, v: Any, sigma: float, w: Any = None) -> None:
        self.X = check_array("X", X, None, None)
        self.n, self.d = self.X.shape
        self.mu = check_array("mu", mu, self.n, None)
        self.m = self.mu.shape[1]
        if self.n < self.d + self.m + 4:
            raise ValueError(f"Expected `X` to have at least d + m + 4 = {self.d + self.m + 4} rows, but got {self.n}.")
        check_rank("`X`", self.X)
        self.v = check_array("v", v, self.m)
        self.w = np.zeros(self.d) if w is None else check_array("w", w, self.d)
        self.sigma = check_number("sigma", sigma)
        self.root = covariance_root(covariance, self.n, self.m)
        self.basis: Array = np.linalg.qr(self.X)[0]
        # if one draw of [X, A] has full rank, almost all draws do
        check_rank("`X` and a drawn A", np.hstack([self.X, self.draw(stream(0), 1)[0]]))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw A `size` times, as an array of shape (size, n, m)."""
        z = rng.standard_normal((size, self.n, self.m))
        return np.asarray(self.mu + np.einsum("nij,snj->sni", self.root, z))

    def project(self, B: Array) -> Array:
        """Return Π_x B."""
        return np.asarray(self.basis @ (self.basis.T @ B))

    @property
    def pi_variance(self) -> Array:
        """v*ᵀ Σ(x_i) v* for each row, the diagonal of Λ."""
        return np.asarray(((self.root.swapaxes(1, 2) @ self.v) ** 2).sum(1))

    @property
    def noise(self) -> float:
        """tr(σ²I + Λ)/n, the term that all risks omit."""
        return float(self.sigma**2 + self.pi_variance.mean())

    @property
    def outside(self) -> float:
        """‖(I − Π_x)μ(X)v*‖²/n: the part of the mean of PI outside the span of X."""
        mean = self.mu @ self.v
        return float(((mean - self.project(mean)) ** 2).mean())

    @property
    def inside(self) -> float:
        """tr(Π_x Λ)/n: the variance of PI that No PI fits as if it were signal."""
        return float(((self.basis**2).sum(1) * self.pi_variance).mean())


def risks(model: LinearModel, *, draws: int = 10_000, seed: Seed = 0) -> dict[str, Estimate]:
    """Compute the closed-form risks of the four estimators, without the common noise tr(σ²I + Λ)/n.

    The two risks without PI are exact. The two with PI contain an expectation over A, averaged over `draws` draws.

    Examples
    --------
    If μ(X) is in the span of X and Σ is constant, E‖K‖² = d + dm / (n − d − m − 1) and
    ‖E L‖² = d + m² / (n − d).

    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> model = LinearModel(X, mu=X[:, :1], covariance=np.eye(1), v=np.ones(1), sigma=1.0)
    >>> for name, risk in risks(model).items():
    ...     print(f"{name:19} {risk.value:.3f}")
    no-pi               0.133
    pi                  0.069
    marginalized-no-pi  0.067
    marginalized-pi     0.068
    >>> round((2 + 2 / 26) / 30, 3), round((2 + 1 / 28) / 30, 3)
    (0.069, 0.068)
    """
    expected = moments(model, draws=draws, seed=seed)
    marginalized = model.outside + model.sigma**2 * model.d / model.n
    return {
        "no-pi": Estimate(marginalized + model.inside),
        "pi": affine(0.0, model.sigma**2 / model.n, expected.K),
        "marginalized-no-pi": Estimate(marginalized),
        "marginalized-pi": affine(0.0, model.sigma**2 / model.n, expected.L),
    }


def conditions(model: LinearModel, *, draws: int = 10_000, seed: Seed = 0) -> dict[str, Condition]:
    """Evaluate the exact and the sufficient condition of both propositions for PI to help.

    With mean imputation, `exact` is the first line and `sufficient` the second. With marginalization, tr(Π_x Λ) is
    omitted, and L replaces K and A replaces μ(X):

        ‖(I − Π_x)μ(X)v*‖²/n + tr(Π_x Λ)/n + σ²d/n > σ²/n · E‖K‖²
        ‖(I − Π_x)μ(X)v*‖²/n + tr(Π_x Λ)/n > 2σ²/n · E[(‖Π_x A‖² + ‖μ(X)‖²) / ‖A_x⊥‖²] + σ²d/n

    With marginalization there is a sharper condition without an expectation, ‖(I − Π_x)μ(X)v*‖² > σ²m, since
    ‖E L‖² ≤ d + m.

    Examples
    --------
    PI is far from the span of X, so it helps, and the sufficient conditions hold.

    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> model = LinearModel(X, mu=X[:, :1] ** 2, covariance=np.eye(1), v=np.ones(1), sigma=1.0)
    >>> for name, condition in conditions(model).items():
    ...     print(f"{name:13} {condition.exact.value:.2f} {condition.sufficient.value:.2f}")
    imputed       1.71 1.59
    marginalized  1.65 1.50
    """
    expected = moments(model, draws=draws, seed=seed)
    unit, plain = model.sigma**2 / model.n, model.outside + model.inside

    def condition(left: float, norm: Estimate, ratio: Estimate) -> Condition:
        return Condition(
            exact=affine(left + unit * model.d, -unit, norm),
            sufficient=affine(left - unit * model.d, -2 * unit, ratio),
            printed=affine(left - unit * model.d, -2.0, ratio),
        )

    return {
        "imputed": condition(plain, expected.K, expected.imputed),
        "marginalized": condition(model.outside, expected.L, expected.marginalized),
    }


def moments(model: LinearModel, *, draws: int = 10_000, seed: Seed = 0) -> Moments:
    """Estimate expectations over A by averaging draws, with standard errors from block means."""
    rng = stream(seed)
    blocks = math.ceil(check_number("draws", draws, 2 * BLOCK, whole=True) / BLOCK)
    values = np.array([block_moments(model, model.draw(rng, BLOCK)) for _ in range(blocks)])
    return Moments(*(average(column) for column in values.T))


def block_moments(model: LinearModel, A: Array) -> tuple[float, float, float, float]:
    """Return unbiased estimates of the four `Moments` from a few draws of A."""
    within = model.project(A)
    Q, R = np.linalg.qr(A - within)  # G_x⊥ = R⁻¹Qᵀ
    inverse = np.linalg.inv(R)

    def norm(B: Array) -> float:
        """Return the mean of ‖B G_x⊥‖²."""
        return float(((B @ inverse) ** 2).sum((1, 2)).mean())

    # ‖mean of L‖² is biased by the variance of the mean; products of different draws are unbiased
    size = len(A)
    wide = Q.transpose(1, 0, 2).reshape(model.n, -1)
    gram = wide @ wide.T if wide.shape[0] < wide.shape[1] else wide.T @ wide
    products = float((gram**2).sum() - size * model.m) / (size * (size - 1))
    return (
        model.d + norm(model.mu - within),
        model.d + products,
        norm(within) + norm(model.mu),
        norm(within) + norm(A),
    )


def simulate(model: LinearModel, *, draws: int = 2_000, repeats: int = 10, seed: Seed = 0) -> Simulation:
    """Measure the four risks: draw ε and A, fit by least squares, and compare the predictions with E[y | x].

    The closed forms are not used. For each of `draws` noises ε, A is drawn `repeats` times. A marginalized prediction
    is the mean over A at the same ε. Its squared error is estimated from products of different draws of A, since the
    square of a mean of few draws is biased. Standard errors come from the variation between the noises.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> model = LinearModel(X, mu=X[:, :1], covariance=np.eye(1), v=np.ones(1), sigma=1.0)
    >>> measured, closed = simulate(model), risks(model)
    >>> [abs(measured.risks[name].value - closed[name].value) < 3 * measured.risks[name].error for name in ESTIMATORS]
    [True, True, True, True]
    """
    rng = stream(seed)
    check_number("draws", draws, 2, whole=True)
    check_number("repeats", repeats, 2, whole=True)
    at_once = max(1, NUMBERS // (repeats * model.n * (model.d + model.m)))
    sizes = [min(at_once, draws - start) for start in range(0, draws, at_once)]
    values = np.vstack([estimator_errors(model, size, repeats, rng) for size in sizes])
    columns = dict(zip(ESTIMATORS, values.T, strict=True))
    return Simulation(
        {name: average(column) for name, column in columns.items()},
        {name: average(columns[without] - columns[given]) for name, (without, given) in PROPOSITIONS.items()},
    )


def estimator_errors(model: LinearModel, size: int, repeats: int, rng: np.random.Generator) -> Array:
    """Return the mean squared errors of the four estimators for `size` noises, as an array of shape (size, 4)."""
    X, mu, w, v = model.X, model.mu, model.w, model.v
    A = model.draw(rng, size * repeats).reshape(size, repeats, model.n, model.m)
    noise = model.sigma * rng.standard_normal((size, 1, model.n))
    y = X @ w + A @ v + noise

    w0 = np.linalg.solve(X.T @ X, X.T @ y[..., None])[..., 0]
    both = np.concatenate([np.broadcast_to(X, (size, repeats, *X.shape)), A], axis=-1)
    transposed = both.swapaxes(-1, -2)
    joint = np.linalg.solve(transposed @ both, transposed @ y[..., None])[..., 0]
    w1, v1 = joint[..., : model.d], joint[..., model.d :]

    truth = X @ w + mu @ v
    without = w0 @ X.T - truth
    imputed = w1 @ X.T + v1 @ mu.T - truth
    given = w1 @ X.T + (A @ v1[..., None])[..., 0] - truth
    return np.stack([mean_square(without), mean_square(imputed), marginal(without), marginal(given)], axis=1)


def mean_square(error: Array) -> Array:
    """Return the mean square of errors of shape (noises, draws of A, n)."""
    return np.asarray((error**2).mean((1, 2)))


def marginal(error: Array) -> Array:
    """Return an unbiased mean square of the errors' mean over A, from products of different draws of A."""
    repeats = error.shape[1]
    squares = (error.sum(1) ** 2).mean(-1) - (error**2).mean(-1).sum(1)
    return np.asarray(squares / (repeats * (repeats - 1)))


def stream(seed: Seed) -> np.random.Generator:
    """Return a generator whose draws differ from `np.random.default_rng(seed)`, which X may come from."""
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence([check_number("seed", seed, whole=True), 1])
    return np.random.default_rng(seed)


def average(values: Array) -> Estimate:
    """Return the mean of independent values and its standard error."""
    return Estimate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))


def affine(constant: float, factor: float, estimate: Estimate) -> Estimate:
    """Return constant + factor · estimate."""
    return Estimate(constant + factor * estimate.value, abs(factor) * estimate.error)


def check_array(name: str, value: Any, *shape: int | None) -> Array:
    """Return an array of finite numbers with a shape, in which None is any length but zero."""
    array = np.asarray(value, dtype=np.float64)
    lengths_match = [n > 0 if wanted is None else n == wanted for n, wanted in zip(array.shape, shape, strict=False)]
    if array.ndim != len(shape) or not all(lengths_match) or not np.isfinite(array).all():
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        got = "NaN or infinity" if array.size and not np.isfinite(array).all() else f"shape {array.shape}"
        raise ValueError(f"Expected `{name}` to be finite numbers of shape ({wanted}), but got {got}.")
    return array


def check_rank(name: str, matrix: Array) -> None:
    """Raise an error if columns are linearly dependent."""
    rank = int(np.linalg.matrix_rank(matrix))
    if rank < matrix.shape[1]:
        raise ValueError(f"Expected {name} to have {matrix.shape[1]} independent columns, but got rank {rank}.")


def covariance_root(covariance: Any, n: int, m: int) -> Array:
    """Return B with B Bᵀ = Σ(x) for each row, as an array of shape (n, m, m)."""
    matrices = check_array("covariance", covariance, *((n, m, m) if np.ndim(covariance) == 3 else (m, m)))
    tiny = 1e-10 * float(np.abs(matrices).max())
    if np.abs(matrices - matrices.swapaxes(-1, -2)).max() > tiny:
        raise ValueError("Expected `covariance` to be symmetric, but got a matrix that is not.")
    values, vectors = np.linalg.eigh(matrices)
    if values.min() < -tiny:
        raise ValueError(f"Expected `covariance` to have no negative eigenvalue, but got {values.min():.3g}.")
    return np.broadcast_to(vectors * np.sqrt(values.clip(0))[..., None, :], (n, m, m))
