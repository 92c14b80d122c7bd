from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lupi.crowd import Votes, dawid_skene
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli
from lupi.methods import NoPI
from lupi.methods.aggregation import DawidSkene, MajorityVote
from lupi.settings import Settings
from lupi.training import fit

CLASSES = 3
LABELS = st.lists(st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=6), min_size=2, max_size=6)


def make(kind, **options):
    return kind(nn.Identity(), nn.Linear(2, CLASSES), classes=CLASSES, **options)


def crowd(labels, annotator=None):
    """Annotations of the examples 1, 2, …, in mixed order; example 0 has no label."""
    row = np.concatenate([np.full(len(own), number) for number, own in enumerate(labels, 1)])
    order = np.random.default_rng(0).permutation(len(row))
    y = torch.tensor(np.concatenate(labels)[order])
    who = None if annotator is None else torch.tensor(np.asarray(annotator)[order])
    x = torch.randn(len(labels) + 1, 2, generator=torch.Generator().manual_seed(0))
    return Annotations(x, torch.tensor(row[order]), torch.zeros(len(row), 4), y, who)


@given(LABELS)
def test_the_majority_has_all_of_the_target_and_ties_share_it(labels):
    made = make(MajorityVote).prepare(crowd(labels))
    assert made.row.tolist() == list(range(1, len(labels) + 1))  # one target per labelled example
    for own, target in zip(labels, made.y, strict=True):
        counts = [own.count(k) for k in range(CLASSES)]
        winners = [k for k in range(CLASSES) if counts[k] == max(counts)]
        expected = [1 / len(winners) if k in winners else 0.0 for k in range(CLASSES)]
        assert target.tolist() == pytest.approx(expected)


@given(st.lists(st.integers(0, CLASSES - 1), min_size=2, max_size=8), st.sampled_from([MajorityVote, DawidSkene]))
def test_one_label_each_is_kept(labels, kind):
    made = make(kind).prepare(crowd([[label] for label in labels]))
    assert made.y.tolist() == torch.eye(CLASSES)[labels].tolist()


@given(LABELS, st.integers(0, 100))
def test_a_vote_counts_as_its_weight(labels, seed):
    data = crowd(labels)
    times = torch.randint(1, 4, (len(data),), generator=torch.Generator().manual_seed(seed))
    made = make(MajorityVote).prepare(replace(data, weight=times.float()))
    repeated = make(MajorityVote).prepare(data.take(torch.arange(len(data)).repeat_interleave(times)))
    assert torch.equal(made.y, repeated.y)
    mean = [times[data.row == row].float().mean() for row in made.row]
    torch.testing.assert_close(made.weight, torch.stack(mean))


def test_soft_votes_count_as_their_probabilities():
    data = crowd([[0, 0, 0], [0]])
    y = torch.tensor([[0.6, 0.4, 0], [0.6, 0.4, 0], [0, 0.9, 0.1], [0.5, 0.3, 0.2]])
    data = replace(data, row=torch.tensor([1, 1, 1, 2]), y=y)
    assert make(MajorityVote).prepare(data).y.tolist() == [[0, 1, 0], [1, 0, 0]]  # most labels favour class 0
    alone = replace(data, row=torch.arange(3).repeat(2)[:4], x=torch.eye(4)[:, :2])
    alone = alone.take(torch.tensor([0, 1, 2]))
    torch.testing.assert_close(make(DawidSkene).prepare(alone).y, y[:3])


def test_dawid_skene_weighs_annotators():
    """Two annotators are always right and three often guess; knowing who is who finds the truth."""
    rng = np.random.default_rng(1)
    truth = rng.integers(CLASSES, size=80)
    noisy = [np.where(rng.random(80) < 0.5, rng.integers(CLASSES, size=80), truth) for _ in range(3)]
    labels = [[int(t), int(t), *(int(n[i]) for n in noisy)] for i, t in enumerate(truth)]
    annotator = np.tile(np.arange(5), 80)
    data = crowd(labels, annotator)
    target = make(DawidSkene).prepare(data).y
    votes = Votes(
        example=np.repeat(np.arange(80), 5),
        annotator=annotator,
        label=np.concatenate(labels),
        examples=80,
        annotators=5,
        classes=CLASSES,
    )
    np.testing.assert_allclose(target, dawid_skene(votes)[0], atol=1e-6)
    majority = make(MajorityVote).prepare(data).y
    gold = torch.tensor(truth)
    right = (target.argmax(1) == gold).float().mean()
    assert right >= (majority.argmax(1) == gold).float().mean()
    assert right > 0.99


def test_several_labels_are_aggregated_one_by_one():
    y = torch.tensor([[1.0, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 0]])
    data = Annotations(torch.eye(2), torch.tensor([0, 0, 0, 1]), torch.zeros(4, 1), y)
    made = make(MajorityVote, likelihood=Bernoulli()).prepare(data)
    assert made.y.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_training_is_no_pi_on_the_targets():
    data = crowd([[0, 0, 1], [1, 1], [2, 0], [2]])
    torch.manual_seed(0)
    method = make(MajorityVote)
    plain = NoPI(nn.Identity(), nn.Linear(2, CLASSES))
    plain.load_state_dict(method.state_dict())
    prepared, how = method.prepare(data), Settings(epochs=5, batch_size=2)
    fit(method, data, how, seed=3)
    fit(plain, prepared, how, seed=3)
    for name, value in plain.state_dict().items():
        assert torch.equal(method.state_dict()[name], value)


@pytest.mark.parametrize("kind", [MajorityVote, DawidSkene])
def test_early_stopping_sees_held_out_labels_aggregated(kind):
    """Noisy labels would stop a network too early that learns true labels: its sure predictions look bad to them."""
    data, held_out = crowd([[0, 0, 1], [1, 1], [2, 0], [2]]), crowd([[0, 0, 1, 1, 1], [2]])
    method = make(kind)
    history = fit(method, data, Settings(epochs=1, patience=1), validation=held_out)
    target = method.prepare(held_out)
    with torch.no_grad():
        log = torch.log_softmax(method.predictor()(held_out.x), 1)[target.row]
    assert history[0]["validation_marginal"] == pytest.approx(-(target.y * log).sum(1).mean().item(), rel=1e-5)
