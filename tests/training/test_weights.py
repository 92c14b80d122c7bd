"""Weights of annotations in training: repetition, absence, replicas and checkpoints."""

import copy
import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.data import Annotations, SparseRows, distinct
from lupi.likelihoods import Categorical
from lupi.settings import Settings
from lupi.training import Checkpoint, StackedAnnotations, fit
from tests.training.helpers import HOW, SEED, interrupted, make_data, make_method, weights
from tests.training.replica_helpers import assert_as_alone, make_members, make_sets

FULL = Settings(epochs=3, batch_size=1000, optimizer="sgd", learning_rate=0.1)
"""Every step is on all annotations, so that repeating one changes nothing but its weight."""
COUNTS = st.lists(st.integers(0, 3), min_size=23, max_size=23).filter(any)


def repeat(data, times):
    return data.take(torch.arange(len(data)).repeat_interleave(torch.tensor(times)))


def weigh(data, times, scale=1.0):
    return dataclasses.replace(data, weight=scale * torch.tensor(times, dtype=torch.float32))


@pytest.mark.parametrize("name", ["no-pi", "tram", "mean-imputation", "full-marginalization", "miml-fcn-plus"])
@settings(max_examples=10)
@given(times=COUNTS, scale=st.sampled_from([0.01, 1.0, 30.0]))
def test_a_weight_is_a_number_of_repetitions(name, times, scale):
    data, one = make_data(), make_method(name)
    other = copy.deepcopy(one)
    fit(one, weigh(data, times, scale), FULL, seed=SEED)
    fit(other, repeat(data, times), FULL, seed=SEED)
    with torch.no_grad():
        torch.testing.assert_close(one.predictor()(data.x), other.predictor()(data.x), rtol=1e-3, atol=1e-4)


@settings(max_examples=20)
@given(times=COUNTS)
def test_what_is_observed_is_weighted(times):
    data = make_data()
    data = dataclasses.replace(data, a=data.a.round().clamp(-1, 1))
    sparse = dataclasses.replace(data, a=SparseRows.from_matrix(data.a))
    expected = repeat(data, times).a.mean(0)
    for kind in (data, sparse):
        torch.testing.assert_close(weigh(kind, times).mean_privileged(), expected)
    first, share = distinct(data.a, torch.tensor(times, dtype=torch.float32))
    torch.testing.assert_close(share @ data.a[first], expected)


def test_held_out_losses_are_weighted():
    data, times = make_data(), [0, 2] * 11 + [1]
    histories = [
        fit(make_method("tram"), data, HOW, validation=held_out, seed=SEED)
        for held_out in (weigh(data, times), repeat(data, times))
    ]
    for name in ("validation_marginal", "validation_conditional"):
        assert histories[0][-1][name] == pytest.approx(histories[1][-1][name], rel=1e-5)


def test_only_ratios_of_weights_matter():
    data = weigh(make_data(), range(1, 24))
    trained = [make_method(), make_method()]
    for method, factor in zip(trained, (1.0, 1024.0), strict=True):
        fit(method, dataclasses.replace(data, weight=factor * data.weight), HOW, seed=SEED)
    for name, value in weights(trained[0]).items():
        assert torch.equal(value, weights(trained[1])[name])
    assert data.normalize_weights().weight.mean() == pytest.approx(1)


@pytest.mark.parametrize("name", ["no-pi", "tram", "label-posterior"])
def test_replicas_are_the_seeds_trained_alone(name):
    generator = torch.Generator().manual_seed(0)
    sets = [
        dataclasses.replace(part, weight=torch.rand(len(part), generator=generator) + 0.1)
        for part in make_sets(Categorical())
    ]
    sets[1] = dataclasses.replace(sets[1], weight=None)
    assert_as_alone(make_members(name, Categorical()), sets)


def test_a_stack_of_sets_draws_their_weights():
    data = make_data()
    stacked = StackedAnnotations([weigh(data, range(23)), data])
    drawn = stacked.by_annotation(torch.tensor([[4, 0], [4, 0]]))
    assert drawn.weight.tolist() == [[4, 0], [1, 1]]
    assert StackedAnnotations([data, data]).by_annotation(torch.tensor([[4, 0], [4, 0]])).weight is None


def test_the_checkpoint_of_other_weights_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state.pt", every=3)
    interrupted(fit, 7, make_method(), weigh(make_data(), range(23)), HOW, seed=SEED, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="checksum of the data"):
        fit(make_method(), weigh(make_data(), range(1, 24)), HOW, seed=SEED, checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("weight", "message"),
    [([1.0], "23 rows"), ([-1.0] * 23, "not negative"), ([float("nan")] * 23, "finite"), ([0.0] * 23, "all are 0")],
)
def test_weights_are_checked(weight, message):
    with pytest.raises(ValueError, match=message):
        weigh(make_data(), weight).normalize_weights()


def test_an_example_weighs_as_much_as_its_labels_on_average():
    row, weight = torch.tensor([2, 0, 2]), torch.tensor([1.0, 5.0, 2.0])
    data = Annotations(torch.eye(3), row, torch.zeros(3, 0), torch.zeros(3), weight=weight)
    assert data.weight_examples().tolist() == [5.0, 1.5]
    assert dataclasses.replace(data, weight=None).weight_examples() is None
