"""True labels that are known, and trusted annotators, in every kind of method."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI, build
from lupi.methods.aggregation import DawidSkene, MajorityVote
from lupi.methods.explanation import explain
from lupi.methods.label_posterior import LabelPosterior
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import fit

GOLD = torch.tensor([2, -1, 0, -1])


def make_data(gold=GOLD, y=None, sparse=False):
    """Four examples with two labels each, by two annotators."""
    row, who = torch.arange(8) // 2, torch.arange(8) % 2
    a = torch.eye(2)[who] + 0.5
    y = torch.tensor([0, 1, 1, 1, 2, 2, 0, 1]) if y is None else y
    a = SparseRows.from_matrix(a) if sparse else a
    return Annotations(torch.randn(4, 2, generator=torch.Generator().manual_seed(0)), row, a, y, who, gold=gold)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_true_label_replaces_the_labels_of_its_example(sparse):
    made = make_data(sparse=sparse).with_gold()
    assert made.y.tolist() == [2, 2, 1, 1, 0, 0, 0, 1]
    a = made.a[torch.arange(8)]
    assert a[[0, 1, 4, 5]].abs().sum() == 0  # nobody in particular has given it
    assert torch.equal(a[[2, 3, 6, 7]], make_data().a[[2, 3, 6, 7]])
    assert torch.equal(made.annotator, make_data().annotator)


def test_true_labels_of_soft_multi_label_and_real_targets():
    soft = torch.full((8, 3), 1 / 3)
    assert make_data(y=soft).with_gold().y[:4].tolist() == [[0, 0, 1], [0, 0, 1], *soft[2:4].tolist()]
    some = torch.tensor([[1.0, 0.0], [float("nan"), 1.0], [0.0, 0.0], [float("nan")] * 2])
    several = make_data(some, torch.ones(8, 2)).with_gold()
    assert several.y[::2].tolist() == [[1, 0], [1, 1], [0, 0], [1, 1]]  # one that is known in part is unknown
    real = make_data(torch.tensor([7.0, float("nan"), 8.0, float("nan")]), torch.arange(8.0)).with_gold()
    assert real.y.tolist() == [7, 7, 2, 3, 8, 8, 6, 7]


def test_true_labels_move_and_are_taken_with_their_examples():
    part = make_data().take(torch.tensor([6, 0]))
    assert part.with_gold().y.tolist() == [0, 2]
    assert part.to("cpu").with_gold().y.tolist() == [0, 2]
    with pytest.raises(ValueError, match="`gold` to have 4 rows, as `x` has, but got 3"):
        make_data(GOLD[:3])


def make_parts(likelihood, outputs=3):
    return Parts(
        lambda: MLP(2, (8,)), features=8, privileged=2, outputs=outputs, likelihood=likelihood, tower_widths=(4, 4)
    )


@pytest.mark.parametrize(  # one of each way to use labels: both heads, in stages, aggregated, of a crowd, cross-fitted
    "name", ["tram", "two-step-tram", "full-marginalization", "majority-vote", "pi-transition", "annot-mix", "auto"]
)
def test_methods_learn_a_truth_that_all_labels_deny(name):
    """All labels say 0; the truth of nine in ten examples is known, and is 1."""
    generator = torch.Generator().manual_seed(0)
    x, row = torch.randn(60, 2, generator=generator), torch.arange(120) // 2
    gold = torch.where(torch.arange(60) % 10 > 0, 1, -1)
    y, who = torch.zeros(120, dtype=torch.int64), torch.arange(120) % 3
    y[:2] = 2  # so that labels vary
    data = Annotations(x, row, torch.rand(120, 2, generator=generator), y, who, gold=gold)
    torch.manual_seed(0)
    method = build(name, replace(make_parts(Categorical()), annotators=3))
    fit(method, data, Settings(epochs=30, batch_size=16, learning_rate=0.01))
    with torch.no_grad():
        assert (method.predictor()(x).argmax(1) == 1).double().mean() > 0.8


def test_early_stopping_looks_at_true_labels_where_they_are_known():
    data, method = make_data(), NoPI(nn.Identity(), nn.Linear(2, 3))
    held_out = make_data(torch.tensor([1, 1, 1, 1]))
    history = fit(method, data, Settings(epochs=1, learning_rate=0.0), validation=held_out)
    expected = F.cross_entropy(method.predictor()(data.x), torch.ones(4, dtype=torch.int64))
    assert history[0]["validation_marginal"] == pytest.approx(expected.item())


@pytest.mark.parametrize("method", [MajorityVote, DawidSkene])
def test_aggregated_labels_of_known_examples_are_their_truth(method):
    made = method(nn.Identity(), nn.Linear(2, 3), classes=3)
    data = make_data() if made.models_annotators else make_data().with_gold()
    target = made.prepare(data).y
    assert target[[0, 2]].tolist() == [[0, 0, 1], [1, 0, 0]]
    several = method(nn.Identity(), nn.Linear(2, 2), classes=2, likelihood=Bernoulli())
    gold = torch.tensor([[1.0, 0.0], [float("nan")] * 2, [0.0, 1.0], [float("nan")] * 2])
    data = make_data(gold, torch.ones(8, 2))
    target = several.prepare(data if several.models_annotators else data.with_gold()).y
    assert target[[0, 2]].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
def test_targets_of_known_examples_are_their_truth(likelihood):
    rng = np.random.default_rng(0)
    if isinstance(likelihood, Categorical):
        data, predictions = make_data(), [rng.dirichlet(np.ones(3), 4) for _ in range(2)]
        expected = np.eye(3)[[2, 0]]
    elif isinstance(likelihood, Bernoulli):
        gold = torch.tensor([[1.0, 0.0], [float("nan")] * 2, [0.0, 1.0], [float("nan")] * 2])
        data, predictions = make_data(gold, torch.ones(8, 2)), [rng.uniform(size=(4, 2)) for _ in range(2)]
        expected = np.array([[1.0, 0.0], [0.0, 1.0]])
    else:
        data = make_data(torch.tensor([7.0, float("nan"), 8.0, float("nan")]), torch.arange(8.0))
        predictions, expected = [rng.normal(size=(4, 1)) for _ in range(2)], np.array([7.0, 8.0])
    target = explain(data, predictions, likelihood, 0.75, None).target
    np.testing.assert_allclose(target[[0, 2]], expected, atol=1e-12)
    assert not np.isin(target[[1, 3]], expected).any()


def test_no_network_learns_the_true_label_of_an_example_that_it_predicts():
    """The stages of cross-fitting see the true labels of the other folds alone."""
    gold = torch.arange(20) % 3
    data = Annotations(
        torch.randn(20, 2), torch.arange(20), torch.eye(20), torch.zeros(20, dtype=torch.int64), gold=gold
    )
    make = lambda: NoPI(nn.Identity(), nn.Linear(2, 3))  # noqa: E731
    method = LabelPosterior({"no-pi": make}, make, folds=4)
    stage = next(iter(method.stages(data)))
    for trained, held in zip(stage.prepare(data), stage.split_validation(data), strict=True):
        assert set(trained.row.tolist()).isdisjoint(held.row.tolist())
        assert torch.equal(trained.y, gold[trained.row])
        assert torch.equal(held.y, gold[held.row])


def test_trust_decides_between_annotators_who_contradict_each_other():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=100)
    label = np.where(np.arange(200) % 2 == 0, truth.repeat(2), 1 - truth.repeat(2))
    data = Annotations(torch.randn(100, 1), torch.arange(200) // 2, torch.zeros(200, 1), torch.from_numpy(label))
    data = replace(data, annotator=torch.arange(200) % 2)
    for trusted in (0, 1):
        trust = torch.tensor([float("nan")] * 2)
        trust[trusted] = 0.95
        flat = [np.full((100, 2), 0.5)]
        target = explain(replace(data, trust=trust), flat, Categorical(), 0.75, None).target
        assert ((target.argmax(1) == truth).mean() == 1) == (trusted == 0)
        made = DawidSkene(nn.Identity(), nn.Linear(1, 2), classes=2).prepare(replace(data, trust=trust))
        assert ((made.y.argmax(1).numpy() == truth).mean() == 1) == (trusted == 0)
