"""Seeds that train together as replicas, against the same seeds trained one after the other."""

import copy
import dataclasses
import math
import pickle
import re
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi import methods, testing
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI
from lupi.nn import MLP, Parts
from lupi.training import Checkpoint, Settings, fit, fit_seeds
from lupi.training import loop as training
from lupi.training.replicas import Replicas, StackedAnnotations

SEEDS = (7, 3, 11)
NOISY = ("het-tram", "heteroscedastic-dropout")
HOW = Settings(epochs=2, batch_size=12, learning_rate=0.01)
"""On the 40 annotations of `testing.make_data`: three batches of 12 and one of 4."""
CASES = [
    pytest.param(name, likelihood, id=f"{name}-{type(likelihood).__name__}")
    for name in methods.names()
    for likelihood in (Categorical(), Bernoulli(), Gaussian())
    if name not in NOISY and isinstance(likelihood, methods.kind(name).likelihoods)
]


def make_members(name="tram", likelihood=Categorical(), trunk=None, seeds=SEEDS, **options):
    parts = testing.make_parts(likelihood)
    parts = parts if trunk is None else dataclasses.replace(parts, trunk=trunk)
    members = []
    for seed in seeds:
        torch.manual_seed(seed)
        members.append(methods.build(name, parts, **options))
    return members


def make_sets(likelihood=Categorical(), first=0):
    return [testing.make_data(likelihood, first + number) for number in range(len(SEEDS))]


def one_each(data):
    """Every annotation with an example of its own."""
    return Annotations(data.x[data.row], torch.arange(len(data)), data.a, data.y)


def crowd(seed, each=3, examples=9, unannotated=0):
    """So many annotations for each example, in no order."""
    generator = torch.Generator().manual_seed(seed)
    n = each * examples
    names = torch.randperm(examples + unannotated, generator=generator)[:examples]
    row = names.repeat_interleave(each)[torch.randperm(n, generator=generator)]
    x = torch.randn(examples + unannotated, testing.INPUTS, generator=generator)
    a = torch.randn(n, testing.PRIVILEGED, generator=generator)
    return Annotations(x, row, a, torch.randint(3, (n,), generator=generator))


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
        for name, value in member.named_parameters():
            moved = float((value.detach() - before[name]).abs().max())
            assert moved > 1e-5 or not value.requires_grad, f"{name} has not learned"
    return history, expected


def of_one(history, number):
    """The history of one replica up to where it stopped."""
    rows = [{name: v[number] if isinstance(v, list) else v for name, v in row.items()} for row in history]
    return [row for row in rows if not any(math.isnan(v) for n, v in row.items() if n.startswith("train_"))]


def assert_same_history(history, expected):
    assert len(history) == len(expected)
    for row, other in zip(history, expected, strict=True):
        assert list(row) == list(other)
        assert row["stage"] == other["stage"]
        numbers = [name for name in row if name != "stage"]
        assert [row[name] for name in numbers] == pytest.approx([other[name] for name in numbers], rel=1e-4, abs=1e-5)


def exactly(message):
    return f"^{re.escape(message)}$"


# As alone -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "likelihood"), CASES)
def test_replicas_are_the_seeds_trained_alone(name, likelihood):
    history, expected = assert_as_alone(make_members(name, likelihood), make_sets(likelihood))
    for number, rows in enumerate(expected):
        assert_same_history(of_one(history, number), rows)


HOWS = {
    "l2": Settings(l2=0.05),
    "sgd": Settings(optimizer="sgd", learning_rate=0.1, momentum=0.8),
    "sgd-l2": Settings(optimizer="sgd", learning_rate=0.1, l2=0.05),
    "adamw": Settings(optimizer="adamw", weight_decay=0.5),
    "cosine": Settings(schedule="cosine", warmup=0.7, learning_rate=0.02),
    "step": Settings(schedule="step", milestones=(0.5, 1.5), factor=0.3, learning_rate=0.02),
    "one-batch": Settings(batch_size=99),
    "even-batches": Settings(batch_size=10),
    "eps": Settings(eps=0.1, learning_rate=0.1),
}


@pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)
def test_every_way_to_train(how):
    how = dataclasses.replace(how, epochs=3, batch_size=12 if how.batch_size == 64 else how.batch_size)
    how = how if how.learning_rate != 1e-3 else dataclasses.replace(how, learning_rate=0.01)
    assert_as_alone(make_members(), make_sets(), how)


@pytest.mark.parametrize("unannotated", [0, 4])
@pytest.mark.parametrize("shared", ["nothing", "x", "everything"])
@pytest.mark.parametrize("name", ["tram", "no-pi", "pi-dual"])
def test_batches_of_examples(name, shared, unannotated):
    sets = [crowd(seed, unannotated=unannotated) for seed in range(3)]
    if shared == "x":
        sets = [dataclasses.replace(part, x=sets[0].x) for part in sets]
    if shared == "everything":
        sets = [sets[0]] * 3
    how = dataclasses.replace(HOW, draw="examples", batch_size=4)
    assert_as_alone(make_members(name), sets, how)


@pytest.mark.parametrize("shared", ["x", "everything"])
def test_shared_data(shared):
    sets = make_sets()
    sets = [sets[0]] * 3 if shared == "everything" else [dataclasses.replace(part, x=sets[0].x) for part in sets]
    assert len(StackedAnnotations(sets).whole.x) == testing.EXAMPLES, "what is shared stands once"
    members = make_members()
    assert_as_alone(members, sets)
    assert not torch.allclose(members[0].marginal.weight, members[1].marginal.weight, atol=1e-3)


def sparse(data, entries):
    """The same privileged information, with so many entries stored for every row."""
    stored = data.a.topk(entries, 1)
    return dataclasses.replace(data, a=SparseRows(stored.indices.int(), stored.values, data.a.shape[1]))


@pytest.mark.parametrize("name", ["tram", "pi-dual", "full-marginalization", "distilled-tram"])
def test_sparse_privileged_information(name):
    sets = [sparse(part, entries) for part, entries in zip(make_sets(), (1, 3, 2), strict=True)]
    assert_as_alone(make_members(name), sets)


def test_sparse_beside_dense_privileged_information():
    sets = make_sets()
    assert_as_alone(make_members(), [sets[0], sparse(sets[1], 2), sets[2]])


def test_inputs_of_one_source_for_all():
    class Source:
        def __init__(self, x):
            self.x, self.shape = x, x.shape

        def __getitem__(self, index):
            return self.x[index]

    sets, source = make_sets(), Source(torch.randn(testing.EXAMPLES, testing.INPUTS))
    assert_as_alone(make_members(), [dataclasses.replace(part, x=source) for part in sets])
    with pytest.raises(ValueError, match=exactly("Expected inputs in memory, or one source of them for all seeds.")):
        train_together(make_members(), [dataclasses.replace(part, x=Source(part.x)) for part in sets])


def normed():
    return nn.Sequential(nn.Linear(testing.INPUTS, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU())


def test_batch_norm_has_the_statistics_of_each_seed():
    members = make_members("no-pi", trunk=normed)
    assert_as_alone(members, [one_each(part) for part in make_sets()], dataclasses.replace(HOW, l2=0.05))
    means = [member.trunk[1].running_mean for member in members]
    assert not torch.allclose(means[0], means[1], atol=1e-2)
    assert [int(member.trunk[1].num_batches_tracked) for member in members] == [8, 8, 8]


class Tied(nn.Module):
    """Two layers with the same weight, and biases of their own."""

    def __init__(self):
        super().__init__()
        self.first, self.one, self.other = nn.Linear(testing.INPUTS, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.other.weight = self.one.weight

    def forward(self, x):
        return self.other(self.one(self.first(x)).tanh()).tanh()


def test_tied_parameters_stay_tied():
    members = make_members("tram", trunk=Tied)
    assert_as_alone(members, make_sets(), dataclasses.replace(HOW, l2=0.01))
    for member in members:
        assert member.trunk.other.weight is member.trunk.one.weight


def test_frozen_parameters_stay():
    members = make_members("tram")
    for member in members:
        member.trunk.requires_grad_(False)
        member.tower.first.bias.requires_grad_(False)
    start = [copy.deepcopy(member.state_dict()) for member in members]
    assert_as_alone(members, make_sets(), dataclasses.replace(HOW, l2=0.05))
    for member, before in zip(members, start, strict=True):
        frozen = {name for name, value in member.named_parameters() if not value.requires_grad}
        assert frozen == {"trunk.0.weight", "trunk.0.bias", "trunk.2.weight", "trunk.2.bias", "tower.first.bias"}
        assert all(torch.equal(member.state_dict()[name], before[name]) for name in frozen)


def test_bfloat16():
    members = make_members()
    alone, how = (
        copy.deepcopy(members),
        dataclasses.replace(HOW, precision="bfloat16", optimizer="sgd", momentum=0, learning_rate=0.1),
    )
    full = copy.deepcopy(members)
    train_together(full, make_sets(), dataclasses.replace(how, precision="float32"))
    train_together(members, make_sets(), how)
    train_alone(alone, make_sets(), how)
    one, other = (torch.cat([v.detach().flatten() for v in part[0].parameters()]) for part in (members, full))
    assert float((one - other).abs().max()) > 1e-5
    assert_close(members, alone, atol=1e-2)  # products are rounded otherwise
    assert {value.dtype for member in members for value in member.parameters()} == {torch.float32}


# The data of all ----------------------------------------------------------------------------------------------------


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


# Early stopping -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tram", "two-step-tram"])
def test_each_replica_stops_on_its_own(name):
    how = Settings(epochs=25, batch_size=12, learning_rate=0.03, patience=2)
    members, sets, held_out = make_members(name), make_sets(), make_sets(first=10)
    alone = copy.deepcopy(members)
    history = train_together(members, sets, how, validation=held_out)
    expected = train_alone(alone, sets, how, validation=held_out)
    assert_close(members, alone)
    lengths = [len(rows) for rows in expected]
    assert len(set(lengths)) > 1, "all stop at once"
    assert len(history) < 25 * (1 if name == "tram" else 2)
    for number, rows in enumerate(expected):
        assert_same_history(of_one(history, number), rows)
    epochs = {stage: sum(row["stage"] == stage for row in history) for stage in {row["stage"] for row in history}}
    for stage, length in epochs.items():
        assert length == max(sum(row["stage"] == stage for row in rows) for rows in expected)
    stopped = [rows[-1]["epoch"] for rows in expected]
    for value, last in zip(history[-1]["train_marginal"], stopped, strict=True):
        assert math.isnan(value) == (last < history[-1]["epoch"]), "a loss of a replica that had stopped"


def test_a_replica_that_diverges_is_named():
    members = make_members("no-pi")
    with torch.no_grad():
        members[1].marginal.weight.fill_(math.inf)
    message = (
        r"^Expected the marginal loss to be finite, but it is (nan|inf) in epoch 1 of stage 'train' with seed 3: a "
        r"lower `learning_rate` or a `clip` may help\.$"
    )
    with pytest.raises(FloatingPointError, match=message):
        train_together(members, make_sets())


def test_a_replica_may_diverge_after_it_has_stopped():
    """What becomes of it then does not count."""
    members, sets = make_members("no-pi"), make_sets()
    how = Settings(epochs=12, batch_size=40, optimizer="sgd", momentum=0, learning_rate=1.0, patience=1)
    held_out = make_sets(first=10)
    sets[0] = sets[0].with_inputs(1e4 * sets[0].x)  # its loss explodes
    held_out[1] = sets[1]  # its held-out loss falls and falls
    history = train_together(members, sets, how, validation=held_out)
    lengths = [len(of_one(history, number)) for number in range(3)]
    assert lengths[0] < lengths[1]
    assert all(bool(value.isfinite().all()) for member in members for value in member.parameters())


# Noise --------------------------------------------------------------------------------------------------------------


def with_dropout():
    return nn.Sequential(MLP(testing.INPUTS, (16, 8)), nn.Dropout(0.3))


@pytest.mark.parametrize(
    ("name", "trunk", "noisy"),
    [
        ("het-tram", None, True),
        ("heteroscedastic-dropout", None, True),
        ("tram", with_dropout, True),
        ("tram", None, False),
    ],
)
def test_noise_is_independent_and_repeatable(name, trunk, noisy):
    """Of equal seeds, weights and data, only the noise can make them differ."""
    data, results = testing.make_data(Categorical()), []
    for seed, before in ((5, 1), (5, 2), (6, 3)):
        members = make_members(name, trunk=trunk, seeds=(1, 1, 1))
        torch.manual_seed(before)
        state = torch.get_rng_state()
        train_together(members, [data] * 3, dataclasses.replace(HOW, batch_size=40), (seed, seed, seed))
        assert torch.equal(torch.get_rng_state(), state)
        assert not any(part.training for member in members for part in member.modules())
        results.append([torch.cat([value.detach().flatten() for value in member.parameters()]) for member in members])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (float((results[0][one] - results[0][other]).abs().max()) > 1e-3) == noisy
    for one, again, other in zip(*results, strict=True):
        assert torch.equal(one, again)
        assert (float((one - other).abs().max()) > 1e-3) == noisy


# After training -----------------------------------------------------------------------------------------------------


def assert_own_parameters(members):
    for member in members:
        for value in (*member.parameters(), *member.buffers()):
            assert value.untyped_storage().nbytes() == value.numel() * value.element_size()
            assert value.is_leaf
        assert all(value.requires_grad for value in member.parameters())
    places = [value.data_ptr() for member in members for value in member.parameters()]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("name", ["tram", "two-step-tram", "full-marginalization", "distilled-tram"])
def test_members_own_their_parameters(name):
    sets, how = make_sets(), dataclasses.replace(HOW, patience=1)
    members, (alone,) = make_members(name), make_members(name, seeds=SEEDS[:1])
    replicas = Replicas(members)
    fit(replicas, StackedAnnotations(sets), how, seed=SEEDS, validation=StackedAnnotations(sets))
    fit(alone, sets[0], HOW)
    assert_own_parameters(members)
    assert [name for name, _ in replicas.named_parameters() if "/" in name] == []
    size = len(pickle.dumps(alone))
    assert all(0.95 * size < len(pickle.dumps(member)) < 1.05 * size for member in members)
    again = copy.deepcopy(members[1])
    fit(members[1], sets[1], HOW)  # which trains it, and no other
    assert not torch.equal(next(again.parameters()), next(members[1].parameters()))


def test_members_own_their_parameters_after_an_error():
    class Fails(NoPI):
        def losses(self, batch):  # noqa: ARG002
            raise RuntimeError("no loss")

    members = [Fails(nn.Linear(testing.INPUTS, 8), nn.Linear(8, 3)) for _ in SEEDS]
    start = [copy.deepcopy(member.state_dict()) for member in members]
    with pytest.raises(RuntimeError, match="no loss") as caught:  # which keeps the frames alive
        train_together(members, make_sets())
    assert caught.traceback
    assert_own_parameters(members)
    for member, before in zip(members, start, strict=True):
        assert all(torch.equal(value, before[name]) for name, value in member.state_dict().items())


@pytest.mark.parametrize(
    ("name", "likelihood"), [("tram", Categorical()), ("full-marginalization", Bernoulli()), ("no-pi", Gaussian())]
)
def test_predictor_is_the_predictors_side_by_side(name, likelihood):
    members, sets = make_members(name, likelihood), make_sets(likelihood)
    replicas = Replicas(members)
    fit(replicas, StackedAnnotations(sets), HOW, seed=SEEDS)
    x, predictor = sets[0].x, replicas.predictor().eval()
    with torch.no_grad():
        output = predictor(x)
        assert output.shape == (testing.EXAMPLES, 3, testing.make_parts(likelihood).outputs)
        for number, member in enumerate(members):
            assert torch.equal(output[:, number], member.predictor().eval()(x))


def test_replicas_go_on_training():
    """Another `fit` of the same replicas starts from where they are."""
    members, sets = make_members(), make_sets()
    alone = copy.deepcopy(members)
    for _ in range(2):
        train_together(members, sets)
        train_alone(alone, sets)
    assert_close(members, alone)


# Checkpoints --------------------------------------------------------------------------------------------------------


class InterruptionError(Exception):
    pass


def interrupted(members, sets, how, step, monkeypatch, **options):
    """Train, and break off before a step."""
    train_step, steps = training.StageLoop.train_step, []

    def counted(*arguments):
        if len(steps) == step:
            raise InterruptionError
        steps.append(arguments)
        train_step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training.StageLoop, "train_step", counted)
        with pytest.raises(InterruptionError):
            train_together(members, sets, how, **options)


@pytest.mark.parametrize(
    ("name", "step", "patience"),
    [
        ("tram", 6, None),
        ("het-tram", 5, None),
        ("two-step-tram", 11, None),
        ("full-marginalization", 6, None),
        ("tram", 18, 2),
    ],
)
def test_resumed_replicas_are_not_interrupted(name, step, patience, tmp_path, monkeypatch):
    sets = [
        dataclasses.replace(part, a=(part.a[:, :1] * scale).expand(-1, 4)) for scale, part in enumerate(make_sets())
    ]
    how = dataclasses.replace(HOW, epochs=2 if patience is None else 9, patience=patience, learning_rate=0.03)
    options = {"validation": make_sets(first=10), "checkpoint": Checkpoint(tmp_path / "run.pt", every=3)}
    uninterrupted, members, again = (make_members(name) for _ in range(3))
    history = train_together(uninterrupted, sets, how, validation=options["validation"])
    interrupted(members, sets, how, step, monkeypatch, **options)
    assert repr(train_together(again, sets, how, **options)) == repr(history)  # NaN is not equal to NaN
    assert_close(again, uninterrupted, atol=0)
    assert_own_parameters(members)
    assert_own_parameters(again)
    with pytest.raises(
        ValueError, match=r"^Expected \S+ to be a checkpoint of this run, but its `seed` is \[7, 3, 11\]"
    ):
        train_together(make_members(name), sets, how, seeds=(7, 3, 12), **options)


def test_best_weights_are_kept_once(tmp_path):
    """Weights, two moments of Adam and the best weights, of each replica once."""
    seeds = tuple(range(8))
    parts = Parts(partial(MLP, testing.INPUTS, (64, 64)), 64, testing.PRIVILEGED, 3, Categorical())
    members, data = [methods.build("no-pi", parts) for _ in seeds], testing.make_data(Categorical())
    path, how = tmp_path / "run.pt", dataclasses.replace(HOW, patience=5)
    train_together(members, [data] * 8, how, seeds, validation=[data] * 8, checkpoint=Checkpoint(path))
    size = sum(4 * value.numel() for member in members for value in member.parameters())
    assert 4 * size < path.stat().st_size < 5 * size


# Refusals -----------------------------------------------------------------------------------------------------------


def test_what_replicas_refuse():
    sets = make_sets()
    for arguments, message in (
        (
            {"how": Settings(clip=1.0)},
            "Expected `clip` to be None for replicas, whose gradients have one norm together.",
        ),
        ({"fabric": object()}, "Expected `fabric` to be None for replicas, which train on one device."),
        ({"seeds": (1, 2)}, "Expected a `seed` for each of 3 replicas, but got (1, 2)."),
        ({"seeds": 4}, "Expected a `seed` for each of 3 replicas, but got 4."),
        ({"seeds": (1, 2, -3)}, "Expected `seed` to be an integer of at least 0, but got -3."),
        ({"how": Settings(patience=1)}, "Expected `validation` where `patience` is given, but got None."),
        (
            {"sets": [*sets[:2], sets[2].take(torch.arange(30))]},
            "Expected the same number of annotations for every seed, but got [30, 40].",
        ),
        (
            {"sets": [*sets[:2], dataclasses.replace(sets[2], a=torch.ones(40, 2))]},
            "Expected the same number of privileged features for every seed, but got [2, 4].",
        ),
        (
            {"sets": [*sets[:2], dataclasses.replace(sets[2], x=torch.ones(12, 6))]},
            "Expected the same number of inputs for every seed, but got [(5,), (6,)].",
        ),
        (
            {"how": Settings(draw="examples"), "sets": [crowd(0, 2, 6), crowd(0, 2, 6), crowd(0, 3, 4)]},
            "Expected the same number of annotations for every example, but got [2, 3].",
        ),
    ):
        members = make_members()
        start = [copy.deepcopy(member.state_dict()) for member in members]
        with pytest.raises(ValueError, match=exactly(message)):
            train_together(members, **{"sets": sets, **arguments})
        for member, before in zip(members, start, strict=True):
            assert all(torch.equal(value, before[name]) for name, value in member.state_dict().items())
        assert_own_parameters(members)


def test_networks_must_be_alike():
    frozen = make_members()
    frozen[1].trunk.requires_grad_(False)
    wider = [NoPI(nn.Identity(), nn.Linear(5, outputs)) for outputs in (2, 3)]
    other = [*make_members("tram")[:1], *make_members("no-pi")[:1]]
    message = "Expected the networks of all seeds to have the same shape and frozen parameters."
    for members in (frozen, wider, other):
        with pytest.raises(ValueError, match=exactly(message)):
            Replicas(members)


# Buffers of unlike shapes -------------------------------------------------------------------------------------------


def with_kinds(data, kinds):
    """Privileged information with so many rows that differ."""
    return dataclasses.replace(data, a=torch.eye(testing.PRIVILEGED)[torch.arange(len(data)) % kinds])


def test_each_replica_keeps_its_own_rows():
    sets = [with_kinds(part, kinds) for part, kinds in zip(make_sets(), (2, 4, 3), strict=True)]
    members = make_members("full-marginalization")
    assert_as_alone(members, sets)
    assert [len(member.weight) for member in members] == [2, 4, 3]


class Reads(NoPI):
    """Has a buffer whose length is the seed's own, and a loss that reads it."""

    def __init__(self, length, read):
        super().__init__(nn.Linear(testing.INPUTS, 8), nn.Linear(8, 3))
        self.kept, self.read = nn.Buffer(torch.arange(1.0, 1 + length)), read

    def losses(self, batch):
        (loss,) = super().losses(batch).values()
        return {"marginal": self.read(loss, self.kept)}


READS = {
    "sum": lambda loss, kept: loss + kept.sum(),
    "mean": lambda loss, kept: loss * kept.mean(),
    "first": lambda loss, kept: loss * kept[0],
    "broadcast": lambda loss, kept: (loss * kept).sum(),
    "number": lambda loss, kept: loss * float(kept.sum()),
    "positive": lambda loss, kept: loss * (kept > 0).sum(),
    "length": lambda loss, kept: loss * kept.shape[0],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_loss_that_reads_an_unlike_buffer_fails(read):
    members = [Reads(length, read) for length in (1, 2, 3)]
    start = [copy.deepcopy(member.state_dict()) for member in members]
    with pytest.raises((RuntimeError, ValueError), match=r"uninitialized parameter"):
        train_together(members, make_sets())
    for member, before in zip(members, start, strict=True):
        assert all(torch.equal(value, before[name]) for name, value in member.state_dict().items())
    assert_own_parameters(members)
    members, sets, seeds = [*members, Reads(4, read)], [*make_sets(), testing.make_data(Categorical(), 9)], (*SEEDS, 9)
    alone = copy.deepcopy(members)
    with pytest.warns(
        UserWarning, match=r"^4 seeds train one after the other, not together: .*uninitialized parameter"
    ):
        fit_seeds(members, sets, HOW, seeds=seeds)
    train_alone(alone, sets, seeds=seeds)
    assert_close(members, alone, atol=0)
