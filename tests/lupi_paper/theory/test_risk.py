import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from lupi_paper.theory import risk
from lupi_paper.theory.risk import (
    ESTIMATORS,
    LinearModel,
    block_moments,
    conditions,
    moments,
    risks,
    simulate,
)

ERRORS = 3
properties = settings(max_examples=25)
seeds = st.integers(0, 2**32 - 1)


def random_model(seed, n=14, d=3, m=2, sigma=0.7, **changes):
    """A model whose μ and Σ depend on the row."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, m, m))
    parts = {
        "X": rng.normal(size=(n, d)),
        "mu": rng.normal(size=(n, m)),
        "covariance": factors @ factors.swapaxes(1, 2),
        "v": rng.normal(size=m),
        "sigma": sigma,
        "w": rng.normal(size=d),
    }
    return LinearModel(**(parts | changes))


def projection(B):
    return B @ np.linalg.inv(B.T @ B) @ B.T


def matrices(model, A):
    """K and L as the paper defines them."""
    n = model.n
    H = np.linalg.pinv((np.eye(n) - projection(A)) @ model.X)
    G = np.linalg.pinv((np.eye(n) - projection(model.X)) @ A)
    return model.X @ H + model.mu @ G, model.X @ H + A @ G


def close(estimate, expected, errors=ERRORS):
    return abs(estimate.value - expected) <= errors * estimate.error + 1e-12 * abs(expected)


@properties
@given(seed=seeds, d=st.integers(1, 4), m=st.integers(1, 3), spare=st.integers(4, 20))
def test_block_equals_the_papers_matrices(seed, d, m, spare):
    model = random_model(seed, n=d + m + spare, d=d, m=m)
    A = model.draw(np.random.default_rng(seed), 4)
    K, L = zip(*(matrices(model, a) for a in A), strict=True)
    outside = np.eye(model.n) - projection(model.X)
    inverses = [np.linalg.inv(a.T @ outside @ a) for a in A]
    within = [a.T @ projection(model.X) @ a for a in A]
    pairs = [(L[i] * L[j]).sum() for i in range(4) for j in range(4) if i != j]
    expected = [
        np.mean([(k**2).sum() for k in K]),
        np.mean(pairs),
        np.mean([np.trace((p + model.mu.T @ model.mu) @ i) for p, i in zip(within, inverses, strict=True)]),
        np.mean([np.trace((p + a.T @ a) @ i) for p, a, i in zip(within, A, inverses, strict=True)]),
    ]
    assert np.allclose(block_moments(model, A), expected, rtol=1e-6)


def test_for_one_feature_the_ratios_are_those_of_the_paper():
    model = random_model(0, m=1)
    A = model.draw(np.random.default_rng(1), 1)
    P = projection(model.X)
    below = ((A[0] - P @ A[0]) ** 2).sum()
    above = ((P @ A[0]) ** 2).sum()
    imputed, marginalized = (above + (model.mu**2).sum()) / below, (above + (A[0] ** 2).sum()) / below
    assert np.allclose(block_moments(model, np.concatenate([A, A]))[2:], [imputed, marginalized])


@pytest.mark.parametrize(("n", "d", "m"), [(14, 3, 2), (20, 1, 1), (30, 5, 3)])
def test_risks_without_pi(n, d, m):
    model = random_model(0, n=n, d=d, m=m)
    # the covariance again from its root, and Λ row by row
    lambdas = np.diag([model.v @ root @ root.T @ model.v for root in model.root])
    P, mean = projection(model.X), model.mu @ model.v
    bias = ((mean - P @ mean) ** 2).sum() / n
    closed = risks(model, draws=100)
    assert math.isclose(closed["no-pi"].value, bias + np.trace(P @ (0.49 * np.eye(n) + lambdas)) / n)
    assert math.isclose(closed["marginalized-no-pi"].value, bias + 0.49 * d / n)
    assert closed["no-pi"].error == closed["marginalized-no-pi"].error == 0
    assert math.isclose(model.noise, np.trace(0.49 * np.eye(n) + lambdas) / n)


def test_the_root_gives_the_covariance():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(14, 2, 2))
    covariance = factor @ factor.swapaxes(1, 2)
    model = random_model(0, covariance=covariance)
    A = model.draw(np.random.default_rng(1), 40_000) - model.mu
    assert np.allclose(model.root @ model.root.swapaxes(1, 2), covariance)
    sample = np.einsum("sni,snj->nij", A, A) / len(A)
    assert np.allclose(sample, covariance, atol=0.05 * covariance.max())
    one = random_model(0, covariance=covariance[0])
    assert np.allclose(one.root @ one.root.swapaxes(1, 2), covariance[0])


@pytest.mark.parametrize("length", [0.0, 0.5, 2.0, 8.0])
def test_moments_of_one_feature_equal_their_series(length):
    """With one Σ, A_x⊥ is a normal vector about (I − Π_x)μ: 1/‖A_x⊥‖² is a mixture of inverse χ²."""
    n, d, spread = 16, 3, 1.5
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    outside = np.linalg.qr(np.hstack([X, rng.normal(size=(n, 1))]))[0][:, d:]
    mu = X[:, :1] + length * spread * outside
    model = LinearModel(X, mu=mu, covariance=[[spread**2]], v=[1.0], sigma=1.0)
    k, j = n - d, np.arange(400)
    weight = poisson.pmf(j, length**2 / 2)
    inverse = weight @ (1 / (k - 2 + 2 * j))
    across = weight @ (1 / (k + 2 * j))  # of the direction of A_x⊥, orthogonal to its mean
    along = 1 - (k - 1) * across
    within = (projection(X) @ mu / spread) ** 2
    found = moments(model, draws=40_000, seed=1)
    assert close(found.K, d + (length**2 + d) * inverse)
    assert close(found.L, d + along**2 + (k - 1) * across**2)
    assert close(found.imputed, (within.sum() + d + (mu**2).sum() / spread**2) * inverse)
    assert close(found.marginalized, 2 * (within.sum() + d) * inverse + 1)
    assert max(found.K.error, found.L.error) < 0.01


def test_moments_of_pi_inside_the_span():
    """With one Σ, A_x⊥ᵀA_x⊥ is a Wishart matrix, and the projection on A_x⊥ has no direction of its own."""
    n, d, m = 20, 4, 3
    rng = np.random.default_rng(0)
    X, factor = rng.normal(size=(n, d)), rng.normal(size=(m, m))
    mu, covariance = X @ rng.normal(size=(d, m)), factor @ factor.T
    model = LinearModel(X, mu=mu, covariance=covariance, v=np.ones(m), sigma=2.0)
    found = moments(model, draws=40_000, seed=1)
    size = np.trace(mu.T @ mu @ np.linalg.inv(covariance))
    assert close(found.K, d + d * m / (n - d - m - 1))
    assert close(found.L, d + m**2 / (n - d))
    assert close(found.imputed, (2 * size + d * m) / (n - d - m - 1))
    assert close(found.marginalized, 2 * (size + d * m) / (n - d - m - 1) + m)
    # nothing outside the span: marginalized PI can only hurt, and mean imputation helps by tr(Π_x Λ) alone
    assert conditions(model, draws=2000)["marginalized"].exact.value < 0


def test_certain_pi_is_one_more_input():
    """Σ = 0: both predictions with PI are least squares on [X, A], without bias."""
    model = random_model(0, covariance=np.zeros((2, 2)))
    found = risks(model, draws=100)
    for name in ("pi", "marginalized-pi"):
        assert math.isclose(found[name].value, 0.49 * (3 + 2) / 14)
        assert found[name].error < 1e-12
    assert math.isclose(found["no-pi"].value, found["marginalized-no-pi"].value)


@properties
@given(seed=seeds)
def test_risks_depend_on_the_span_of_x_only(seed):
    model = random_model(seed)
    B = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0] * [0.1, 1, 10]
    same = random_model(seed, X=model.X @ B)
    for name in ESTIMATORS:
        assert np.allclose(risks(model, draws=100)[name], risks(same, draws=100)[name], rtol=1e-6)


@properties
@given(seed=seeds)
def test_risks_do_not_depend_on_the_coordinates_of_pi(seed):
    model = random_model(seed)
    B = np.linalg.qr(np.random.default_rng(seed).normal(size=(2, 2)))[0] * [0.1, 10]
    covariance = B.T @ (model.root @ model.root.swapaxes(1, 2)) @ B
    same = random_model(seed, mu=model.mu @ B, covariance=covariance, v=np.linalg.inv(B) @ model.v)
    A = model.draw(np.random.default_rng(seed), 5)
    assert np.allclose(block_moments(model, A), block_moments(same, A @ B), rtol=1e-6)
    assert np.allclose([model.outside, model.inside, model.noise], [same.outside, same.inside, same.noise])


@properties
@given(seed=seeds, unit=st.floats(0.1, 100))
def test_conditions_keep_their_sign_in_other_units_of_y(seed, unit):
    model = random_model(seed)
    other = random_model(seed, v=unit * model.v, sigma=unit * model.sigma)
    for name, condition in conditions(model, draws=100).items():
        changed = conditions(other, draws=100)[name]
        assert np.allclose(changed.exact.value, unit**2 * condition.exact.value)
        assert np.allclose(changed.sufficient.value, unit**2 * condition.sufficient.value)


@properties
@given(seed=seeds, d=st.integers(1, 4), m=st.integers(1, 3), sigma=st.floats(0.01, 10))
def test_conditions_are_ordered(seed, d, m, sigma):
    model = random_model(seed, d=d, m=m, sigma=sigma)
    closed, found = risks(model, draws=100), conditions(model, draws=100)
    for name, (without, given_pi) in risk.PROPOSITIONS.items():
        exact = found[name].exact
        assert math.isclose(exact.value, closed[without].value - closed[given_pi].value, abs_tol=1e-9)
        assert math.isclose(exact.error, closed[given_pi].error, abs_tol=1e-12)
        assert found[name].sufficient.value <= exact.value
    # L is a projection
    assert closed["marginalized-pi"].value <= sigma**2 * (d + m) / 14 * (1 + 1e-9)


def test_sufficient_conditions_by_hand():
    """X and μ(X) are unit vectors, and A varies along X: the printed condition holds, and PI hurts."""
    unit = np.eye(10)
    model = LinearModel(unit[:, :1], mu=unit[:, 1:2], covariance=9 * unit[:, :1, None], v=[6.0], sigma=8.0)
    found = conditions(model, draws=20_000, seed=1)
    assert close(found["imputed"].exact, (36 - 64) * (1 + 9) / 10)
    assert close(found["imputed"].sufficient, (36 + 36 * 9 - 64) / 10 - 2 * 64 * (9 + 1) / 10)
    assert close(found["imputed"].printed, (36 + 36 * 9 - 64) / 10 - 2 * (9 + 1))
    assert close(found["marginalized"].exact, (36 - 64) / 10)
    assert close(found["marginalized"].sufficient, (36 - 64) / 10 - 2 * 64 * (9 + 10) / 10)
    assert close(found["marginalized"].printed, (36 - 64) / 10 - 2 * (9 + 10))
    assert found["imputed"].printed.value > 0 > found["imputed"].sufficient.value
    difference = simulate(model, draws=2000).differences["imputed"]
    assert difference.value < -ERRORS * difference.error


def test_errors_are_those_of_least_squares():
    """Fit by fit, from the same draws."""
    model, size, repeats = random_model(3), 3, 4
    found = risk.estimator_errors(model, size, repeats, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    A = model.draw(rng, size * repeats).reshape(size, repeats, model.n, model.m)
    noise = model.sigma * rng.standard_normal((size, 1, model.n))[:, 0]
    truth = model.X @ model.w + model.mu @ model.v
    for i in range(size):
        without, imputed, given_pi = [], [], []
        for a in A[i]:
            y = model.X @ model.w + a @ model.v + noise[i]
            without.append(model.X @ np.linalg.lstsq(model.X, y, rcond=None)[0] - truth)
            w, v = np.split(np.linalg.lstsq(np.hstack([model.X, a]), y, rcond=None)[0], [model.d])
            imputed.append(model.X @ w + model.mu @ v - truth)
            given_pi.append(model.X @ w + a @ v - truth)
        pairs = [(j, k) for j in range(repeats) for k in range(repeats) if j != k]
        expected = [
            np.mean(np.square(without)),
            np.mean(np.square(imputed)),
            np.mean([without[j] * without[k] for j, k in pairs]),
            np.mean([given_pi[j] * given_pi[k] for j, k in pairs]),
        ]
        assert np.allclose(found[i], expected)


def test_risk_plus_noise_is_the_error_on_new_labels():
    model, draws = random_model(4), 20_000
    rng = np.random.default_rng(0)

    def labels(A):
        return model.X @ model.w + A @ model.v + model.sigma * rng.standard_normal((draws, model.n))

    A = model.draw(rng, draws)
    y, new = labels(A), labels(model.draw(rng, draws))
    both = np.linalg.pinv(np.concatenate([np.broadcast_to(model.X, (draws, *model.X.shape)), A], axis=2))
    joint = (both @ y[..., None])[..., 0]
    predictions = {
        "no-pi": y @ projection(model.X),
        "pi": joint @ np.hstack([model.X, model.mu]).T,
    }
    closed = risks(model, draws=20_000)
    for name, prediction in predictions.items():
        measured = risk.average(((new - prediction) ** 2).mean(1))
        error = math.hypot(measured.error, closed[name].error)
        assert abs(measured.value - model.noise - closed[name].value) <= ERRORS * error


@pytest.mark.parametrize(("n", "d", "m"), [(30, 3, 1), (25, 4, 3)])
@pytest.mark.parametrize("spread", [0.05, 2.0])
def test_simulations_agree_with_closed_forms(n, d, m, spread):
    covariance = spread * (0.5 + np.random.default_rng(1).random(n))[:, None, None] * np.eye(m)
    model = random_model(7, n=n, d=d, m=m, covariance=covariance)
    closed, tested = risks(model, seed=1), conditions(model, seed=1)
    measured = simulate(model, draws=3000, repeats=6, seed=2)
    for name in ESTIMATORS:
        error = math.hypot(closed[name].error, measured.risks[name].error)
        assert abs(closed[name].value - measured.risks[name].value) <= ERRORS * error
    for name, difference in measured.differences.items():
        error = math.hypot(tested[name].exact.error, difference.error)
        assert abs(tested[name].exact.value - difference.value) <= ERRORS * error
        if abs(difference.value) > ERRORS * difference.error:
            assert np.sign(tested[name].exact.value) == np.sign(difference.value)


def test_standard_errors_are_the_spread_of_simulations():
    model = random_model(8, n=30)
    runs = [simulate(model, draws=100, repeats=3, seed=seed) for seed in range(60)]
    for name in ESTIMATORS:
        spread = np.std([run.risks[name].value for run in runs], ddof=1)
        assert 0.7 < spread / np.mean([run.risks[name].error for run in runs]) < 1.4
    runs = [moments(model, draws=500, seed=seed) for seed in range(60)]
    for i in range(4):
        assert 0.6 < np.std([run[i].value for run in runs], ddof=1) / np.mean([run[i].error for run in runs]) < 1.5


def test_simulations_in_small_pieces(monkeypatch):
    model, sizes = random_model(9), []
    errors = risk.estimator_errors

    def counted(model, size, repeats, rng):
        sizes.append(size)
        return errors(model, size, repeats, rng)

    monkeypatch.setattr(risk, "estimator_errors", counted)
    monkeypatch.setattr(risk, "NUMBERS", 14 * 5 * 2 * 30)
    simulate(model, draws=100, repeats=2)
    assert sizes == [30, 30, 30, 10]


def test_the_same_seed_gives_the_same_numbers():
    model = random_model(10)
    for f in (risks, conditions, simulate):
        assert f(model, draws=100, seed=3) == f(model, draws=100, seed=3)
        assert f(model, draws=100, seed=3) != f(model, draws=100, seed=4)


@pytest.mark.parametrize("seed", [0, 1])
def test_draws_do_not_repeat_a_design_of_the_same_seed(seed):
    X = np.random.default_rng(seed).standard_normal((12, 1))
    model = LinearModel(X, mu=np.zeros((12, 1)), covariance=[[1.0]], v=[1.0], sigma=1.0)
    assert risks(model, draws=100, seed=seed)["pi"].value < 1
    assert not np.isclose(model.draw(risk.stream(seed), 1)[0], X).any()


X = np.random.default_rng(0).normal(size=(12, 2))
GOOD = {"X": X, "mu": X[:, :1] ** 2, "covariance": np.eye(1), "v": [1.0], "sigma": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": X[:, 0]}, r"`X`.*\(12,\)"),
        ({"X": [["a", "b"]]}, "could not convert.*'a'"),
        ({"X": np.where(X[3, 1] == X, np.nan, X)}, "`X`.*NaN"),
        ({"X": X[:, [0, 0]]}, "`X`.*2 .*rank 1"),
        ({"X": X[:6], "mu": X[:6, :1]}, "`X`.*7 rows.*6"),
        ({"mu": X[:5, :1]}, r"`mu`.*\(12, any\).*\(5, 1\)"),
        ({"mu": X[:, :0]}, r"`mu`.*\(12, any\).*\(12, 0\)"),
        ({"v": [1.0, 2.0]}, r"`v`.*\(1\).*\(2,\)"),
        ({"w": [1.0]}, r"`w`.*\(2\).*\(1,\)"),
        ({"sigma": -1}, "`sigma`.*-1"),
        ({"covariance": np.eye(2)}, r"`covariance`.*\(1, 1\).*\(2, 2\)"),
        ({"covariance": np.ones((5, 1, 1))}, r"`covariance`.*\(12, 1, 1\).*\(5, 1, 1\)"),
        ({"covariance": [[-1.0]]}, "`covariance`.*negative eigenvalue.*-1"),
        ({"mu": X**2, "v": [1, 1], "covariance": [[1, 2], [0, 1]]}, "`covariance`.*symmetric"),
        ({"mu": X[:, :1], "covariance": [[0.0]]}, "`X` and a drawn A.*3 .*rank 2"),
    ],
)
def test_wrong_models_are_refused(changes, message):
    LinearModel(**GOOD)
    with pytest.raises(ValueError, match=message):
        LinearModel(**(GOOD | changes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: risks(model, draws=99), "`draws`.*100.*99"),
        (lambda model: simulate(model, draws=1), "`draws`.*2.*1"),
        (lambda model: simulate(model, repeats=1), "`repeats`.*2.*1"),
    ],
)
def test_too_few_draws_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(LinearModel(**GOOD))
