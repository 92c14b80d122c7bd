"""Auto and stack: mixtures of methods, on every kind of data that they must not fail on."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.auto import Auto, auto
from lupi.methods.label_posterior import LabelPosterior
from lupi.settings import Settings
from lupi.training import Checkpoint, fit
from tests.methods.helpers import recorded

MEMBERS = ("no-pi", "mean-imputation", "pi-transition")
HOW = Settings(epochs=2, batch_size=16, learning_rate=0.01)


def make(name="auto", likelihood=Categorical(), trunk=None, **options):
    parts = testing.make_parts(likelihood)
    return methods.build(name, parts if trunk is None else dataclasses.replace(parts, trunk=trunk), **options)


def names_of(history):
    """The stages, those of several networks as one."""
    return list(dict.fromkeys(row["stage"].split(" ")[0] for row in history))


def assert_finite(method, x):
    with torch.no_grad():
        assert method.predictor()(x).isfinite().all()


@pytest.mark.parametrize(
    ("name", "likelihood"),
    [(name, likelihood) for name in ("auto", "stack") for likelihood in (Categorical(), Bernoulli())]
    + [("auto", Gaussian())],
)
def test_weights_are_a_distribution(name, likelihood):
    method, data = make(name, likelihood), testing.make_data(likelihood)
    history = fit(method, data, HOW)
    expected = [member for member in MEMBERS if isinstance(likelihood, methods.kind(member).likelihoods)]
    assert len(expected) == (2 if isinstance(likelihood, Gaussian) else 3)
    assert list(method.members) == expected
    assert names_of(history) == [*expected, *(["student"] if name == "auto" else [])]
    assert (method.weights >= 0).all()
    assert float(method.weights.sum()) == pytest.approx(1, abs=1e-5)
    assert_finite(method, data.x)


@pytest.mark.parametrize("name", ["auto", "stack"])
@pytest.mark.parametrize("members", [None, ("tram", "pi-dual", "no-pi")])
def test_privileged_information_that_is_constant_gives_all_weight_to_no_pi(name, members):
    data, method = testing.make_data(Categorical()), make(name, methods=members)
    history = fit(method, dataclasses.replace(data, a=torch.ones_like(data.a)), HOW)
    weights = method.mixture()
    assert weights.pop("no-pi") + weights.pop("linear", 0.0) == pytest.approx(1)
    assert set(weights.values()) == {0.0}
    assert names_of(history) == (["no-pi", "student"] if name == "auto" else ["no-pi"])


class Blind(nn.Module):
    """A trunk that sees a column of noise."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 8)

    def forward(self, x):
        return self.linear(x[:, 4:])


def test_a_member_that_sees_more_gets_the_weight():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 5, generator=generator)
    truth, given = (x[:, 0] > 0).long(), torch.randint(3, (200,), generator=generator)
    y = torch.where(torch.rand(200, generator=generator) < 0.7, truth, given)
    data = Annotations(x, torch.arange(200), torch.rand(200, 4, generator=generator), y)
    parts = testing.make_parts(Categorical())
    blind = dataclasses.replace(parts, trunk=Blind)
    members = {"blind": lambda: methods.build("no-pi", blind), "sees": lambda: methods.build("no-pi", parts)}
    method = LabelPosterior(members, members["sees"])
    fit(method, data, dataclasses.replace(HOW, epochs=10))
    assert float(method.weights[1]) > 0.95


def test_regression_learns_the_mean():
    generator = torch.Generator().manual_seed(0)
    x, a = torch.randn(200, 5, generator=generator), torch.randn(200, 4, generator=generator)
    mean = x[:, 0] - x[:, 1]
    data = Annotations(x, torch.arange(200), a, mean + 2 * a[:, 0])
    auto_, alone = make("auto", Gaussian()), make("no-pi", Gaussian())
    how = dataclasses.replace(HOW, epochs=30)
    fit(auto_, data, how)
    fit(alone, data, how)
    test = torch.randn(1000, 5, generator=generator)
    with torch.no_grad():
        errors = [
            float((method.predictor()(test)[:, 0] - test[:, 0] + test[:, 1]).square().mean())
            for method in (auto_, alone)
        ]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize("name", ["auto", "label-posterior"])
def test_a_class_with_two_labels(name):
    generator = torch.Generator().manual_seed(0)
    x, who = torch.randn(60, 5, generator=generator), torch.randint(4, (60,), generator=generator)
    y = (x[:, 0] > 0).long()
    y[:2] = 2
    data = Annotations(x, torch.arange(60), nn.functional.one_hot(who, 4).float(), y, who)
    method = make(name)
    fit(method, data, HOW)
    assert_finite(method, x)


def test_a_class_that_nobody_chose():
    data = testing.make_data(Categorical())
    method = make()
    fit(method, dataclasses.replace(data, y=data.y % 2), HOW)
    assert_finite(method, data.x)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
@pytest.mark.parametrize("examples", [1, 3, 4, 6])
def test_tiny_tables(examples, likelihood):
    data, method = testing.make_data(likelihood), make("auto", likelihood)
    keep = (data.row < examples).nonzero().squeeze(1)
    with recorded(LabelPosterior, "remember") as calls:
        history = fit(method, data.take(keep), HOW)
    assert names_of(history)[-1] == "student"
    folds = {len(networks) for _, networks, _ in calls}
    assert folds == (set() if examples < 4 else {examples // 2})
    assert_finite(method, data.x)


def test_stack_says_how_many_examples_it_needs():
    data = testing.make_data(Categorical())
    with pytest.raises(ValueError, match=r"Expected at least 4 examples.*got 3"):
        fit(make("stack"), data.take((data.row < 3).nonzero().squeeze(1)), HOW)


def test_stack_ignores_networks_that_few_examples_leave_over():
    data = testing.make_data(Categorical())
    method = make("stack", methods=("no-pi", "tram"))
    assert len(method.list_networks()) == 10
    fit(method, data.take((data.row < 7).nonzero().squeeze(1)), HOW)
    assert len(method.list_networks()) == 6, "three folds"
    expected = method.predictor()(data.x)
    again = make("stack", methods=("no-pi", "tram"))
    again.load_state_dict(method.state_dict())
    for networks in again.networks.values():
        nn.init.constant_(networks[3].marginal.weight, torch.nan)
    torch.testing.assert_close(again.predictor()(data.x), expected)


class Large(nn.Module):
    """A cheap trunk with many parameters, of which it uses eight."""

    def __init__(self, size, *, real=False):
        super().__init__()
        many = torch.zeros(size) if real else torch.zeros(1).expand(size)  # expanded, it takes no memory
        self.many = nn.Parameter(many, requires_grad=False)
        self.linear = nn.Linear(5, 8)

    def forward(self, x):
        return self.linear(x) + self.many[:8]


@pytest.mark.parametrize("name", ["auto", "stack"])
@pytest.mark.parametrize(
    ("size", "folds", "members"),
    [
        (9_000_000, 5, ["no-pi", "mean-imputation", "pi-transition"]),
        (11_000_000, 3, ["no-pi", "mean-imputation", "pi-transition"]),
        (51_000_000, 2, ["no-pi", "pi-transition"]),
    ],
)
def test_the_budget_follows_from_the_size_of_the_trunk(name, size, folds, members):
    method = make(name, trunk=lambda: Large(size))
    assert method.folds == folds
    assert list(method.members) == members
    chosen = make(name, trunk=lambda: Large(size), folds=4, methods=("tram",))
    assert (chosen.folds, list(chosen.members)) == (4, ["tram"])


def test_a_large_trunk_trains():
    data, method = testing.make_data(Categorical()), make(trunk=lambda: Large(10_000_001, real=True), combined_inputs=0)
    history = fit(method, data, dataclasses.replace(HOW, epochs=1))
    assert names_of(history) == ["no-pi", "mean-imputation", "pi-transition", "student"]
    assert_finite(method, data.x)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)

    def forward(self, x):
        return self.table(x).mean(1)


@pytest.mark.parametrize("name", ["auto", "stack", "label-posterior"])
def test_between_tokens_there_is_nothing(name):
    data = testing.make_data(Categorical())
    data = dataclasses.replace(data, x=torch.randint(20, (testing.EXAMPLES, 6)))
    method = make(name, trunk=Tokens)
    with recorded(LabelPosterior, "make_targets") as calls:
        fit(method, data, HOW)
    assert all(len(sets) == testing.EXAMPLES and sets.x is data.x for _, sets in calls)
    assert bool(calls) == (name != "stack")
    assert_finite(method, data.x)


class Source:
    """Rows that are read when they are indexed."""

    def __init__(self, x):
        self.x, self.shape = x, tuple(x.shape)

    def __getitem__(self, index):
        return self.x[index]


@pytest.mark.parametrize("name", ["auto", "stack", "label-posterior"])
def test_a_source_that_is_no_tensor_trains_the_same_network(name):
    data, options = testing.make_data(Categorical()), {} if name == "stack" else {"combined_inputs": 0}
    torch.manual_seed(1)
    method = make(name, **options)
    other = copy.deepcopy(method)
    fit(method, data, HOW)
    fit(other, dataclasses.replace(data, x=Source(data.x)), HOW)
    for key, value in method.state_dict().items():
        assert torch.equal(other.state_dict()[key], value), key


class Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 8)

    def forward(self, x):
        return self.linear(x.float())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.uint8])
def test_points_between_inputs_of_any_number_format(dtype):
    data, method = testing.make_data(Categorical()), make(trunk=Rounded)
    data = dataclasses.replace(data, x=(10 * data.x.abs()).to(dtype))
    fit(method, data, HOW)
    assert_finite(method, data.x)


# ---------------------------------------------------------------------------- what ships


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
def test_the_predictor_is_that_of_no_pi(likelihood):
    method, no_pi = make("auto", likelihood), make("no-pi", likelihood)
    fit(method, testing.make_data(likelihood), HOW)
    assert repr(method.predictor()) == repr(no_pi.predictor())
    shapes = [{name: value.shape for name, value in one.predictor().state_dict().items()} for one in (method, no_pi)]
    assert shapes[0] == shapes[1]


def test_nothing_of_examples_or_labels_is_stored():
    generator = torch.Generator().manual_seed(0)
    row = torch.cat([torch.arange(37), torch.randint(37, (34,), generator=generator)])
    who = torch.randint(4, (71,), generator=generator)
    x, y = torch.randn(37, 5, generator=generator), torch.randint(3, (71,), generator=generator)
    data = Annotations(x, row, nn.functional.one_hot(who, 4).float(), y, who)
    for name in ("auto", "label-posterior"):
        method = make(name)
        before = {key: value.shape for key, value in method.state_dict().items()}
        with recorded(LabelPosterior, "set_targets") as calls:
            fit(method, data, HOW)
        assert calls[0][1]["predictions"]["no-pi"].shape == (37, 3), "there was something to forget"
        assert method.memory == {}
        assert {key: value.shape for key, value in method.state_dict().items()} == before
        student = {f"student.{key}" for key in method.student.state_dict()}
        assert set(before) == student | {"weights", "seed"}


# ---------------------------------------------------------------------------- stack


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_stack_predicts_the_mixture_of_its_networks(likelihood):
    method, data = make("stack", likelihood, methods=("no-pi", "tram"), folds=2), testing.make_data(likelihood)
    fit(method, data, HOW)
    method.weights.copy_(torch.tensor([0.4, 0.6]))
    with torch.no_grad():
        means = [
            torch.stack([likelihood.mean(network.marginal(network.trunk(data.x))) for network in networks]).mean(0)
            for networks in (method.networks["no-pi"], method.networks["tram"])
        ]
        expected = 0.4 * means[0] + 0.6 * means[1]
        torch.testing.assert_close(likelihood.mean(method.predictor()(data.x)), expected)


def test_auto_distils_the_stack(monkeypatch):
    """From the same folds and initial networks, both have the same mixture; by themselves they draw their own."""
    monkeypatch.setattr(Auto, "mixes_linear", False)  # what the stack does not ship
    method, whole = make("auto", folds=5), make("stack", folds=5)
    whole.seed.copy_(method.seed)  # the same folds
    for name, networks in whole.networks.items():
        own = method.make_networks(method.members[name], name, 5, torch.device("cpu"))
        for network, start in zip(networks, own, strict=True):
            assert not torch.equal(network.trunk[0].weight, start.trunk[0].weight)
            network.load_state_dict(start.state_dict())
    data = testing.make_data(Categorical())
    fit(method, data, HOW)
    fit(whole, data, HOW)
    assert float(method.weights.max()) < 1
    torch.testing.assert_close(whole.weights, method.weights, rtol=0, atol=1e-5)


def test_networks_of_a_stack_observe_the_folds_they_learn_from():
    data, method = testing.make_data(Categorical()), make("stack", methods=("mean-imputation",), folds=2)
    fit(method, data, HOW)
    means = [network.imputed for network in method.networks["mean-imputation"]]
    assert not torch.equal(*means)
    assert not any(torch.equal(mean, data.a.mean(0)) for mean in means)


# ---------------------------------------------------------------------------- arguments


def test_unknown_and_impossible_methods():
    with pytest.raises(ValueError, match=r"Expected `methods` to be among no-pi, .*, but got 'trams'"):
        auto(testing.make_parts(Categorical()), methods=("no-pi", "trams"))
    impossible = [name for name in MEMBERS if Gaussian not in methods.kind(name).likelihoods]
    assert impossible
    with pytest.raises(ValueError, match="Expected `methods` to be possible where y is a real number, but got"):
        auto(testing.make_parts(Gaussian()), methods=impossible)


@pytest.mark.parametrize(
    "other",
    [
        {"methods": ("no-pi", "mean-imputation")},
        {"folds": 3},
        {"weight": 0.4},
        {"exponent": 0.4},
        {"combined_inputs": 0},
    ],
)
def test_a_checkpoint_of_other_options_is_refused(tmp_path, other):
    data, options = testing.make_data(Categorical()), {"methods": ("no-pi", "tram"), "folds": 2}
    checkpoint = Checkpoint(tmp_path / "run.pt")
    fit(make(**options), data, HOW, checkpoint=checkpoint)
    fit(make(**options), data, HOW, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="to be a checkpoint of this run, but its `checksum of the network"):
        fit(make(**options | other), data, HOW, checkpoint=checkpoint)
