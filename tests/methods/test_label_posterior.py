"""A student of label posteriors, on a simulated crowd whose true labels are known."""

import copy
import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from lupi import methods, testing
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.cross_fitting import privileged_varies
from lupi.methods.label_posterior import LabelPosterior, combine_inputs, label_posterior
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import fit, fit_seeds
from tests.methods.helpers import recorded

HOW = Settings(epochs=30, batch_size=32, learning_rate=0.01)
SEEDS = (0, 1, 2)


def make_crowd(seed, *, hurried, examples=300):
    """One label per example, from good and bad annotators or, if `hurried`, from those in a hurry half of the time.

    Returns the annotations, their true labels, and a test set.
    """
    generator = torch.Generator().manual_seed(seed)
    z = torch.randint(3, (examples + 2000,), generator=generator)
    centres = torch.tensor([[1.5, 0.0], [-0.75, 1.3], [-0.75, -1.3]])
    x = torch.cat([centres[z], torch.zeros(len(z), 4)], 1) + torch.randn(len(z), 6, generator=generator)
    who, quick = (torch.randint(n, (examples,), generator=generator) for n in (10, 2))
    right = torch.rand(examples, generator=generator) < torch.where(quick == 1 if hurried else who >= 5, 0.1, 0.95)
    y = torch.where(right, z[:examples], torch.randint(3, (examples,), generator=generator))
    a = torch.cat([torch.eye(10)[who], quick[:, None].float()], 1)
    return Annotations(x[:examples], torch.arange(examples), a, y, who), z[:examples], x[examples:], z[examples:]


def train(name, data, seed, **options):
    parts = Parts(lambda: MLP(6, (32,)), features=32, privileged=data.a.shape[1], outputs=3, likelihood=Categorical())
    torch.manual_seed(seed)
    method = methods.build(name, parts, **options)
    with recorded(LabelPosterior, "set_targets") as calls:
        fit(method, data, HOW, seed=seed)
    return method, calls


def accuracy(p, z):
    return float((p.argmax(1) == z).float().mean())


def scores(name, *, hurried, columns=11, **options):
    """Mean accuracies over seeds: of the predictor, of the posterior and of the prior."""
    rows = []
    for seed in SEEDS:
        data, truth, x, z = make_crowd(seed, hurried=hurried)
        data = dataclasses.replace(data, a=data.a[:, :columns])
        method, calls = train(name, data, seed, **options)
        with torch.no_grad():
            row = [accuracy(method.predictor()(x), z)]
        if calls:
            names, memory = calls[-1]
            row += [accuracy(memory["targets"]["examples"], truth), accuracy(memory["predictions"][names[0]], truth)]
        rows.append(row)
    return np.mean(rows, 0)


def test_the_student_finds_the_truth_behind_good_and_bad_annotators():
    (no_pi,) = scores("no-pi", hurried=False)
    student, posterior, prior = scores("label-posterior", hurried=False, weight=1.0)
    assert student > no_pi + 0.05
    assert posterior > prior + 0.02


def test_a_column_that_tells_right_labels_from_wrong_ones_helps():
    student, posterior, prior = scores("label-posterior", hurried=True, weight=1.0, exponent=1.0)
    less, without, _ = scores("label-posterior", hurried=True, columns=10, weight=1.0, exponent=1.0)
    assert posterior > without + 0.03
    assert posterior > prior + 0.03
    assert student > less


# ---------------------------------------------------------------------------- what is trained on what


def make_method(likelihood=Categorical(), **options):
    return testing.make_method(lambda parts: label_posterior(parts, **options), likelihood)


@pytest.mark.parametrize("rounds", [1, 3])
def test_every_round_explains_the_labels_by_the_networks_of_that_round(rounds):
    data, method = testing.make_data(Categorical()), make_method(rounds=rounds)
    with recorded(LabelPosterior, "set_targets") as calls:
        history = fit(method, data, Settings(epochs=2, batch_size=16))
    names = ["no-pi"] + [f"round {number}" for number in range(2, rounds + 1)]
    assert [call[0] for call in calls] == [[name] for name in names]
    assert list(dict.fromkeys(row["stage"] for row in history)) == [*names, "student"]
    targets = [memory["targets"]["examples"] for _, memory in calls]
    assert all(not torch.equal(one, other) for one, other in itertools.pairwise(targets))


@pytest.mark.parametrize("combined_inputs", [0, 2])
def test_the_student_learns_the_targets_of_examples_and_of_combined_inputs(combined_inputs):
    data, method = testing.make_data(Categorical()), make_method(rounds=1, combined_inputs=combined_inputs)
    data = data.take((data.row != 5).nonzero().squeeze(1))
    with recorded(LabelPosterior, "make_targets") as calls, recorded(LabelPosterior, "set_targets") as explained:
        history = fit(method, data, Settings(epochs=9, batch_size=16, patience=None))
    sets, memory = calls[-1][-1], explained[-1][1]
    count = len(data.annotated)
    assert len(sets) == count * (1 + combined_inputs)
    assert sets.row[:count].tolist() == data.annotated.tolist()
    assert torch.equal(sets.y[:count], memory["targets"]["examples"])
    if combined_inputs:
        torch.testing.assert_close(
            sets.x[sets.row[count:]], combine_inputs(data, combined_inputs, int(method.seed) + 1)[0]
        )
        torch.testing.assert_close(sets.y[count:].sum(1), torch.ones(count * combined_inputs))
    student = [row for row in history if row["stage"] == "student"]
    assert len(student) == math.ceil(1.5 * 9 / (1 + combined_inputs)), "1.5 times as many steps as for the labels alone"
    rates = [row["learning_rate"] for row in student]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.5 * rates[0], "a cosine schedule"


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_cross_fitted_networks_stop_early_only_at_a_constant_learning_rate(schedule):
    """Without anything to learn, the held-out loss of the first epochs is the lowest."""
    data = testing.make_data(Categorical())
    noise = torch.randint(3, (len(data),), generator=torch.Generator().manual_seed(0))
    how = Settings(epochs=30, batch_size=16, learning_rate=0.1, schedule=schedule)
    history = fit(make_method(folds=2, rounds=1), dataclasses.replace(data, y=noise), how)
    epochs = [sum(row["stage"] == f"no-pi {number}/2" for row in history) for number in (1, 2)]
    assert max(epochs) < 30 if schedule == "constant" else epochs == [30, 30]


def test_combined_inputs_have_the_average_of_the_networks_as_target():
    data, method = testing.make_data(Categorical()), make_method(rounds=1, combined_inputs=1, folds=3)
    with recorded(LabelPosterior, "remember") as calls:
        fit(method, data, Settings(epochs=2, batch_size=16))
    name, networks, memory = calls[0]
    combined, _ = combine_inputs(data, 1, int(method.seed) + 1)
    with torch.no_grad():
        each = [torch.softmax(network.predictor()(combined), -1) for network in networks]
    torch.testing.assert_close(memory["other_predictions"][name], torch.stack(each).mean(0))


def test_labels_held_out_by_the_user_only_enter_the_history():
    data, held = testing.make_data(Categorical()), testing.make_data(Categorical(), 1).take(torch.arange(9))
    how, alone, watched = Settings(epochs=3, batch_size=16), make_method(rounds=2), make_method(rounds=2)
    fit(alone, data, how)
    history = fit(watched, data, how, validation=held)
    for name, value in alone.state_dict().items():
        assert torch.equal(value, watched.state_dict()[name]), name
    last = history[-1]
    with torch.no_grad():
        loss = Categorical().loss(watched.predictor()(held.x)[held.row], held.y)
    assert last["stage"] == "student"
    assert last["validation_marginal"] == pytest.approx(float(loss), abs=1e-5)


def test_several_seeds_with_held_out_labels_are_the_seeds_alone():
    sets, held = ([testing.make_data(Categorical(), seed + start) for seed in range(4)] for start in (0, 50))
    sets = [dataclasses.replace(data, row=torch.arange(len(data)) % 12) for data in sets]
    torch.manual_seed(0)
    several = [make_method(rounds=2, folds=2) for _ in range(4)]
    for seed, method in enumerate(several):
        method.seed.fill_(seed)
    alone, how = copy.deepcopy(several), Settings(epochs=2, batch_size=1000)
    fit_seeds(several, sets, how, validation=held, seeds=range(4))
    for seed, (method, data, own) in enumerate(zip(alone, sets, held, strict=True)):
        fit(method, data, how, validation=own, seed=seed)
        for name, value in method.state_dict().items():
            torch.testing.assert_close(several[seed].state_dict()[name], value, rtol=0, atol=1e-3, msg=name)
        assert several[seed].memory == {}


def test_networks_of_members_do_not_depend_on_what_else_draws_random_numbers():
    method = make_method()
    state = torch.get_rng_state()
    first = method.make_networks(method.members["no-pi"], "no-pi", 2, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    again = method.make_networks(method.members["no-pi"], "no-pi", 2, torch.device("cpu"))
    other = method.make_networks(method.members["no-pi"], "round 2", 2, torch.device("cpu"))
    for one, two, three in zip(first, again, other, strict=True):
        assert torch.equal(one.marginal.weight, two.marginal.weight)
        assert not torch.equal(one.marginal.weight, three.marginal.weight)
    assert not torch.equal(first[0].marginal.weight, first[1].marginal.weight)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_lambda_zero_learns_predictions_and_one_learns_posteriors(likelihood):
    data, targets = testing.make_data(likelihood), {}
    for weight in (0.0, 0.5, 1.0):
        with recorded(LabelPosterior, "set_targets") as calls:
            fit(make_method(likelihood, rounds=1, weight=weight), data, Settings(epochs=2, batch_size=16))
        targets[weight] = calls[0][1]["targets"]["examples"]
    torch.testing.assert_close(targets[0.5], (targets[0.0] + targets[1.0]) / 2)
    assert not torch.allclose(targets[0.0], targets[1.0], atol=1e-3)


def test_real_numbers_are_refused():
    with pytest.raises(ValueError, match="Expected y to be one of several classes or several binary labels"):
        methods.build("label-posterior", testing.make_parts(Gaussian()))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"folds": 1}, "folds"),
        ({"rounds": 0}, "rounds"),
        ({"weight": 1.5}, "weight"),
        ({"combined_inputs": -1}, "combined_inputs"),
    ],
)
def test_options_out_of_range(options, name):
    with pytest.raises(ValueError, match=f"Expected `{name}`"):
        make_method(**options)


def test_whether_privileged_information_varies():
    data = testing.make_data(Categorical())
    assert privileged_varies(data)
    assert not privileged_varies(data.take((data.annotator == 1).nonzero().squeeze(1)))
    assert not privileged_varies(data.without_privileged())


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((1000, 5), torch.float32, 4),
        ((10_000, 5), torch.float32, 2),
        ((90_000, 5), torch.float32, 1),
        ((1000, 7, 5), torch.float32, 4),
        ((1000, 3, 8, 8), torch.uint8, 19),
        ((1000, 3, 224, 224), torch.uint8, 7),
        ((1000, 3, 224, 224), torch.float32, 1),
        ((1000, 5), torch.int64, 0),
    ],
)
def test_inputs_are_combined_as_often_as_memory_allows(shape, dtype, expected):
    x = torch.zeros(1, dtype=dtype).expand(shape)  # takes no memory
    rows = torch.arange(shape[0])
    data = Annotations(x, rows, torch.zeros(shape[0], 0), torch.zeros(shape[0]))
    assert make_method().count_combined(data) == expected
