import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.settings import Settings
from lupi.training.optimizer import make_optimizer
from tests.training.helpers import make_method, rate_by_hand

NUMBERS = ("learning_rate", "l2", "weight_decay", "warmup")
REFUSED = {
    "epochs": [0, -1, 2.0, True, "3", None],
    "batch_size": [0, -5, 0.5, False, "3", None],
    "patience": [0, -1, 1.5, True, "3"],
    "stop_on": ["truth", None],
    "workers": [-1, 1.5, True, "3", None],
    "draw": ["rows", None],
    "optimizer": ["Adam", None],
    "learning_rates": ["trunk", 0.1, {1: 0.1}],
    "accumulate": [0, 1.5, None],
    "schedule": ["linear", None],
    "precision": ["float16", None],
    "compile": ["yes", 2],
    "cuda_graph": ["yes", 2],
    "augment": ["flip", 2],
    **{name: [-1e-9, math.inf, math.nan, "1", None] for name in NUMBERS},
    "milestones": [3, None, "12"],
    "clip": [0, -1.0, math.nan, "1"],
}


def test_every_setting_is_checked():
    assert set(REFUSED) == {field.name for field in dataclasses.fields(Settings)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name]])
def test_invalid_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"`{name}` .*{value!r}"):
        Settings(**{name: value})


@pytest.mark.parametrize("value", [-1, "a", math.nan])
def test_every_milestone_is_checked(value):
    with pytest.raises(ValueError, match=f"`milestones` .*{value!r}"):
        Settings(milestones=(1, value))


def test_settings_refuse_penalties_of_other_optimizers():
    for kind in ("adam", "sgd"):
        with pytest.raises(ValueError, match=f"`weight_decay` .*'{kind}'"):
            Settings(optimizer=kind, weight_decay=0.1)
    with pytest.raises(ValueError, match=r"`l2` .*'adamw'"):
        Settings(optimizer="adamw", l2=0.1)


def test_settings_take_numpy_numbers():
    """A parameter search draws them, and a checkpoint cannot store them."""
    names = ("learning_rate", "l2", "warmup", "clip")
    drawn = Settings(
        **{name: np.int64(3) for name in ("epochs", "batch_size", "patience")},
        **{name: np.float64(0.25) for name in names},
        milestones=[np.int64(1), 2],
        learning_rates={"trunk": np.float64(0.25)},
    )
    plain = Settings(
        **dict.fromkeys(("epochs", "batch_size", "patience"), 3),
        **dict.fromkeys(names, 0.25),
        milestones=(1.0, 2.0),
        learning_rates={"trunk": 0.25},
    )
    assert drawn == plain
    assert hash(drawn) == hash(plain)
    for value in dataclasses.astuple(drawn):
        assert type(value) in (int, float, str, tuple, bool, dict, type(None))
    assert type(drawn.learning_rates["trunk"]) is float


@given(
    st.sampled_from(["constant", "step", "cosine"]),
    st.integers(1, 50),
    st.floats(0, 0.9),
    st.lists(st.floats(0, 50), max_size=3),
    st.floats(0, 1, exclude_max=True),
)
@settings(deadline=None)
def test_rate_equals_the_formula(schedule, epochs, warm, milestones, time):
    how = Settings(epochs=epochs, schedule=schedule, milestones=tuple(milestones), warmup=warm * epochs)
    time = time * epochs
    assert how.rate(time) == pytest.approx(rate_by_hand(how, time), rel=1e-9, abs=1e-12)


def test_rate_at_its_ends():
    assert Settings(warmup=2).rate(0.0) == 0.0
    assert Settings(warmup=2).rate(1.0) == 0.5
    assert Settings(epochs=10, schedule="cosine").rate(0.0) == 1.0
    assert Settings(epochs=10, schedule="cosine").rate(5.0) == pytest.approx(0.5)
    assert Settings(epochs=10, schedule="cosine").rate(10.0) == pytest.approx(0.0)
    assert Settings(epochs=2, schedule="cosine", warmup=4).rate(1.0) == 0.25  # ends before it is warm
    step = Settings(schedule="step", milestones=(3,))
    assert [step.rate(time) for time in (2.99, 3.0)] == [1.0, 0.1]


def test_eps_is_the_papers_by_default():
    for kind in ("adam", "adamw"):
        optimizer = make_optimizer(make_method(), Settings(optimizer=kind))
        assert {group["eps"] for group in optimizer.param_groups} == {1e-7}
