"""The norm of the gradient is limited separately for losses that train different parameters."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi import testing
from lupi.likelihoods import Categorical
from lupi.methods import TRAM, Method, NoPI
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit
from lupi.training.optimizer import clip_each, group_by_loss
from tests.training.helpers import make_data, make_method, weights


def names_of(method, group):
    return {name for name, value in method.named_parameters() if any(value is other for other in group)}


@pytest.mark.parametrize("name", ["no-pi", "tram", "two-step-tram", "full-marginalization", "heteroscedastic-dropout"])
def test_every_loss_sends_gradients_to_one_group(name):
    """In every stage; and the groups are a partition that cannot be refined."""
    for method, batch in testing.iterate_stages(make_method(name), make_data()):
        groups = group_by_loss(method)
        everything = [id(value) for group in groups for value in group]
        assert sorted(everything) == sorted(id(value) for value in method.parameters())
        reached = []
        for loss in method.losses(batch).values():
            parameters = [value for group in groups for value in group]
            gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
            own = {id(value) for value, g in zip(parameters, gradients, strict=True) if g is not None and g.any()}
            hit = [number for number, group in enumerate(groups) if own & {id(value) for value in group}]
            assert len(hit) == 1, "a loss trains the parameters of several groups"
            reached += hit
        assert set(reached) == set(range(len(groups)))


def test_groups_of_losses_apart_and_overlapping():
    heads = {"marginal.weight", "marginal.bias"}
    tram = make_method("tram")
    others = {name for name, _ in tram.named_parameters()} - heads
    assert [names_of(tram, group) for group in group_by_loss(tram)] == [others, heads]
    for name in ("heteroscedastic-dropout", "miml-fcn-plus"):
        method = make_method(name)
        assert [len(group) for group in group_by_loss(method)] == [len(list(method.parameters()))]


def test_a_shared_module_joins_the_losses():
    tram = make_method("tram")
    shared = nn.Linear(8, 3)
    tied = TRAM(tram.trunk, nn.Bilinear(8, 3, 8), shared, shared)
    assert len(group_by_loss(tied)) == 1


def test_a_method_that_does_not_list_its_gradients_is_one_group():
    class Own(Method):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(1, 1), nn.Linear(1, 1)

        def losses(self, batch):
            return {"loss": self.second(self.first(batch.x)).mean()}

    assert [len(group) for group in group_by_loss(Own())] == [4]


class Steep(TRAM):
    """TRAM whose marginal loss is scaled, and so its gradient."""

    scale = 1.0

    def losses(self, batch):
        losses = super().losses(batch)
        return losses | {"marginal": self.scale * losses["marginal"]}


@given(st.floats(0, 1e6), st.sampled_from(["adam", "sgd"]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_marginal_head_does_not_change_the_rest_of_tram(scale, optimizer, stacked):
    """Bit for bit, whatever its gradient."""
    tram, data = make_method("tram"), make_data()
    start = Steep(tram.trunk, tram.tower, tram.conditional, tram.marginal)
    how = Settings(epochs=2, batch_size=8, optimizer=optimizer, learning_rate=0.1, clip=0.05)
    results = []
    for own in (1.0, scale):
        method = copy.deepcopy(start)
        method.scale = own
        if stacked:
            fit(Replicas([method]), StackedAnnotations([data]), how, seed=[0])
        else:
            fit(method, data, how)
        results.append(weights(method))
    for name, value in results[0].items():
        if not name.startswith("marginal."):
            assert torch.equal(value, results[1][name]), name
            assert not torch.equal(value, start.state_dict()[name]) or not value.is_floating_point()


@given(st.floats(1e-3, 1e3), st.sampled_from(["no-pi", "tram"]))
@settings(max_examples=20, deadline=None)
def test_clip_limits_the_step_of_every_group(clip, name):
    data, method = make_data(), make_method(name)
    start = weights(method)
    loss = method(data.by_annotation(torch.arange(len(data))))
    norms = [
        math.sqrt(sum(float(g.square().sum()) for g in torch.autograd.grad(loss, group, retain_graph=True)))
        for group in group_by_loss(method)
    ]
    how = Settings(epochs=1, batch_size=99, optimizer=torch.optim.SGD, learning_rate=1, clip=clip)
    fit(method, data, how)
    for norm, group in zip(norms, group_by_loss(method), strict=True):
        names = names_of(method, group)
        moved = math.sqrt(sum(float((weights(method)[name] - start[name]).square().sum()) for name in names))
        assert moved == pytest.approx(min(norm, clip), rel=1e-3)


@given(st.integers(1, 4), st.floats(1e-2, 1e2), st.integers(0, 2**20))
@settings(max_examples=30, deadline=None)
def test_each_replica_has_a_norm_of_its_own(replicas, maximum, seed):
    generator = torch.Generator().manual_seed(seed)
    scale = 10 ** torch.randn(replicas, generator=generator)
    shapes = [(3, 2), (2,), ()]
    gradients = [scale.reshape(-1, *[1] * len(s)) * torch.randn(replicas, *s, generator=generator) for s in shapes]
    parameters = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    clip_each([*parameters, nn.Parameter(torch.zeros(replicas, 2))], maximum)  # the last has no gradient
    for number in range(replicas):
        alone = [nn.Parameter(torch.zeros(s)) for s in shapes]
        for parameter, gradient in zip(alone, gradients, strict=True):
            parameter.grad = gradient[number].clone()
        nn.utils.clip_grad_norm_(alone, maximum)
        for parameter, expected in zip(parameters, alone, strict=True):
            torch.testing.assert_close(parameter.grad[number], expected.grad)


def test_a_replica_that_diverges_does_not_clip_the_others():
    """A norm that is not finite is that of one replica."""
    methods_of_seeds = [NoPI(nn.Identity(), nn.Linear(testing.INPUTS, 3)) for _ in range(2)]
    alone = copy.deepcopy(methods_of_seeds[1])
    good = testing.make_data(Categorical())
    bad = testing.make_data(Categorical())
    bad.x.mul_(1e30)
    how = Settings(epochs=1, batch_size=40, optimizer="sgd", clip=0.1)
    replicas = Replicas(methods_of_seeds)
    fit(replicas, StackedAnnotations([bad, good]), how, seed=[0, 1])
    fit(alone, good, how, seed=1)
    torch.testing.assert_close(weights(methods_of_seeds[1]), weights(alone), rtol=0, atol=1e-5)
