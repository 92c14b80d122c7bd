import dataclasses
import math
import re

import numpy as np
import pytest

from lupi.training.settings import Settings

WHOLE = "Expected `{}` to be an integer of at least 1, but got {!r}."
NUMBER = "Expected `{}` to be a number of at least 0, but got {!r}."
REFUSED = {
    "epochs": (WHOLE, [0, -1, 2.0, True, "3", None]),
    "batch_size": (WHOLE, [0, -5, 0.5, False, "3", None]),
    "patience": (WHOLE, [0, -1, 1.5, True, "3"]),
    "draw": ("Expected `{}` to be one of annotations, examples, but got {!r}.", ["rows", None]),
    "optimizer": ("Expected `{}` to be one of adam, adamw, sgd, but got {!r}.", ["Adam", None]),
    "schedule": ("Expected `{}` to be one of constant, step, cosine, but got {!r}.", ["linear", None]),
    "precision": ("Expected `{}` to be one of float32, tfloat32, bfloat16, but got {!r}.", ["float16", None]),
    "compile": ("Expected `{}` to be one of False, True, but got {!r}.", ["yes", None, 2]),
    "cuda_graph": ("Expected `{}` to be one of False, True, but got {!r}.", ["yes", None, 2]),
    **{
        name: (NUMBER, [-1e-9, math.inf, math.nan, "1", None])
        for name in ("learning_rate", "momentum", "eps", "l2", "weight_decay", "factor", "warmup")
    },
    "milestones": ("Expected `{}` to be a tuple of numbers, but got {!r}.", [3, None, "12"]),
    "clip": ("Expected `{}` to be a number greater than 0, but got {!r}.", [0, -1.0, math.nan, "1"]),
}


def test_every_setting_is_checked():
    assert set(REFUSED) == {field.name for field in dataclasses.fields(Settings)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name][1]])
def test_settings_refuse(name, value):
    with pytest.raises(ValueError, match=f"^{re.escape(REFUSED[name][0].format(name, value))}$"):
        Settings(**{name: value})


@pytest.mark.parametrize("value", [-1, "a", math.nan])
def test_every_milestone_is_checked(value):
    with pytest.raises(ValueError, match=f"^{re.escape(NUMBER.format('milestones', value))}$"):
        Settings(milestones=(1, value))


def test_settings_refuse_penalties_of_other_optimizers():
    for kind in ("adam", "sgd"):
        message = f"Expected `weight_decay` with optimizer 'adamw', but got '{kind}': use `l2`."
        with pytest.raises(ValueError, match=message):
            Settings(optimizer=kind, weight_decay=0.1)
    with pytest.raises(ValueError, match="Expected `weight_decay` rather than `l2` with optimizer 'adamw'"):
        Settings(optimizer="adamw", l2=0.1)


def test_settings_take_numpy_numbers():
    """Which a search over parameters draws, and which a checkpoint could not be read with."""
    names = ("learning_rate", "momentum", "eps", "l2", "factor", "warmup", "clip")
    drawn = Settings(
        **{name: np.int64(3) for name in ("epochs", "batch_size", "patience")},
        **{name: np.float64(0.25) for name in names},
        milestones=[np.int64(1), 2],
    )
    plain = Settings(
        **dict.fromkeys(("epochs", "batch_size", "patience"), 3),
        **dict.fromkeys(names, 0.25),
        milestones=(1.0, 2.0),
    )
    assert drawn == plain
    assert hash(drawn) == hash(plain)
    for value in dataclasses.astuple(drawn):
        assert type(value) in (int, float, str, tuple, bool)
