"""Folds of examples: no prediction comes from a network that was trained on a label of its example."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lupi import methods, testing
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import cross_fitting
from lupi.methods.auto import Auto
from lupi.methods.cross_fitting import assign_folds, split_folds
from lupi.settings import Settings
from lupi.training import fit

COUNTS = st.lists(st.integers(0, 6), min_size=4, max_size=25).filter(lambda counts: sum(c > 0 for c in counts) >= 4)
"""Numbers of labels per example."""


def numbered(counts):
    """Annotations in no order, whose y is their own number and whose x is that of the example."""
    row = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    row = row[torch.randperm(len(row), generator=torch.Generator().manual_seed(sum(counts)))]
    return Annotations(
        torch.arange(len(counts)).float()[:, None], row, torch.zeros(len(row), 1), torch.arange(len(row))
    )


@given(COUNTS, st.integers(2, 5), st.integers(0, 2**31 - 1))
def test_folds_partition_the_annotated_examples(counts, folds, seed):
    data = numbered(counts)
    folds = min(folds, len(data.annotated) // 2)
    fold = assign_folds(data, folds, seed)
    assert (fold >= 0).tolist() == [count > 0 for count in counts]
    assert set(fold.tolist()) - {-1} == set(range(folds))
    sizes = torch.bincount(fold[fold >= 0])
    assert int(sizes.max() - sizes.min()) <= 1
    assert torch.equal(fold, assign_folds(data, folds, seed))


@given(COUNTS, st.integers(2, 5), st.integers(0, 1000))
def test_sets_have_no_example_in_common_and_the_promised_sizes(counts, folds, seed):
    data = numbered(counts)
    folds = min(folds, len(data.annotated) // 2)
    fold = assign_folds(data, folds, seed)
    others, own = split_folds(data, fold, seed)
    each = max(1, round(len(data) / folds))
    assert {len(part) for part in others} == {len(data) - each}
    assert {len(part) for part in own} == {each}
    for number, (rest, mine) in enumerate(zip(others, own, strict=True)):
        assert (fold[rest.row] != number).all()
        assert (fold[mine.row] == number).all()
        for part, chosen in ((rest, fold[data.row] != number), (mine, fold[data.row] == number)):
            assert part.x is data.x
            assert torch.equal(data.row[part.y], part.row), "labels stay with their examples"
            times = torch.bincount(part.y, minlength=len(data))[chosen]  # of each annotation that it may contain
            available = int(chosen.sum())
            assert int(times.max() - times.min()) <= 1, "repeated or dropped evenly"
            assert int((times > 0).sum()) == min(available, len(part)), "nothing is lost without need"


def test_equal_numbers_of_labels_lose_and_repeat_nothing():
    data = numbered([3] * 10)
    fold = assign_folds(data, 5, 0)
    others, own = split_folds(data, fold, 0)
    for rest, mine in zip(others, own, strict=True):
        assert sorted([*rest.y.tolist(), *mine.y.tolist()]) == list(range(30))
    assert sorted(label for mine in own for label in mine.y.tolist()) == list(range(30))


# ---------------------------------------------------------------------------- out-of-fold predictions


def out_of_fold(data, epochs, members=("no-pi", "mean-imputation", "pi-transition"), folds=3):
    """What each member predicts for every example, and the folds; the networks are the same in every call."""
    kept = {}

    class Keeping(Auto):
        def explain(self, names, data, predict=None):
            kept.update({name: self.predictions[name].clone() for name in names})
            return super().explain(names, data, predict)

    torch.manual_seed(0)
    made = methods.build("auto", testing.make_parts(Categorical()), methods=members, folds=folds)
    method = Keeping(made.members, made.make_student, folds=folds, combined_inputs=0)
    method.seed.fill_(5)
    # A batch has all annotations, so that the order of annotations does not matter.
    fit(method, data, Settings(epochs=epochs, batch_size=100, learning_rate=0.03))
    return kept, assign_folds(data, folds, 5)


def poison(data, fold, number):
    """Change every label of a fold."""
    return dataclasses.replace(data, y=torch.where(fold[data.row] == number, (data.y + 1) % 3, data.y))


@pytest.mark.parametrize("number", [0, 2])
def test_labels_of_a_fold_do_not_change_its_predictions(number):
    data = testing.make_data(Categorical())
    before, fold = out_of_fold(data, 1)
    after, _ = out_of_fold(poison(data, fold, number), 1)
    assert set(before) == {"no-pi", "mean-imputation", "pi-transition"}
    mine = fold == number
    for name, p in before.items():
        torch.testing.assert_close(p[data.annotated].sum(1), torch.ones(len(data.annotated)))
        assert torch.equal(after[name][mine], p[mine]), name
        for other in {0, 1, 2} - {number}:
            assert float((after[name] - p)[fold == other].abs().max()) > 1e-3, (name, other)


def test_a_large_set_is_cross_fitted_on_a_sample(monkeypatch):
    """The labels of other examples change no prediction, and the networks of all folds predict these together."""
    data = testing.make_data(Categorical())
    monkeypatch.setattr(cross_fitting, "MAX_CROSS_FITTED", 9)
    before, fold = out_of_fold(data, 1)
    assert torch.bincount(fold[fold >= 0]).tolist() == [3, 3, 3]
    after, _ = out_of_fold(poison(data, fold, -1), 1)
    rest = data.annotated[fold[data.annotated] < 0]
    assert len(rest) == len(data.annotated) - 9 > 0
    for name, p in before.items():
        assert torch.equal(after[name], p)
        torch.testing.assert_close(p[data.annotated].sum(1), torch.ones(len(data.annotated)))
        for number in range(3):  # one network of three has learned from other labels
            changed, _ = out_of_fold(poison(data, fold, number), 1)
            difference = changed[name] - p
            assert float(difference[rest].abs().max()) > 1e-3
            assert not difference[fold == number].any()


def test_labels_of_a_fold_only_choose_the_epoch_in_which_its_network_stops():
    data, members = testing.make_data(Categorical()), ("no-pi",)
    until = [out_of_fold(data, epochs, members)[0]["no-pi"] for epochs in range(1, 13)]
    fold = assign_folds(data, 3, 5)
    after, _ = out_of_fold(poison(data, fold, 1), 12, members)
    torch.manual_seed(0)
    trajectory = []  # of the network that does not see fold 1, at the end of every epoch
    part = split_folds(data, fold, 5)[0][1]
    method = methods.build("auto", testing.make_parts(Categorical()), methods=members, folds=3)
    method.seed.fill_(5)
    network = method.make_networks(method.members["no-pi"], "no-pi", 3, torch.device("cpu"))[1]
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03, eps=1e-7)
    for _ in range(12):
        optimizer.zero_grad()
        network(part.by_annotation(torch.arange(len(part)))).backward()
        optimizer.step()
        trajectory.append(torch.softmax(network.predictor()(data.x[fold == 1]), -1).detach())

    def find_epoch(p):
        gaps = [float((p[fold == 1] - reached).abs().max()) for reached in trajectory]
        assert min(gaps) < 1e-5
        return gaps.index(min(gaps))

    epochs = [find_epoch(p) for p in until]
    assert epochs == sorted(epochs)
    assert find_epoch(after["no-pi"]) != epochs[-1], "the labels of the fold stop its network, so that this can fail"


def test_an_example_without_annotations_is_in_no_fold_and_has_no_target():
    data = testing.make_data(Categorical())
    data = data.take((data.row != 4).nonzero().squeeze(1))
    before, fold = out_of_fold(data, 2)
    assert fold[4] == -1
    for p in before.values():
        assert not p[4].any()
    changed = dataclasses.replace(data, x=data.x.clone())
    changed.x[4] = 100.0
    for name, p in out_of_fold(changed, 2)[0].items():
        assert torch.equal(p, before[name]), "nothing sees it"
