import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from lupi_paper.experiments.heteroscedastic import (
    GRID,
    METHODS,
    Settings,
    annotator_means,
    cross_entropy,
    draw_annotations,
    numerical_gaussian,
    optimal_gaussian,
    printed_variance,
    run,
)

annotators = st.lists(st.floats(-4, 4), min_size=2, max_size=6).map(lambda means: np.array([means]))


def mixture(y, means):
    return norm.pdf(y[:, None], means).mean(1)


@settings(max_examples=30)
@given(annotators)
def test_the_optimum_is_the_mixtures_own_moments(means):
    y = np.linspace(-15, 15, 6001)
    density = mixture(y, means[0])
    mean = integrate.trapezoid(density * y, y)
    variance = integrate.trapezoid(density * (y - mean) ** 2, y)
    found = optimal_gaussian(means)
    assert (found[0][0], found[1][0]) == pytest.approx((mean, variance), abs=1e-6)


@settings(max_examples=10)
@given(annotators)
def test_the_optimum_minimises_a_cross_entropy_by_another_quadrature(means):
    y = np.linspace(-15, 15, 3001)
    density = mixture(y, means[0])
    mean, variance = optimal_gaussian(means)

    def loss(candidate):
        return -integrate.trapezoid(density * norm.logpdf(y, mean[0], np.sqrt(candidate)), y)

    assert minimize_scalar(loss, bounds=(0.1, 60), method="bounded").x == pytest.approx(variance[0], rel=1e-3)
    assert cross_entropy(mean, variance, means)[0] == pytest.approx(loss(variance[0]), abs=1e-6)
    found = numerical_gaussian(means)
    assert (found[0][0], found[1][0]) == pytest.approx((mean[0], variance[0]), abs=1e-3, rel=1e-3)


@settings(max_examples=30)
@given(annotators)
def test_the_printed_variance_is_always_too_large(means):
    mean, variance = optimal_gaussian(means)
    printed = printed_variance(means)
    assert printed - variance == pytest.approx(means.shape[1] - 1 - mean + mean**2)
    assert printed - variance >= means.shape[1] - 1.25 - 1e-9
    assert cross_entropy(mean, printed, means) > cross_entropy(mean, variance, means)


def test_data_are_of_the_mixture():
    data = draw_annotations(Settings(annotations=100_000), seed=0)
    x = data.x[:, 0].numpy() / np.sqrt(12) + 0.5
    assert data.a.sum(1).eq(1).all()
    assert data.a.mean(0).numpy() == pytest.approx(np.full(5, 0.2), abs=0.01)
    own = annotator_means(x, 5)[np.arange(len(x)), data.a.argmax(1).numpy()]
    assert np.std(data.y.numpy() - own) == pytest.approx(1, abs=0.01)
    near = np.abs(x - 0.9) < 0.02
    assert np.var(data.y.numpy()[near]) == pytest.approx(
        optimal_gaussian(annotator_means(np.array([0.9]), 5))[1][0], rel=0.1
    )


@pytest.fixture(scope="module")
def findings():
    return run(Settings(seeds=2, annotations=2000, epochs=8, batch_size=64), progress=False)


def test_a_heteroscedastic_head_learns_the_variance(findings):
    lost = findings.table.groupby("what")["nats_lost"].mean()
    assert lost["optimum"] == 0
    assert lost["no-pi, heteroscedastic"] < 0.05 < lost["no-pi, variance 1"]
    assert lost["het-tram"] < 0.1 < lost["printed variance"]
    variance = findings.table.groupby("what")["rmse_variance"].mean()
    assert variance["no-pi, heteroscedastic"] < variance["no-pi, variance 1"] / 2


def test_report_and_table(findings):
    assert findings.table["what"].value_counts().to_dict() == {
        **dict.fromkeys(METHODS, 2),
        "printed variance": 1,
        "optimum": 1,
    }
    assert "(heteroscedastic.svg)" in findings.text
    assert f"| {GRID[0]:.3f} | 1.0000 | 1.0000 |" in findings.text
    assert len(findings.figures["heteroscedastic"].axes) == 2


def test_a_run_repeats_exactly_and_hangs_on_its_seed():
    small = Settings(seeds=1, annotations=200, epochs=1)
    first, second = run(small, progress=False), run(small, progress=False)
    assert first.text == second.text
    assert first.table.equals(second.table)
    other = run(Settings(seed=1, seeds=1, annotations=200, epochs=1), progress=False)
    assert not first.table["nats_lost"].equals(other.table["nats_lost"])


@pytest.mark.parametrize(("name", "value"), [("annotators", 1), ("seeds", 0), ("epochs", 0), ("seed", -1)])
def test_settings_refuse(name, value):
    with pytest.raises(ValueError, match=f"Expected `{name}` to be"):
        Settings(**{name: value})
