from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lupi import PrivilegedClassifier, methods
from lupi.compare.arms import Variant, list_variants, make_privileged
from lupi.compare.plan import Plan
from lupi.tabular import TableSpec

N = 400
RNG = np.random.default_rng(0)
PI = pd.DataFrame({"annotator": RNG.choice(["a", "a", "a", "b", None], N), "seconds": RNG.exponential(size=N)})
X, Y = pd.DataFrame({"x": RNG.normal(size=N)}), RNG.integers(2, size=N)
SPEC = TableSpec(table=Path("table.csv"), target=["y"], privileged=["a"])
KINDS = {"annotator": "category", "seconds": "number"}


def plan(**options):
    return Plan(spec=SPEC, **options)


def test_no_pi_is_always_first_and_methods_come_once():
    assert list_variants(plan(methods=["tram", "no-pi", "tram"]), "classification") == [
        Variant("no-pi"),
        Variant("tram"),
    ]
    assert [variant.name for variant in list_variants(plan(), "multi-label")] == methods.names()
    assert "pi-transition" not in [variant.name for variant in list_variants(plan(), "regression")]
    with pytest.raises(ValueError, match=r"methods.*pi-transition"):
        list_variants(plan(methods=["pi-transition"]), "regression")


def test_every_method_with_privileged_information_has_three_controls():
    names = [
        variant.name
        for variant in list_variants(plan(methods=["tram", "distillation"], controls=True), "classification")
    ]
    assert names == [
        "no-pi",
        "tram",
        "distillation",
        "no-pi [early stopping]",
        "tram [PI zeros]",
        "tram [PI shuffled]",
        "tram [PI random]",
    ]


def test_controls_replace_privileged_information():
    before = PI.copy()
    real, numbers = make_privileged(Variant("tram"), PI, KINDS, 0)
    pd.testing.assert_frame_equal(real, PI)
    assert numbers == {"annotator": "category", "seconds": "quantile"}
    assert make_privileged(Variant("no-pi"), PI, KINDS, 0)[0] is None
    shuffled, _ = make_privileged(Variant("tram", "PI shuffled"), PI, KINDS, 0)
    assert sorted(map(str, shuffled.to_numpy())) == sorted(map(str, PI.to_numpy()))  # whole rows
    assert (shuffled["seconds"] == PI["seconds"]).mean() < 0.05
    drawn, _ = make_privileged(Variant("tram", "PI random"), PI, KINDS, 0)
    assert set(drawn["annotator"]) == {"a", "b"}
    assert (drawn["annotator"] == "a").mean() == pytest.approx(0.5, abs=0.1)  # three of four in PI
    assert abs(np.corrcoef(drawn["seconds"], PI["seconds"])[0, 1]) < 0.15
    other, _ = make_privileged(Variant("tram", "PI random"), PI, KINDS, 1)
    assert not drawn.equals(other)
    pd.testing.assert_frame_equal(PI, before)


def test_zeros_are_zeros_where_the_method_sees_them():
    a, numbers = make_privileged(Variant("tram", "PI zeros"), PI, KINDS, 0)
    model = PrivilegedClassifier("tram", numbers=numbers, epochs=1).fit(X, Y, privileged=a)
    encoded = model.privileged_encoder_.transform(a).toarray()
    assert encoded.shape == (N, 1)
    assert not encoded.any()
