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


def names_of(task="classification", *, several=False, **options):
    return [variant.name for variant in list_variants(plan(**options), task, several=several)]


ALONE = ["no-pi", "no-pi [early stopping]", "no-pi [5 averaged, recalibrated]"]


def test_rows_without_privileged_information_come_first_and_methods_once():
    assert names_of(methods=["tram", "no-pi", "tram"]) == [*ALONE, "tram"]
    crowd = [*ALONE, "majority-vote", "dawid-skene"]
    assert names_of(methods=["tram", "dawid-skene"], several=True) == [*crowd, "tram"]
    assert names_of("multi-label", methods=["tram"], several=True) == [*crowd, "tram"]
    assert names_of("regression", methods=["tram"], several=True) == [*ALONE[:2], "tram"]


def test_the_default_is_a_few_methods_and_all_is_everything():
    few, everything = names_of(), names_of(methods=["all"])
    assert few[:3] == ALONE
    assert {"tram", "pi-transition", "pi-dual", "mean-imputation"} <= set(few) < set(everything)
    assert sorted(everything) == sorted([*methods.names(), *ALONE[1:]])
    assert "pi-transition" not in names_of("regression")
    with pytest.raises(ValueError, match=r"methods.*pi-transition"):
        names_of("regression", methods=["pi-transition"])


def test_every_method_with_privileged_information_has_three_controls():
    assert names_of(methods=["tram", "distillation"], controls=True, several=True) == [
        *ALONE,
        "majority-vote",
        "dawid-skene",
        "tram",
        "distillation",
        "tram [PI zeros]",
        "tram [PI shuffled]",
        "tram [PI random]",
    ]


def test_who_is_a_baseline():
    blind = {variant.name for variant in list_variants(plan(methods=["all"]), "classification") if variant.is_baseline}
    assert blind == {*ALONE, "majority-vote", "dawid-skene", "distillation"}
    assert not Variant("tram", "PI zeros").is_baseline


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
