from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lupi import PrivilegedClassifier, methods
from lupi.compare.arms import Arm, arms, privileged_of
from lupi.compare.cases import Case, Plan, Rows

N = 400
RNG = np.random.default_rng(0)
PI = pd.DataFrame({"annotator": RNG.choice(["a", "a", "a", "b", None], N), "seconds": RNG.exponential(size=N)})
ROWS = Rows(pd.DataFrame({"x": RNG.normal(size=N)}), RNG.integers(2, size=N), np.arange(N))
CASE = Case(ROWS, PI, ROWS)
KINDS = {"annotator": "category", "seconds": "number"}


def plan(**options):
    return Plan(Path("table.csv"), ["y"], ["a"], **options)


def test_no_pi_is_always_first_and_methods_come_once():
    assert arms(plan(methods=["tram", "no-pi", "tram"]), "classification") == [Arm("no-pi"), Arm("tram")]
    assert [arm.name for arm in arms(plan(), "multi-label")] == methods.names()
    assert "pi-transition" not in [arm.name for arm in arms(plan(), "regression")]
    with pytest.raises(ValueError, match="target of real numbers, but 'pi-transition' is for classes"):
        arms(plan(methods=["pi-transition"]), "regression")


def test_every_method_with_privileged_information_has_three_controls():
    names = [arm.name for arm in arms(plan(methods=["tram", "distillation"], controls=True), "classification")]
    assert names == [
        "no-pi",
        "tram",
        "distillation",
        "no-pi [early stopping]",
        "tram [PI zeros]",
        "tram [PI shuffled]",
        "tram [PI random]",
    ]


def test_what_stands_in_the_place_of_privileged_information():
    real, numbers = privileged_of(Arm("tram"), CASE, KINDS, 0)
    pd.testing.assert_frame_equal(real, PI)
    assert numbers == {"annotator": "category", "seconds": "quantile"}
    assert privileged_of(Arm("no-pi"), CASE, KINDS, 0)[0] is None
    shuffled, _ = privileged_of(Arm("tram", "PI shuffled"), CASE, KINDS, 0)
    assert sorted(map(str, shuffled.to_numpy())) == sorted(map(str, PI.to_numpy()))  # whole rows
    assert (shuffled["seconds"] == PI["seconds"]).mean() < 0.05
    drawn, _ = privileged_of(Arm("tram", "PI random"), CASE, KINDS, 0)
    assert set(drawn["annotator"]) == {"a", "b"}
    assert (drawn["annotator"] == "a").mean() == pytest.approx(0.5, abs=0.1)  # three of four in PI
    assert abs(np.corrcoef(drawn["seconds"], PI["seconds"])[0, 1]) < 0.15
    other, _ = privileged_of(Arm("tram", "PI random"), CASE, KINDS, 1)
    assert not drawn.equals(other)
    pd.testing.assert_frame_equal(PI, CASE.privileged)


def test_zeros_are_zeros_where_the_method_sees_them():
    a, numbers = privileged_of(Arm("tram", "PI zeros"), CASE, KINDS, 0)
    model = PrivilegedClassifier("tram", numbers=numbers, epochs=1).fit(ROWS.X, ROWS.y, privileged=a)
    encoded = model.privileged_encoder_.transform(a).toarray()
    assert encoded.shape == (N, 1)
    assert not encoded.any()
