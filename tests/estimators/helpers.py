"""Data and quick estimators that tests share."""

import json

import numpy as np
import pandas as pd
from torch import nn

from lupi import PrivilegedClassifier, PrivilegedRegressor
from lupi.estimators.folder import restore_value, store_value
from lupi.likelihoods import Bernoulli, Categorical, Gaussian

QUICK = {"epochs": 2, "hidden": (8,), "tower": (8, 8), "random_state": 0}
RNG = np.random.default_rng(0)
X, X_NEW = RNG.normal(size=(60, 3)), RNG.normal(size=(25, 3))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
MULTI = np.stack([Y == 0, X[:, 2] > 0], 1).astype(int)
REAL = X @ [1.0, -2.0, 0.5]
A, A_NEW = (
    pd.DataFrame({"annotator": RNG.choice(["ann", "bob", "eve", None], n), "seconds": RNG.exponential(size=n)})
    for n in (60, 25)
)
IMAGES = RNG.normal(size=(60, 1, 8, 8)).astype(np.float32)
LABELS = {
    "classes": (PrivilegedClassifier, Y, Categorical),
    "multi-label": (PrivilegedClassifier, MULTI, Bernoulli),
    "real": (PrivilegedRegressor, REAL, Gaussian),
}


class Net(nn.Sequential):
    """A small convolutional network."""

    def __init__(self, channels=4):
        super().__init__(nn.Conv2d(1, channels, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def through_json(value):
    """Write an object as a model folder does, and read it again."""
    arrays = []
    text = json.dumps(store_value(value, arrays))
    return restore_value(json.loads(text), arrays)


def classifier(method="tram", **parameters):
    return PrivilegedClassifier(method, **QUICK | parameters)


def regressor(method="tram", **parameters):
    return PrivilegedRegressor(method, **QUICK | parameters)


def crowd(examples=30, each=3, classes=2):
    """Return a table with several labels per example, in shuffled rows, where a = 2 x₀ + 1."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(examples), each))
    X = rng.normal(size=(examples, 3))[ids]
    y = np.where(rng.random(len(ids)) < 0.8, (X[:, 1] > 0).astype(int), rng.integers(classes, size=len(ids)))
    return X, y, 2 * X[:, :1] + 1, ids
