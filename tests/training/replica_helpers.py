"""Replicas of small methods, and the same methods trained alone."""

import copy
import dataclasses
import itertools

import numpy as np
import torch

from lupi import methods, testing
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Categorical
from lupi.methods.auto import Stack
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit

SEEDS = (7, 3, 11)


HOW = Settings(epochs=2, batch_size=12, learning_rate=0.01)
"""On the 40 annotations of `testing.make_data`: three batches of 12 and one of 4."""


def make_members(name="tram", likelihood=Categorical(), trunk=None, seeds=SEEDS, **options):
    parts = testing.make_parts(likelihood)
    parts = parts if trunk is None else dataclasses.replace(parts, trunk=trunk)
    members = []
    for seed in seeds:
        torch.manual_seed(seed)
        members.append(methods.build(name, parts, **options))
    return members


def make_sets(likelihood=Categorical(), first=0):
    """Training sets in which every example has a label: aggregated labels have the same number, too."""
    made = (testing.make_data(likelihood, seed) for seed in itertools.count(first))
    return list(itertools.islice((data for data in made if data.count.all()), len(SEEDS)))


def crowd(seed, each=3, examples=9, unannotated=0):
    """A training set with `each` annotations per example, in no order."""
    generator = torch.Generator().manual_seed(seed)
    n = each * examples
    names = torch.randperm(examples + unannotated, generator=generator)[:examples]
    row = names.repeat_interleave(each)[torch.randperm(n, generator=generator)]
    x = torch.randn(examples + unannotated, testing.INPUTS, generator=generator)
    a = torch.randn(n, testing.PRIVILEGED, generator=generator)
    return Annotations(x, row, a, torch.randint(3, (n,), generator=generator))


def sparse(data, entries):
    """The same training set, with `entries` stored values per row of a."""
    stored = data.a.topk(entries, 1)
    return dataclasses.replace(data, a=SparseRows(stored.indices.int(), stored.values, data.a.shape[1]))


def train_together(members, sets, how=HOW, seeds=SEEDS, validation=None, **options):
    stacked = None if validation is None else StackedAnnotations(validation)
    return fit(Replicas(members), StackedAnnotations(sets), how, seed=seeds, validation=stacked, **options)


def train_alone(members, sets, how=HOW, seeds=SEEDS, validation=None):
    held_out = validation or [None] * len(members)
    return [
        fit(member, part, how, seed=seed, validation=held)
        for member, part, seed, held in zip(members, sets, seeds, held_out, strict=True)
    ]


def assert_close(members, others, atol=1e-4):
    for number, (member, other) in enumerate(zip(members, others, strict=True)):
        state, expected = member.state_dict(), other.state_dict()
        assert state.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(
                state[name], value, rtol=0, atol=atol, msg=lambda text, at=f"{name} of {number}": f"{at}: {text}"
            )


def assert_as_alone(members, sets, how=HOW, validation=None):
    """Train both ways; every parameter and buffer is the same, and all that can learn have learned."""
    alone, start = copy.deepcopy(members), [copy.deepcopy(member.state_dict()) for member in members]
    history = train_together(members, sets, how, validation=validation)
    expected = train_alone(alone, sets, how, validation=validation)
    assert_close(members, alone)
    for member, before in zip(members, start, strict=True):
        used = member.list_networks() if isinstance(member, Stack) else [member]
        learning = {id(value) for network in used for value in network.parameters() if value.requires_grad}
        for name, value in member.named_parameters():
            moved = float((value.detach() - before[name]).abs().max())
            assert moved > 1e-5 or id(value) not in learning, f"{name} has not learned"
    return history, expected


def of_one(history, number):
    """The history of one replica up to where it stopped."""

    def pick(value):
        each = len(value) // len(SEEDS)
        return value[number] if each == 1 else value[number * each : (number + 1) * each]

    rows = [{name: pick(v) if isinstance(v, list) else v for name, v in row.items()} for row in history]
    return [row for row in rows if not any(np.isnan(v).all() for n, v in row.items() if n.startswith("train_"))]
