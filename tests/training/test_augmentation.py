"""Random changes of x: in training only, from the noise of the training."""

import dataclasses

import pytest
import torch
from torch import nn

from lupi.data import Annotations
from lupi.methods import build
from lupi.settings import Settings
from lupi.training import Checkpoint, Replicas, StackedAnnotations, fit
from lupi_paper.augmentation import RandomCrop, RandomFlip
from tests.training.helpers import HOW, assert_equal, global_states, interrupted, make_data, make_parts, weights

IMAGES = torch.randint(0, 256, (11, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
BOTH = nn.Sequential(RandomCrop(2), RandomFlip())


class Flat(nn.Module):
    """A trunk that writes down what it sees in training, and in evaluation."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(192, 8)
        self.seen = {True: [], False: []}

    def forward(self, x):
        if not torch._C._functorch.is_batchedtensor(x):
            self.seen[self.training].append(x.detach())
        return torch.relu(self.linear(x.flatten(1).float() / 255))


def make(name="tram", seed=1):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(name, make_parts(Flat))


def images(dtype=torch.uint8, seed=0):
    data = make_data(seed=seed)
    return Annotations(IMAGES.to(dtype), data.row, data.a, data.y)


def contains(batch, x):
    """Whether all images of a batch are among those of x."""
    return all(bool((image == x).flatten(1).all(1).any()) for image in batch)


@pytest.mark.parametrize("name", ["tram", "two-step-tram", "distillation", "generalized-distillation"])
def test_only_training_sees_changed_images(name):
    method = make(name)
    fit(method, images(), dataclasses.replace(HOW, augment=BOTH), validation=images(seed=1))
    trunks = [module for module in method.modules() if isinstance(module, Flat)]
    assert trunks
    for trunk in trunks:
        assert trunk.seen[True]
        assert not any(contains(batch, IMAGES) for batch in trunk.seen[True])
        assert all(contains(batch, IMAGES) for batch in trunk.seen[False])
        assert trunk.seen[False]


def test_changed_images_are_new_in_every_epoch_and_follow_from_the_seed():
    how, before = dataclasses.replace(HOW, augment=BOTH), global_states()
    runs = []
    for seed in (0, 0, 1):
        method = make("no-pi")
        runs.append((fit(method, images(), how, seed=seed), method.trunk.seen[True]))
    assert global_states() == before
    assert runs[0][0] == runs[1][0]
    assert runs[0][0] != runs[2][0]
    steps = runs[0][1]
    assert not any(contains(steps[number], torch.cat(steps[:number])) for number in range(1, len(steps)))


@pytest.mark.parametrize("step", [2, 4])
def test_a_run_with_augmentation_resumes(tmp_path, step):
    how, checkpoint = dataclasses.replace(HOW, augment=BOTH), Checkpoint(tmp_path / "run.pt", every=1)
    method, again = make(), make(seed=2)
    history = fit(method, images(), how)
    assert interrupted(fit, step, make(), images(), how, checkpoint=checkpoint) == (None, step)
    assert interrupted(fit, None, again, images(), how, checkpoint=checkpoint) == (history, 12 - step)
    assert_equal(weights(method), weights(again))
    other = dataclasses.replace(how, augment=nn.Sequential(RandomCrop(3), RandomFlip()))
    with pytest.raises(ValueError, match=r"(?s)`augment` is .*padding=2.*padding=3"):
        fit(make(), images(), other, checkpoint=checkpoint)


def test_augmentation_works_with_accumulated_gradients():
    method = make()
    fit(method, images(torch.float32), dataclasses.replace(HOW, augment=BOTH, accumulate=2))
    assert all(bool(value.isfinite().all()) for value in weights(method).values())


class Shift(nn.Module):
    """Adds a random number to every image, as a module that knows nothing of lupi would."""

    def forward(self, x):
        return x + torch.rand(len(x), 1, 1, 1)


def test_every_replica_has_changes_of_its_own():
    seen = []

    class Watched(Shift):
        def forward(self, x):
            seen.append(super().forward(x))
            return seen[-1]

    methods = [make("no-pi", seed) for seed in range(3)]
    data = images(torch.float32)
    fit(Replicas(methods), StackedAnnotations([data] * 3), Settings(epochs=1, augment=Watched()), seed=range(3))
    (changed,) = seen
    assert changed.shape == (3 * 23, 3, 8, 8)
    shifts = (changed - changed.floor()).flatten(1)[:, 0]
    assert len(set(shifts.tolist())) == 69
    assert not torch.equal(methods[0].marginal.weight, methods[1].marginal.weight)


def test_a_module_that_is_wrapped_around_the_data_gives_the_same_training():
    """A fixed change in `augment` equals the same change of x."""

    class Negative(nn.Module):
        def forward(self, x):
            return 255 - x

    one, other = make(), make()
    history = fit(one, dataclasses.replace(images(), x=255 - IMAGES), HOW)
    assert fit(other, images(), dataclasses.replace(HOW, augment=Negative())) == history
    assert_equal(weights(one), weights(other))


def test_torchvision_transforms():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    how = dataclasses.replace(HOW, augment=v2.Compose([v2.RandomHorizontalFlip(), v2.RandomResizedCrop(8)]))
    histories = [fit(make(), images(), how) for _ in range(2)]
    assert histories[0] == histories[1]
