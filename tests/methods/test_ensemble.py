"""Ensembles average distributions, and their members train as they would alone."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.base import list_facts
from lupi.methods.ensemble import Average, Ensemble, Mixture
from lupi.settings import Settings
from lupi.training import Replicas, fit
from lupi.training.loop import spread_seeds

HOW = Settings(epochs=3, batch_size=16, learning_rate=0.01)


def make_ensemble(name="tram", likelihood=Categorical(), size=5):
    return Ensemble([methods.build(name, testing.make_parts(likelihood)) for _ in range(size)])


class Fixed(nn.Module):
    """Predicts the same for every x."""

    def __init__(self, *output):
        super().__init__()
        self.output = torch.tensor(output)

    def forward(self, x):
        return self.output.expand(len(x), -1)


def test_average_of_classes():
    predict = Average([Fixed(0.0, 0.0), Fixed(torch.tensor(9.0).log(), 0.0)], Categorical())
    torch.testing.assert_close(torch.softmax(predict(torch.zeros(1, 2)), -1), torch.tensor([[0.7, 0.3]]))


def test_average_of_binary_labels():
    p, q = torch.tensor([0.1, 0.5]), torch.tensor([0.3, 0.9])
    predict = Average([Fixed(*torch.logit(p)), Fixed(*torch.logit(q))], Bernoulli())
    torch.testing.assert_close(torch.sigmoid(predict(torch.zeros(1, 2)))[0], torch.tensor([0.2, 0.7]))


def test_average_of_normal_distributions_has_the_mixtures_mean_and_variance():
    predict = Average([Fixed(1.0, 0.5), Fixed(3.0, 1.5)], Gaussian())
    torch.testing.assert_close(predict(torch.zeros(1, 2)), torch.tensor([[2.0, 1.0 + 1.0]]))  # within + between
    torch.testing.assert_close(
        Average([Fixed(1.0), Fixed(3.0)], Gaussian())(torch.zeros(2, 2)), torch.full((2, 1), 2.0)
    )


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_mixture_by_hand(likelihood):
    groups = [[nn.Linear(2, 3) for _ in range(size)] for size in (2, 3)]
    x = torch.randn(4, 2)
    mixed = Mixture(groups, likelihood, torch.tensor([0.3, 0.7]))(x)

    means = [torch.stack([likelihood.mean(network(x)) for network in group]).mean(0) for group in groups]
    expected = 0.3 * means[0] + 0.7 * means[1]
    torch.testing.assert_close(likelihood.mean(mixed), expected)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
def test_predictor_is_the_average_of_what_members_predict(likelihood):
    ensemble, data = make_ensemble(likelihood=likelihood, size=3), testing.make_data(likelihood)
    fit(ensemble, data, HOW)
    with torch.no_grad():
        each = [likelihood.mean(member.predictor()(data.x)) for member in ensemble.members]
        found = likelihood.mean(ensemble.predictor()(data.x))
    assert not torch.allclose(each[0], each[1])
    torch.testing.assert_close(found, torch.stack(each).mean(0))


@pytest.mark.parametrize("name", ["tram", "two-step-tram", "mean-imputation"])
@pytest.mark.parametrize("size", [3, 5])
def test_members_train_as_they_would_alone(name, size):
    """Five train together, and three one after another; with batches of all annotations their order is no matter."""
    ensemble, data = make_ensemble(name, size=size), testing.make_data(Categorical())
    how = dataclasses.replace(HOW, batch_size=100)
    alone, before = copy.deepcopy(list(ensemble.members)), copy.deepcopy(ensemble.state_dict())
    history = fit(ensemble, data, how)
    assert any("1/3" in row["stage"] for row in history) == (size == 3)
    for number, member in enumerate(alone):
        fit(member, data, how)
        for key, value in member.state_dict().items():
            torch.testing.assert_close(ensemble.members[number].state_dict()[key], value, rtol=0, atol=1e-4)
    moved = [not torch.equal(value, before[key]) for key, value in ensemble.named_parameters()]
    assert all(moved)


def test_members_that_train_together_draw_their_own_batches():
    ensemble, data = make_ensemble(), testing.make_data(Categorical())
    alone = copy.deepcopy(list(ensemble.members))
    fit(ensemble, data, HOW, seed=4)
    seeds = spread_seeds([4], 5)
    assert len(set(seeds)) == 5
    assert spread_seeds([4, 5], 10)[:5] == seeds
    assert spread_seeds([4, 5], 2) == [4, 5]
    for member, trained, seed in zip(alone, ensemble.members, seeds, strict=True):
        fit(member, data, HOW, seed=seed)
        for key, value in member.state_dict().items():
            torch.testing.assert_close(trained.state_dict()[key], value, rtol=0, atol=1e-4)


def test_an_ensemble_holds_out_as_its_members_do():
    data, held = testing.make_data(Categorical()), testing.make_data(Categorical(), 1)
    how = dataclasses.replace(HOW, batch_size=100, epochs=40, learning_rate=0.05, patience=2)
    ensemble = make_ensemble("no-pi")
    alone = copy.deepcopy(list(ensemble.members))
    history = fit(ensemble, data, how, validation=held)
    rows = [fit(member, data, how, validation=held) for member in alone]
    epochs = {len(row) for row in rows}
    assert len(epochs) > 1, "they stop at different times, so that the test can fail"
    assert len(history) == max(epochs)
    for member, trained in zip(alone, ensemble.members, strict=True):
        for key, value in member.state_dict().items():
            torch.testing.assert_close(trained.state_dict()[key], value, rtol=0, atol=1e-3)


def test_facts_and_gradients_are_those_of_members():
    ensemble = make_ensemble("no-pi")
    assert not ensemble.uses_privileged
    assert ensemble.gradients == {"marginal": ("members",)}
    assert make_ensemble("full-marginalization").ships_privileged
    for check in (testing.check_losses, testing.check_order, testing.check_state, testing.check_export):
        check(lambda parts: Ensemble([methods.build("tram", parts) for _ in range(2)]), Categorical())


def test_an_ensemble_of_label_posteriors():
    """Every member has its own networks, folds and targets."""
    made = [methods.build("label-posterior", testing.make_parts(Categorical()), folds=2) for _ in range(2)]
    alone, data = copy.deepcopy(made), testing.make_data(Categorical())
    how = dataclasses.replace(HOW, batch_size=400)
    ensemble = Ensemble(made)
    history = fit(ensemble, data, how)
    assert len(history[0]["train_marginal"]) == 4, "two folds of two members, together"
    for member, trained in zip(alone, ensemble.members, strict=True):
        fit(member, data, how)
        for key, value in member.state_dict().items():
            torch.testing.assert_close(trained.state_dict()[key], value, rtol=0, atol=1e-3)
        assert not trained.memory


def test_no_fact_of_the_members_is_lost():
    class Other(methods.NoPI):
        name = title = "other"
        uses_privileged = needs_privileged = ships_privileged = aggregates = stops_itself = True
        models_annotators = predicts_truth = takes_sparse = True
        likelihoods = (Categorical,)

    member = Other(nn.Identity(), nn.Linear(2, 2))
    for group in (Ensemble([member]), Replicas([member])):
        differ = {fact for fact in list_facts() if getattr(group, fact) != getattr(member, fact)}
        assert differ == {"gradients"} | ({"is_stacked"} if isinstance(group, Replicas) else set())
