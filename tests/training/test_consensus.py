"""Early stopping by the consensus of held-out labels, for methods whose predictor aims at the truth."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lupi.crowd import infer
from lupi.likelihoods import Bernoulli, Gaussian
from lupi.methods import NoPI, kind, names
from lupi.methods.ensemble import Ensemble
from lupi.nn import MLP
from lupi.settings import Settings
from lupi.training import Checkpoint, fit, fit_seeds
from lupi.training.consensus import form_consensus
from tests.training.helpers import SEED, assert_equal, interrupted, make_data, make_method, weights

HOW = Settings(epochs=30, learning_rate=0.02, batch_size=16, patience=2)


def annotate(seed, examples=60, annotations=150):
    """Labels of three annotators, the last of whom guesses."""
    data = make_data(examples, annotations, seed)
    generator = torch.Generator().manual_seed(seed)
    truth = (data.x @ torch.linspace(-1, 1, 12).reshape(3, 4).T.sin()).argmax(1)[data.row]
    annotator = torch.randint(3, (annotations,), generator=generator)
    y = torch.where((annotator == 2) | (torch.rand(annotations, generator=generator) < 0.2), data.y, truth)
    return dataclasses.replace(data, a=F.one_hot(annotator, 3).float(), y=y, annotator=annotator)


def train(method, how=HOW, **options):
    return fit(method, annotate(0), how, validation=annotate(7), seed=SEED, **options)


def test_the_consensus_is_the_posterior_of_the_annotator_model():
    data, network = annotate(7), make_method("no-pi")
    fit(network, annotate(0), Settings(epochs=3))
    data = data.take(data.order)  # `infer` returns examples in the order in which they occur
    row, formed = data.row.numpy(), form_consensus(network, data)
    p = torch.softmax(network.predictor()(data.x), 1).double().detach().numpy()
    found = infer(p[row], data.y.numpy(), example=row, annotator=data.annotator.numpy())
    torch.testing.assert_close(formed.y.double(), torch.from_numpy(found.truth), atol=1e-5, rtol=1e-5)
    assert formed.row.tolist() == list(range(60))
    assert abs(found.truth - p).mean() > 0.05


def test_examples_without_labels_are_left_out_and_known_truths_taken():
    data = annotate(7)
    some = data.take((data.row % 2 == 0).nonzero().squeeze(1))
    gold = torch.full((60,), -1)
    gold[4] = 2
    formed = form_consensus(make_method("no-pi"), dataclasses.replace(some, gold=gold))
    assert formed.row.tolist() == list(range(0, 60, 2))
    assert formed.y[2].tolist() == pytest.approx([0, 0, 1], abs=1e-5)


def test_weights_of_labels_weigh_their_example():
    data = annotate(7)
    weight = 1.0 + (data.row % 3)
    formed = form_consensus(make_method("no-pi"), dataclasses.replace(data, weight=weight))
    assert torch.equal(formed.weight, 1.0 + (formed.row % 3))


def test_numbers_on_which_all_agree_are_the_consensus():
    data = make_data()
    data = dataclasses.replace(data, y=data.row.float())
    formed = form_consensus(NoPI(MLP(4, (8,)), torch.nn.Linear(8, 1), likelihood=Gaussian()), data)
    means = [data.y[data.row == row].mean().item() for row in range(11)]
    assert formed.y.tolist() == pytest.approx(means, abs=0.05)


def test_binary_labels_agree_one_by_one():
    data = make_data(40, 120)
    data = dataclasses.replace(data, y=F.one_hot(data.y, 3).float())
    formed = form_consensus(NoPI(MLP(4, (8,)), torch.nn.Linear(8, 3), likelihood=Bernoulli()), data)
    assert formed.y.shape == (40, 3)
    assert bool(((formed.y >= 0) & (formed.y <= 1)).all())


@pytest.mark.parametrize("name", ["pi-dual", "pi-transition"])
def test_a_predictor_of_the_truth_stops_by_the_consensus(name):
    """The best weights are those with the least cross-entropy to the consensus, computed by hand."""
    method = make_method(name)
    labeller = NoPI(make_method(name).trunk, make_method(name).marginal)
    history = train(method)
    first = [row for row in history if row["stage"] == "consensus"]
    assert [row | {"stage": "train"} for row in first] == train(labeller)
    watched = [row["validation_consensus"] for row in history if row["stage"] == "train"]
    best = int(np.argmin(watched))
    assert 0 < best == len(watched) - 3 < 27
    target = form_consensus(labeller, annotate(7)).y
    loss = -(target * torch.log_softmax(method.predictor()(annotate(7).x), 1)).sum(1).mean()
    assert loss.item() == pytest.approx(watched[best], rel=1e-4)
    assert not method.memory


def test_without_patience_nothing_is_agreed_on():
    history = train(make_method("pi-dual"), Settings(epochs=2))
    assert [row["stage"] for row in history] == ["train", "train"]
    assert "validation_conditional" in history[0]


def test_which_methods_predict_the_truth():
    crowds = ["crowd-layer", "geo-crowd-net", "annot-mix"]
    assert [name for name in names() if kind(name).predicts_truth] == ["pi-dual", "pi-transition", *crowds]
    assert "consensus" not in {row["stage"] for row in train(make_method("tram"))}


@pytest.mark.parametrize("step", [5, 25, 70, 90])
def test_an_interrupted_run_forms_the_same_consensus(tmp_path, step):
    checkpoint, how = Checkpoint(tmp_path / "run.pt", every=4), dataclasses.replace(HOW, epochs=6, patience=6)
    uninterrupted, again = make_method("pi-dual"), make_method("pi-dual", seed=2)
    again.random_pi.seed.copy_(uninterrupted.random_pi.seed)
    history = train(uninterrupted, how)
    assert len(history) == 12
    start = make_method("pi-dual")
    assert interrupted(train, step, start, how, checkpoint=checkpoint) == (None, step)
    resumed, _ = interrupted(train, None, again, how, checkpoint=checkpoint)
    assert resumed == history
    assert_equal(weights(uninterrupted), weights(again))


def test_seeds_train_together_and_alone():
    sets, held_out = [annotate(seed) for seed in range(4)], [annotate(seed) for seed in range(7, 11)]
    together, alone = ([make_method("pi-transition", seed) for seed in range(4)] for _ in range(2))
    how = dataclasses.replace(HOW, epochs=4)
    histories = fit_seeds(together, sets, how, validation=held_out, seeds=range(4))
    for seed, history in enumerate(histories):
        expected = fit(alone[seed], sets[seed], how, validation=held_out[seed], seed=seed)
        assert [row["stage"] for row in history] == [row["stage"] for row in expected]
        for one, other in zip(history, expected, strict=True):
            name = "validation_marginal" if one["stage"] == "consensus" else "validation_consensus"
            assert one[name] == pytest.approx(other[name], rel=1e-3)


@pytest.mark.parametrize("members", [2, 5])
def test_members_of_an_ensemble_agree_each_with_its_own(members):
    ensemble = Ensemble([make_method("pi-dual", seed) for seed in range(members)])
    stages = [row["stage"] for row in train(ensemble, dataclasses.replace(HOW, epochs=2))]
    assert {name.split()[0] for name in stages} == {"consensus", "train"}


def test_a_learning_rate_of_a_part_that_no_pi_has_not():
    history = train(make_method("pi-dual"), dataclasses.replace(HOW, epochs=2, learning_rates={"gate": 0.1}))
    assert [row["stage"] for row in history] == ["consensus"] * 2 + ["train"] * 2


def test_double_precision():
    data, held_out = (
        dataclasses.replace(part, x=part.x.double(), a=part.a.double()) for part in (annotate(0), annotate(7))
    )
    method = make_method("pi-transition").double()
    fit(method, data, dataclasses.replace(HOW, epochs=2), validation=held_out)
    assert form_consensus(NoPI(method.trunk, method.marginal), held_out).y.dtype == torch.float64


def test_known_truths_do_not_make_annotators_look_right():
    """The consensus is formed from the labels as they were given, and the truth of examples where it is known."""
    held_out = annotate(7)
    gold = torch.full((60,), -1)
    gold[::3] = (held_out.x @ torch.linspace(-1, 1, 12).reshape(3, 4).T.sin()).argmax(1)[::3]
    held_out = dataclasses.replace(held_out, gold=gold)
    method, labeller = make_method("pi-transition"), make_method("pi-transition")
    labeller = NoPI(labeller.trunk, labeller.marginal)
    how = dataclasses.replace(HOW, epochs=3, patience=3)
    history = fit(method, annotate(0), how, validation=held_out, seed=SEED)
    fit(labeller, annotate(0), how, validation=held_out, seed=SEED)
    target = form_consensus(labeller, held_out).y
    assert torch.equal(target[::3].argmax(1), gold[::3])
    loss = -(target * torch.log_softmax(method.predictor()(held_out.x), 1)).sum(1).mean()
    watched = [row["validation_consensus"] for row in history if row["stage"] == "train"]
    assert loss.item() == pytest.approx(min(watched), rel=1e-4)


@pytest.mark.parametrize("name", ["pi-dual", "pi-transition"])
def test_methods_stop_on_the_labels_if_asked(name):
    method, unaware = make_method(name), make_method(name)
    object.__setattr__(unaware, "predicts_truth", False)
    history = train(method, dataclasses.replace(HOW, stop_on="labels"))
    assert history == train(unaware)
    assert_equal(weights(method), weights(unaware))
    assert "consensus" not in {row["stage"] for row in history}
