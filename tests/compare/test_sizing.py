"""A comparison that fits into a number of minutes."""

import json

import numpy as np
import pandas as pd
import pytest

from lupi.compare import Plan, compare_table, comparison, sizing
from lupi.compare.budget import Estimate, Probe, fit_budget, measure
from lupi.tabular import TableSpec

RNG = np.random.default_rng(0)
ROWS = 1200
TABLE = pd.DataFrame({"id": np.repeat(np.arange(ROWS // 2), 2), "size": np.repeat(RNG.normal(size=ROWS // 2), 2)})
TABLE["annotator"] = RNG.choice(list("abc"), ROWS)
TABLE["label"] = np.where((TABLE["size"] > 0) ^ (RNG.random(ROWS) < 0.2), "yes", "no")


@pytest.fixture
def spec(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")
    return TableSpec(table=tmp_path / "table.parquet", target=["label"], privileged=["annotator"], example="id")


@pytest.fixture
def slow(monkeypatch):
    """Every run takes a minute on the whole table; count how often that is measured."""
    calls = []

    def estimate(*arguments):
        calls.append(arguments)
        return Estimate(fixed=0.0, per_annotation=60 / ROWS)

    for module in (sizing, comparison):
        monkeypatch.setattr(module, "estimate_plan", estimate)
    return calls


def plan_of(spec, **options):
    return Plan(spec=spec, **{"methods": ["tram"], "seeds": 4, "settings": {"epochs": 1}, **options})


def read_about(folder):
    return json.loads((folder / "comparison.json").read_text())


@pytest.mark.parametrize(
    ("minutes", "seeds", "sample", "said"),
    [
        (9, 4, None, "Budget of 9 minutes: nothing was reduced."),
        (3.5, 3, None, "Budget of 3.5 minutes: 3 of 4 seeds."),
        (1.5, 3, 600, "Budget of 1.5 minutes: 3 of 4 seeds and a sample of 600 of 1,200 annotations."),
        (
            0.5,
            3,
            500,
            "Budget of 0.5 minutes: 3 of 4 seeds and a sample of 500 of 1,200 annotations; this takes about 1 minute, "
            "the least that is informative.",
        ),
    ],
)
def test_seeds_are_reduced_before_annotations(minutes, seeds, sample, said, spec, slow, tmp_path):
    lines = []
    found = compare_table(plan_of(spec, minutes=minutes), tmp_path / "run", notify=lines.append)
    assert said in lines
    assert len(slow) == 1
    assert found.runs["seed"].nunique() == seeds
    assert read_about(tmp_path / "run").get("sample") == sample
    assert found.about.get("sample") == sample
    if sample:
        assert f"A random sample of {sample} of 1,200 annotations was used" in " ".join(found.notes)
    plain = compare_table(plan_of(spec, seeds=seeds, sample=sample), tmp_path / "plain")
    pd.testing.assert_frame_equal(plain.runs.drop(columns="seconds"), found.runs.drop(columns="seconds"))


def test_a_comparison_resumes_with_what_was_chosen_first(spec, slow, tmp_path, monkeypatch):
    plan = plan_of(spec, minutes=1.5)
    first = compare_table(plan, tmp_path / "run")
    next((tmp_path / "run" / "runs").glob("tram-2-of-*.npz")).unlink()
    monkeypatch.setattr(comparison, "estimate_plan", None)  # another estimate could give another plan
    again = compare_table(plan, tmp_path / "run")
    pd.testing.assert_frame_equal(again.runs.drop(columns="seconds"), first.runs.drop(columns="seconds"))
    assert len(slow) == 1


def test_another_budget_is_another_comparison(spec, slow, tmp_path):
    compare_table(plan_of(spec, minutes=1.5), tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"budget 1\.5 minutes for 4 runs"):
        compare_table(plan_of(spec, minutes=1.4), tmp_path / "run")
    with pytest.raises(FileExistsError, match="has sample 600, not none, budget"):
        compare_table(plan_of(spec, seeds=3), tmp_path / "run")
    assert len(slow) == 2


def test_the_size_is_chosen_again_for_other_methods(spec, slow, tmp_path):
    compare_table(plan_of(spec, minutes=3.5), tmp_path / "run")
    compare_table(plan_of(spec, minutes=3.5, methods=["no-pi"]), tmp_path / "run")
    assert len(slow) == 2


def test_folds_stay(spec, slow, tmp_path):
    found = compare_table(plan_of(spec, minutes=1, folds=3), tmp_path / "run")
    assert found.runs["seed"].nunique() == 3
    assert found.about["sample"] == 500
    assert slow


def test_the_work_is_said_before_it_starts(spec, slow, tmp_path, capsys):
    compare_table(plan_of(spec), tmp_path / "run", progress=True)
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "train 28 times with 1,200 annotations: less than a minute"
    assert not slow, "no probe for little work"
    compare_table(plan_of(spec, settings={"epochs": 9}, seeds=2, sample=1190), tmp_path / "other", progress=True)
    text = capsys.readouterr().err.splitlines()[0]
    assert text == "train 14 times with 1,190 annotations: about 2 minutes, less where training stops early"
    assert len(slow) == 1
    compare_table(plan_of(spec), tmp_path / "run", progress=True)
    assert "times" not in capsys.readouterr().err


def test_a_probe_trains_every_arm_on_a_small_sample(spec):
    """Twice the annotations and twice the epochs take longer, and no more than in proportion."""
    plan = plan_of(spec, settings={"epochs": 40})
    data = comparison.read_dataset(spec)
    variants = comparison.list_variants(plan, data.task, several=True)
    found = sizing.estimate_plan(plan, data, variants, workers=2)
    assert found.per_annotation > 0
    assert found.seconds(2, 1000) < found.seconds(2, 2000) <= 2 * found.seconds(2, 1000)
    assert found.seconds(4, 1000) == pytest.approx(2 * found.seconds(2, 1000))


def test_trainings_that_fail_are_not_estimated():
    def fail(_):
        raise ValueError("too few examples")

    assert measure([Probe(fail)], epochs=5, rows=10, workers=1) is None
    with pytest.raises(ValueError, match="`minutes`"):
        sizing.fit_minutes(plan_of(TableSpec(table=None, target=["y"], privileged=["a"]), minutes=1), 10, None)


def test_a_budget_is_kept_where_it_can_be():
    rng = np.random.default_rng(0)
    for _ in range(500):
        estimate = Estimate(
            fixed=rng.exponential(), per_annotation=rng.exponential() / 100, workers=int(rng.integers(1, 9))
        )
        runs, rows, minutes = int(rng.integers(2, 12)), int(rng.integers(100, 20_000)), rng.exponential(10)
        got, size = fit_budget(estimate, minutes, runs=runs, rows=rows)
        assert min(runs, 3) <= got <= runs
        assert min(rows, 500) <= size <= rows
        assert size == rows or got == min(runs, 3), "seeds first"
        least = (got, size) == (min(runs, 3), min(rows, 500))
        assert least or estimate.seconds(got, size) <= 60 * minutes * (1 + 1e-6)
        if got < runs and size == rows:
            assert estimate.seconds(got + 1, rows) > 60 * minutes


def test_numbers_that_make_no_sense(spec):
    for options, message in (({"sample": 0}, "`sample`.*0"), ({"minutes": 0}, "`minutes`.*0")):
        with pytest.raises(ValueError, match=message):
            plan_of(spec, **options)


def test_a_probe_trains_in_the_batches_of_the_whole_table(spec, monkeypatch):
    seen = []
    monkeypatch.setattr(sizing, "choose_batch_size", lambda rows: 64 if rows == ROWS else 1)
    monkeypatch.setattr(sizing, "train_variant", lambda *given: seen.append((given[1].settings, given[2])))
    monkeypatch.setattr(sizing, "uses_consensus", lambda _: False)
    plan, data = plan_of(spec, settings={"epochs": 40, "batch_size": None}), comparison.read_dataset(spec)
    sizing.estimate_plan(plan, data, comparison.list_variants(plan, data.task), workers=1)
    assert {settings["batch_size"] for settings, _ in seen} == {64}
    assert {settings["epochs"] for settings, _ in seen} == {1, 3}
    assert {len(small.rows) for _, small in seen} == {384}
