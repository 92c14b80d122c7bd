from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lupi import methods
from lupi.compare.arms import Variant, change_privileged, list_variants
from lupi.compare.plan import Plan
from lupi.estimators.table_estimator import TableEstimator
from lupi.tabular import TableSpec
from lupi.tabular.schema import InputColumn, Schema
from lupi.tabular.spec import Roles
from lupi.tabular.table_data import TableData

N = 400
RNG = np.random.default_rng(0)
PI = pd.DataFrame({"annotator": RNG.choice(["a", "a", "a", "b", None], N), "seconds": RNG.exponential(size=N)})
SPEC = TableSpec(table=Path("table.csv"), target=["y"], privileged=["a"])
KINDS = {"annotator": "category", "seconds": "number"}
DATA = TableData(
    schema=Schema(
        roles=Roles(target=("y",), privileged=tuple(KINDS), inputs=("x",)),
        task="classification",
        soft=False,
        inputs={"x": InputColumn("number", "number")},
        privileged=KINDS,
        annotator="annotator",
    ),
    columns=PI.assign(x=RNG.normal(size=N), y=RNG.integers(2, size=N)),
    classes=(0, 1),
)


def plan(**options):
    return Plan(spec=SPEC, **options)


def names_of(task="classification", *, several=False, **options):
    return [variant.name for variant in list_variants(plan(**options), task, several=several)]


ALONE = ["no-pi", "no-pi [early stopping]", "no-pi [5 averaged]"]


def test_rows_without_privileged_information_come_first_and_methods_once():
    assert names_of(methods=["tram", "no-pi", "tram"]) == [*ALONE, "tram"]
    crowd = [*ALONE, "majority-vote", "dawid-skene"]
    assert names_of(methods=["tram", "dawid-skene"], several=True) == [*crowd, "tram"]
    assert names_of("multi-label", methods=["tram"], several=True) == [*crowd, "tram"]
    assert names_of("regression", methods=["tram"], several=True) == [*ALONE[:2], "tram"]


def test_only_methods_that_predict_labels_are_compared_in_that():
    how = {"settings": {"predicts": "labels"}, "several": True}
    assert names_of(**how) == [*ALONE, "tram", "mean-imputation", "label-posterior", "auto"]
    with pytest.raises(ValueError, match="`methods` that predict labels, but got 'pi-dual'"):
        names_of(methods=["pi-dual"], **how)


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
    pd.testing.assert_frame_equal(change_privileged(Variant("tram"), DATA, 0).privileged, PI)
    shuffled = change_privileged(Variant("tram", "PI shuffled"), DATA, 0).privileged
    assert sorted(map(str, shuffled.to_numpy())) == sorted(map(str, PI.to_numpy()))  # whole rows
    assert (shuffled["seconds"] == PI["seconds"]).mean() < 0.05
    drawn = change_privileged(Variant("tram", "PI random"), DATA, 0).privileged
    assert set(drawn["annotator"]) == {"a", "b"}
    assert (drawn["annotator"] == "a").mean() == pytest.approx(0.5, abs=0.1)  # three of four in PI
    assert abs(np.corrcoef(drawn["seconds"], PI["seconds"])[0, 1]) < 0.15
    other = change_privileged(Variant("tram", "PI random"), DATA, 1).privileged
    assert not drawn.equals(other)
    pd.testing.assert_frame_equal(DATA.privileged, before)


def test_zeros_are_zeros_where_the_method_sees_them():
    zeros = change_privileged(Variant("tram", "PI zeros"), DATA, 0)
    model = TableEstimator(zeros.schema, "tram", {"epochs": 1}).fit(zeros).estimator
    encoded = model.privileged_encoder_.transform(zeros.privileged).toarray()
    assert encoded.shape == (N, 1)
    assert not encoded.any()
