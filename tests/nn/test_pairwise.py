import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from torch import nn

from lupi import PrivilegedClassifier, PrivilegedRegressor, crowd, load, methods
from lupi.likelihoods import Bernoulli, Categorical
from lupi.nn import MLP, Pairwise, Parts, extract_reward

WEIGHTS = np.array([1.5, -1.0, 0.5])


def draw(rng, pairs, reliability):
    """Pairs of items; raters say which they prefer and are right more or less often."""
    x = rng.normal(size=(pairs, 2, 3)).astype(np.float32)
    truth = rng.random(pairs) < expit(2 * (x[:, 0] - x[:, 1]) @ WEIGHTS)
    rater = rng.integers(len(reliability), size=pairs)
    right = rng.random(pairs) < np.array(reliability)[rater]
    return x, np.where(right, truth, ~truth).astype(int), rater.astype(str)[:, None], truth.astype(int)


@pytest.fixture(scope="module")
def preferences():
    return draw(np.random.default_rng(0), 600, [0.95, 0.9, 0.6, 0.5])


def fit(method, x, y, a, **options):
    trunk = Pairwise(MLP(3, (8,)))
    return PrivilegedClassifier(method, trunk=trunk, epochs=2, random_state=0, **options).fit(x, y, privileged=a)


FLIPS = ["no-pi", "tram", "two-step-tram", "heteroscedastic-dropout", "pi-dual", "pi-transition", "miml-fcn-plus"]


@pytest.mark.parametrize("method", [*FLIPS, "distillation", "auto"])
def test_swapping_the_items_flips_the_probability(method, preferences):
    x, y, a, _ = preferences
    options = {"method_options": {"folds": 2, "methods": ["no-pi", "tram", "mean-imputation"]}}
    p = (model := fit(method, x, y, a, **(options if method == "auto" else {}))).predict_proba(x)
    assert np.ptp(p[:, 1]) > 0.1
    np.testing.assert_allclose(model.predict_proba(x[:, ::-1]), p[:, ::-1], rtol=0, atol=1e-6)
    same = np.repeat(x[:, :1], 2, axis=1)
    np.testing.assert_array_equal(model.predict_proba(same), 0.5)


def test_an_average_of_networks_flips_too(preferences):
    x, y, a, _ = preferences
    model = fit("no-pi", x, y, a, members=2)
    np.testing.assert_allclose(model.predict_proba(x[:, ::-1]), 1 - model.predict_proba(x), rtol=0, atol=1e-6)


def test_several_aspects_flip_too(preferences):
    x, y, a, _ = preferences
    model = fit("no-pi", x, np.stack([y, 1 - y, y], 1), a)
    np.testing.assert_allclose(model.predict_proba(x[:, ::-1]), 1 - model.predict_proba(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["zero-imputation", "mean-imputation", "full-marginalization", "het-tram", "stack"])
def test_methods_whose_predictor_does_not_flip_are_refused_before_training(method, preferences, monkeypatch):
    monkeypatch.setattr("lupi.estimators.base.fit", None)
    x, y, a, _ = preferences
    with pytest.raises(ValueError, match="swapping the items of a pair would not flip"):
        fit(method, x, y, a)


def test_ties_and_numbers_are_refused(preferences):
    x, y, a, _ = preferences
    with pytest.raises(ValueError, match="two classes, since the trunk compares pairs, but got 3 classes"):
        fit("no-pi", x, np.arange(len(y)) % 3, a)
    with pytest.raises(ValueError, match="two classes, since the trunk compares pairs, but got a real number"):
        PrivilegedRegressor("no-pi", trunk=Pairwise(MLP(3)), epochs=1).fit(x, y)


def test_other_shapes_are_refused():
    for shape in ((4, 6), (4, 3, 6)):
        with pytest.raises(ValueError, match=r"of shape \[n, 2, ...\], but got shape"):
            Pairwise(nn.Linear(6, 1))(torch.zeros(shape))


def test_the_loss_is_that_of_bradley_and_terry():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 2, 3, generator=generator), torch.randint(2, (50,), generator=generator)
    parts = Parts(
        lambda: Pairwise(MLP(3, (8,))), features=8, privileged=1, outputs=2, likelihood=Categorical(), odd=True
    )
    predictor = methods.build("no-pi", parts).predictor()
    reward = extract_reward(predictor)(x.flatten(0, 1)).unflatten(0, (50, 2)).squeeze(2)
    sign = 2 * y - 1
    expected = nn.functional.softplus(-sign * (reward[:, 0] - reward[:, 1])).mean()
    torch.testing.assert_close(Categorical().loss(predictor(x), y), expected)


def test_heads_on_an_odd_trunk_have_no_bias():
    options = {"features": 8, "privileged": 1, "outputs": 3, "likelihood": Bernoulli()}
    for odd in (False, True):
        assert (Parts(lambda: MLP(3, (8,)), odd=odd, **options).head().bias is None) == odd


def test_the_reward_of_an_item_gives_the_probability(preferences):
    x, y, a, _ = preferences
    model = fit("tram", x, y, a)
    with torch.no_grad():
        first, second = (extract_reward(model.predictor_)(torch.from_numpy(x[:, k])).numpy() for k in (0, 1))
    np.testing.assert_allclose(logit(model.predict_proba(x)[:, 1]), (first - second)[:, 0], atol=1e-5)


def test_a_reward_is_extracted_from_pairs_only():
    with pytest.raises(ValueError, match="linear head on a `Pairwise` trunk, but got Linear, Linear"):
        extract_reward(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)))
    with pytest.raises(ValueError, match="two classes, but got 3"):
        extract_reward(nn.Sequential(Pairwise(nn.Linear(3, 3)), nn.Linear(3, 3)))


def test_a_saved_model_flips(preferences, tmp_path):
    x, y, a, _ = preferences
    model = fit("tram", x, y, a)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model", trunk=lambda: Pairwise(MLP(3, (8,))))
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))


def test_the_reliability_of_raters_is_found():
    reliability = [0.95, 0.85, 0.7, 0.5]
    x, y, a, _ = draw(np.random.default_rng(1), 2000, reliability)
    half = len(x) // 2
    model = PrivilegedClassifier("no-pi", trunk=Pairwise(nn.Linear(3, 1)), epochs=5, learning_rate=0.02, random_state=0)
    model.fit(x[:half], y[:half], privileged=a[:half])
    found = crowd.infer(model.predict_proba(x[half:]), y[half:], annotator=a[half:, 0])
    estimated = [found.right[a[half:, 0] == name].mean() for name in "0123"]
    np.testing.assert_allclose(estimated, reliability, atol=0.15)  # one label each: too high
    assert np.all(np.diff(estimated) < 0)
