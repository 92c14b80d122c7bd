"""Learning rates of parts, optimizers of one's own and longer runs, through the estimators."""

import numpy as np
import pytest
import torch

from lupi import PrivilegedClassifier, load
from lupi.training import Checkpoint
from tests.training.helpers import assert_equal, weights

RNG = np.random.default_rng(0)
X, A, Y = RNG.normal(size=(60, 3)), RNG.normal(size=(60, 2)), RNG.integers(2, size=60)


def classifier(method="tram", **options):
    return PrivilegedClassifier(method, **{"epochs": 2, "random_state": 0, **options})


def test_a_frozen_trunk_of_ones_own():
    torch.manual_seed(0)
    trunk = torch.nn.Linear(3, 4)
    model = classifier(trunk=trunk, training={"learning_rates": {"trunk": 0}}).fit(X, Y, privileged=A)
    assert_equal(weights(model.method_.trunk), weights(trunk))
    other = classifier(trunk=trunk, training={"learning_rates": {"trunk": 1e-3}}).fit(X, Y, privileged=A)
    assert not torch.equal(other.method_.trunk.weight, trunk.weight)


def test_a_part_that_is_not_there():
    with pytest.raises(ValueError, match=r"`learning_rates` .*conditional, marginal, tower, trunk, but got 'head'"):
        classifier(training={"learning_rates": {"head": 0.1}}).fit(X, Y, privileged=A)


def test_a_folder_keeps_rates_but_no_functions(tmp_path):
    options = {"learning_rates": {"trunk": 1e-4}, "clip": 1.0}
    model = classifier(training={"optimizer": torch.optim.RMSprop, **options})
    model.fit(X, Y, privileged=A).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.training == options
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_an_extended_run(tmp_path):
    expected = classifier(epochs=4).fit(X, Y, privileged=A)
    training = {"checkpoint": Checkpoint(tmp_path / "run.pt")}
    classifier(epochs=2, training=training).fit(X, Y, privileged=A)
    extended = classifier(epochs=4, training=training).fit(X, Y, privileged=A)
    assert extended.history_ == expected.history_
    assert_equal(weights(extended.method_), weights(expected.method_))
