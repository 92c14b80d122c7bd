"""Batches of stacked training sets equal the batches of each set."""

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.training import StackedAnnotations
from tests.training.replica_helpers import crowd, make_sets, sparse


@given(
    st.integers(1, 4),
    st.lists(st.booleans(), min_size=1, max_size=6).filter(any),
    st.integers(1, 3),
    st.sampled_from(["nothing", "x", "everything"]),
    st.sampled_from(["dense", "sparse", "mixed"]),
    st.integers(0, 2**20),
)
@settings(max_examples=60, deadline=None)
def test_a_replica_draws_what_it_draws_alone(replicas, annotated, each, shared, kind, seed):
    """Its annotations, each with its own example: by annotation, and by example."""
    sets = []
    for number in range(replicas):
        part = crowd(seed + number, each, sum(annotated), len(annotated) - sum(annotated))
        if kind == "sparse" or (kind == "mixed" and number % 2):
            part = sparse(part, 1 + number)
        part = part if shared != "x" or not sets else dataclasses.replace(part, x=sets[0].x)
        sets.append(sets[0] if shared == "everything" and sets else part)
    stacked, generator = StackedAnnotations(sets), torch.Generator().manual_seed(seed)
    n, examples = len(sets[0]), sum(annotated)
    by_annotation = torch.stack([torch.randperm(n, generator=generator)[: n // 2 + 1] for _ in sets])
    by_example = torch.stack([torch.randperm(examples, generator=generator)[: examples // 2 + 1] for _ in sets])
    assert len(stacked) == n
    assert len(stacked.annotated) == examples
    for batch, draw in (
        (stacked.by_annotation(by_annotation), lambda k, part: part.by_annotation(by_annotation[k])),
        (stacked.by_example(by_example), lambda k, part: part.by_example(part.annotated[by_example[k]])),
    ):
        for number, part in enumerate(sets):
            own = draw(number, part)
            assert torch.equal(batch.x[number][batch.row], own.x[own.row])
            assert torch.equal(batch.spread(batch.x[number]), own.spread(own.x))
            assert torch.equal(batch.a[number], own.a)
            assert torch.equal(batch.y[number], own.y)


def test_without_privileged_information():
    batch = StackedAnnotations(make_sets()).without_privileged().by_annotation(torch.zeros(3, 2, dtype=torch.long))
    assert batch.a.shape == (3, 2, 0)
