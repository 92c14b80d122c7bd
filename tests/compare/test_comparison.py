import json
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import stats
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import GroupShuffleSplit

from lupi import PrivilegedClassifier, PrivilegedRegressor
from lupi.compare import Plan, arms, compare_table
from lupi.compare.page import write_comparison
from lupi.compare.results import format_table
from lupi.crowd import infer
from lupi.estimators.scoring import predict_test
from lupi.metrics import clustered_error, evaluate
from lupi.tabular import TableSpec

RNG = np.random.default_rng(0)
N = 60
TABLE = pd.DataFrame({"id": np.repeat(np.arange(N), 2), "size": np.repeat(RNG.normal(size=N), 2)})
TABLE["annotator"] = RNG.choice(list("abc"), 2 * N)
LIAR = (TABLE["annotator"] == "a") & (RNG.random(2 * N) < 0.8)
TABLE["label"] = np.where((TABLE["size"] > 0) ^ LIAR, "yes", "no")
TABLE["price"] = TABLE["size"] + 3 * RNG.normal(size=2 * N) * (TABLE["annotator"] == "a")
TABLE["red"], TABLE["blue"] = (TABLE["size"] > 0).astype(int), (TABLE["size"] < 0.5).astype(int)
TEST = pd.DataFrame({"id": np.repeat(np.arange(20), 2), "size": np.repeat(RNG.normal(size=20), 2)})
TEST["label"] = np.where(TEST["size"] > 0, "yes", "no")
TEST["price"] = TEST["size"]
TEST["red"], TEST["blue"] = (TEST["size"] > 0).astype(int), (TEST["size"] < 0.5).astype(int)
TARGETS = ["label", "price", "red", "blue"]
AVERAGED = "no-pi [5 averaged]"
ALONE = ["no-pi", "no-pi [early stopping]", AVERAGED, "majority-vote", "dawid-skene"]
"""The rows without privileged information, where examples have several labels."""


def found_of(folder, target=("label",), test=None, table=TABLE, out="run", jobs=1, annotator=None, **options):
    table.to_parquet(folder / "table.parquet")
    if test is not None:
        test.to_parquet(folder / "test.parquet")
    spec = TableSpec(
        table=folder / "table.parquet",
        target=target,
        privileged=["annotator"],
        example="id",
        annotator=annotator,
        ignore=[name for name in TARGETS if name not in target],
    )
    plan = Plan(
        spec=spec,
        test=None if test is None else folder / "test.parquet",
        **{"methods": ["tram"], "seeds": 2, "settings": {"epochs": 2}, **options},
    )
    return compare_table(plan, folder / out, jobs=jobs)


def record(monkeypatch):
    """Return a list that gets the first model of each group of seeds."""
    trained, train = [], arms.fit_tables
    monkeypatch.setattr(arms, "fit_tables", lambda models, rows: trained.append(models[0]) or train(models, rows))
    return trained


def scores(found):
    return found.runs.drop(columns="seconds")


def make_model(row, seed):
    """The estimator of a row of the comparison."""
    if row == AVERAGED:
        options = {"methods": ["no-pi"], "folds": 5}
        return PrivilegedClassifier("stack", method_options=options, epochs=2, random_state=seed)
    name, early = row.partition(" [")[::2]
    return PrivilegedClassifier(name, epochs=2, random_state=seed, patience=5 if early else None)


def find_best(found, metric):
    """The baseline with the best mean."""
    means = found.runs.groupby("method")[metric].mean()[ALONE]
    return means.idxmax() if metric == "accuracy" else means.idxmin()


def test_scores_are_those_of_models_trained_by_hand(tmp_path):
    """The likelihood of held-out labels through a model of the annotators, the same for all arms."""
    found = found_of(tmp_path)
    inferred = {}
    for row in found.runs.itertuples():
        split = GroupShuffleSplit(1, test_size=0.2, random_state=row.seed).split(TABLE, groups=TABLE["id"])
        train, test = (TABLE.iloc[rows] for rows in next(split))
        how = {"example": train["id"]}
        once = test.drop_duplicates("id")
        if row.seed not in inferred:
            model = PrivilegedClassifier("no-pi", epochs=2, patience=5, random_state=1_000_000 + row.seed)
            p = model.fit(train[["size"]], train["label"], **how).predict_proba(test[["size"]])
            every = pd.concat([test, train])
            given = (every["label"] == "yes").to_numpy(int)
            p = np.vstack([p, np.tile(np.bincount(given) / len(given), (len(train), 1))])
            one = infer(p, given, example=every["id"], annotator=every["annotator"].to_numpy())
            inferred[row.seed] = one.evidence[: len(once)], one.truth[: len(once)].mean(0)
        (evidence, share), test = inferred[row.seed], once
        likelihood = np.exp(evidence)
        posterior = share * likelihood / (likelihood @ share)[:, None]
        moments = [[(posterior[:, j] * posterior[:, k]).mean() for k in range(2)] for j in range(2)]
        truth = posterior @ np.linalg.inv(moments / posterior.mean(0)[:, None])
        if row.method != AVERAGED:
            how["privileged"] = train[["annotator"]]
        model = make_model(row.method, row.seed).fit(train[["size"]], train["label"], **how)
        p = model.predict_proba(test[["size"]])
        assert row.nll == pytest.approx(np.mean(-np.log((p * likelihood).sum(1) / likelihood.max(1))))
        assert row.accuracy == pytest.approx(truth[np.arange(len(p)), p.argmax(1)].mean())
        brier = [np.square(p - np.eye(2)[k]).sum(1) * truth[:, k] for k in range(2)]
        assert row.brier == pytest.approx(np.sum(brier) / len(p))
    assert found.runs["method"].tolist() == np.repeat([*ALONE, "tram"], 2).tolist()
    assert not found.runs["control"].any()
    assert found.notes[0].startswith("Scored on held-out labels, not on true ones ")
    assert "2 splits, each of which holds out 20% of 60 examples." in found.notes[0]
    assert found.metrics == ("nll", "accuracy", "brier", "ece")


def test_several_labels_per_row_are_scored_as_they_are(tmp_path):
    """There is no model of annotators for multi-label y; its NLL on noisy labels comes second."""
    found = found_of(tmp_path, ("red", "blue"))
    assert found.notes[0].startswith("Scored on held-out labels, not on true ones ")
    assert found.metrics == ("accuracy", "nll", "brier", "ece")


def test_answers_are_scored_as_they_are(tmp_path):
    """Where methods predict how people would answer, each held-out label counts."""
    found = found_of(tmp_path, settings={"epochs": 2, "predicts": "labels"})
    row = found.runs.query("method == 'tram' and seed == 1").iloc[0]
    train, test = next(GroupShuffleSplit(1, test_size=0.2, random_state=1).split(TABLE, groups=TABLE["id"]))
    train, test = TABLE.iloc[train], TABLE.iloc[test]
    model = make_model("tram", 1).fit(
        train[["size"]], train["label"], privileged=train[["annotator"]], example=train["id"]
    )
    p = model.predict_proba(test[["size"]])
    assert row["nll"] == pytest.approx(-np.log(np.where(test["label"] == "yes", p[:, 1], p[:, 0])).mean())
    assert found.metrics[0] == "nll"
    assert "majority-vote" not in found.summary.index


def test_intervals_of_splits_count_their_overlap(tmp_path):
    for options, overlap in (({"seeds": 3}, 0.25), ({"folds": 4}, 1 / 3)):
        found = found_of(tmp_path, out=f"run{overlap}", **options)
        nll = found.runs.pivot(index="seed", columns="method", values="nll")
        values = nll["tram"] - nll[find_best(found, "nll")]
        half = stats.t.ppf(0.975, len(values) - 1) * values.std() * np.sqrt(1 / len(values) + overlap)
        row = found.summary.loc["tram"]
        assert row["nll_difference"] == pytest.approx(values.mean())
        assert (row["nll_high"] - row["nll_low"]) / 2 == pytest.approx(half)


def test_intervals_of_a_test_table_count_its_examples(tmp_path):
    found = found_of(tmp_path, test=TEST)
    rows = {}
    best, of_ece = find_best(found, "nll"), found.runs.set_index("method")["ece"]
    for method in (best, "tram"):
        of_seeds = []
        for seed in range(2):
            model = make_model(method, seed)
            model.fit(TABLE[["size"]], TABLE["label"], privileged=TABLE[["annotator"]], example=TABLE["id"])
            p = model.predict_proba(TEST[["size"]])
            of_seeds.append(-np.log(np.where(TEST["label"] == "yes", p[:, 1], p[:, 0])))
        rows[method] = np.array(of_seeds)
    difference = rows["tram"] - rows[best]
    by_seed = difference.mean(1)
    error = np.hypot(by_seed.std(ddof=1) / np.sqrt(2), clustered_error(difference.mean(0), TEST["id"].to_numpy())[0])
    row = found.summary.loc["tram"]
    assert row["nll_difference"] == pytest.approx(by_seed.mean())
    assert row["nll_error"] == pytest.approx(error)
    assert row["ece_error"] == pytest.approx(
        stats.sem(of_ece["tram"].to_numpy() - of_ece[find_best(found, "ece")].to_numpy())
    )
    assert any("They do not cover another training table." in note for note in found.notes)
    assert any(note.startswith("Two labels of one example agree ") for note in found.notes)


def test_test_labels_are_for_scoring_only(tmp_path):
    """With all test labels turned round, right becomes wrong and nothing else changes."""
    turned = TEST.assign(label=np.where(TEST["label"] == "yes", "no", "yes"))
    one, other = found_of(tmp_path, test=TEST), found_of(tmp_path, test=turned, out="turned")
    np.testing.assert_allclose(one.runs["accuracy"], 1 - other.runs["accuracy"])


def test_finished_runs_are_not_trained_again(tmp_path):
    """A group of five seeds is trained as a whole, so that the results do not depend on interruptions."""
    one = found_of(tmp_path, test=TEST, seeds=6)
    folder = tmp_path / "run" / "runs"
    alone = ("no-pi", "no-pi-early-stopping", "no-pi-5-averaged", "majority-vote", "dawid-skene")
    group = ["0-4"] * 5 + ["5-5"]
    expected = {f"{name}-{seed}-of-{group[seed]}.npz" for name in (*alone, "tram") for seed in range(6)}
    assert {path.name for path in folder.iterdir()} == expected
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    (folder / "tram-2-of-0-4.npz").unlink()
    (folder / "no-pi-5-of-5-5.npz").write_bytes(b"cut off")
    two = found_of(tmp_path, test=TEST, seeds=6)
    pd.testing.assert_frame_equal(scores(one), scores(two), check_exact=True)
    pd.testing.assert_frame_equal(*(found.summary.drop(columns="seconds") for found in (one, two)))
    trained = {path.name for path in folder.iterdir() if path.stat().st_mtime_ns != times[path.name]}
    assert trained == {"no-pi-5-of-5-5.npz", *(f"tram-{seed}-of-0-4.npz" for seed in range(5))}


@pytest.mark.parametrize("test", [None, TEST], ids=["split", "table"])
def test_seeds_and_methods_can_be_added_to_a_comparison(test, tmp_path):
    """The result is that of a new comparison, and only what is missing is trained."""
    options = {"test": test, "settings": {"epochs": 1}}
    found_of(tmp_path, seeds=5, **options)
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "runs").iterdir()}
    more = {"seeds": 7, "methods": ["het-tram", "tram"], **options}
    added, fresh = found_of(tmp_path, **more), found_of(tmp_path, out="fresh", **more)
    pd.testing.assert_frame_equal(scores(added), scores(fresh), check_exact=True)
    pd.testing.assert_frame_equal(*(found.summary.drop(columns="seconds") for found in (added, fresh)))
    pd.testing.assert_frame_equal(added.reliability, fresh.reliability)
    assert added.about == fresh.about
    assert {name: (tmp_path / "run" / "runs" / name).stat().st_mtime_ns for name in times} == times
    fewer, fresh = (found_of(tmp_path, out=out, seeds=3, **options) for out in ("run", "another"))
    pd.testing.assert_frame_equal(scores(fewer), scores(fresh), check_exact=True)
    pd.testing.assert_frame_equal(fewer.reliability, fresh.reliability)


def test_folds_are_another_comparison(tmp_path):
    found_of(tmp_path, folds=3, settings={"epochs": 1})
    for other, message in (({"folds": 2}, "has folds 3, not 2;"), ({"seeds": 3}, "has folds 3, not none;")):
        with pytest.raises(FileExistsError, match=message):
            found_of(tmp_path, settings={"epochs": 1}, **other)


def test_other_test_images_are_another_comparison(tmp_path):
    for name in "abcd":
        Image.fromarray(RNG.integers(256, size=(4, 4, 3), dtype=np.uint8)).save(tmp_path / f"{name}.png")
    photos = TABLE[["id", "annotator", "label"]].assign(photo=[f"{'ab'[i % 2]}.png" for i in TABLE["id"]])
    photos.to_csv(tmp_path / "table.csv", index=False)
    pd.DataFrame({"photo": ["c.png", "d.png"], "label": ["yes", "no"]}).to_csv(tmp_path / "test.csv", index=False)
    spec = TableSpec(
        table=tmp_path / "table.csv", target=["label"], privileged=["annotator"], example="id", kind={"photo": "image"}
    )
    plan = Plan(spec=spec, test=tmp_path / "test.csv", methods=["tram"], seeds=2, settings={"epochs": 1})
    compare_table(plan, tmp_path / "run")
    Image.fromarray(255 - np.asarray(Image.open(tmp_path / "c.png"))).save(tmp_path / "c.png")
    with pytest.raises(FileExistsError, match="has test data"):
        compare_table(plan, tmp_path / "run")


@pytest.mark.parametrize("test", [None, TEST], ids=["split", "table"])
def test_regression(test, tmp_path):
    found = found_of(tmp_path, ("price",), test, methods=["het-tram"])
    assert found.metrics == ("rmse", "mae")
    assert found.reliability.empty
    runs = found.runs.set_index("method")
    assert runs.loc["no-pi", "nll"].isna().all()
    assert runs.loc["het-tram", "nll"].notna().all()
    assert "RMSE" in found.verdict
    if test is not None:
        model = PrivilegedRegressor("het-tram", epochs=2, random_state=0)
        model.fit(TABLE[["size"]], TABLE["price"], privileged=TABLE[["annotator"]], example=TABLE["id"])
        predicted = model.predict(test[["size"]])
        row = found.runs.query("method == 'het-tram' and seed == 0").iloc[0]
        assert row["rmse"] == pytest.approx(root_mean_squared_error(test["price"], predicted))
        sd = model._outputs(test[["size"]])[:, 1].numpy() ** 0.5 * model.target_.scale
        assert row["nll"] == pytest.approx(-stats.norm.logpdf(test["price"], predicted, sd).mean(), rel=1e-5)


def test_the_error_of_rmse_is_that_of_a_bootstrap():
    """The rows of RMSE are its derivative, so that their spread is that of RMSE over test sets."""
    test = TEST.assign(id=np.arange(40), price=TEST["size"] + np.random.default_rng(1).normal(size=40))
    model = PrivilegedRegressor("no-pi", epochs=2, random_state=0).fit(TABLE[["size"]], TABLE["price"])
    scores = evaluate(*predict_test(model, test[["size"]], test["price"].to_numpy()))
    error, _ = clustered_error(scores["rmse"].rows)
    squared = np.square(model.predict(test[["size"]]) - test["price"].to_numpy())
    draws = np.random.default_rng(0).integers(40, size=(4000, 40))
    assert error == pytest.approx(np.sqrt(squared[draws].mean(1)).std(), rel=0.1)


def test_multi_label(tmp_path):
    found = found_of(tmp_path, ("red", "blue"), TEST)
    assert found.metrics == ("nll", "accuracy", "brier", "ece")
    model = PrivilegedClassifier("no-pi", epochs=2, random_state=1)
    model.fit(TABLE[["size"]], TABLE[["red", "blue"]], example=TABLE["id"])
    p, y = model.predict_proba(TEST[["size"]]), TEST[["red", "blue"]].to_numpy()
    row = found.runs.query("method == 'no-pi' and seed == 1").iloc[0]
    assert row["nll"] == pytest.approx(np.mean([log_loss(y[:, j], p[:, j]) for j in range(2)]))
    assert row["accuracy"] == pytest.approx(np.mean((p > 0.5) == y))


def test_controls_are_rows_and_only_early_stopping_stops_early(tmp_path, monkeypatch):
    trained = record(monkeypatch)
    found = found_of(tmp_path, controls=True)
    assert found.summary.index.tolist() == [
        *ALONE,
        "tram",
        *(f"tram [PI {kind}]" for kind in ("zeros", "shuffled", "random")),
    ]
    assert found.summary["control"].tolist() == [False] * 6 + [True] * 3
    assert [model.estimator.patience for model in trained] == [None, 5, *[None] * 7]
    aggregated = ["majority-vote", "dawid-skene"]
    assert [model.method for model in trained] == ["no-pi", "no-pi", "stack", *aggregated, *["tram"] * 4]
    assert found.runs.groupby("method")["nll"].first().nunique() == 9


def test_patience_is_for_all_methods_and_early_stopping_keeps_its_own(tmp_path, monkeypatch):
    trained = record(monkeypatch)
    found_of(tmp_path, settings={"epochs": 1, "patience": 2})
    assert [model.estimator.patience for model in trained] == [2, 5, 2, 2, 2, 2]


def test_bins_hold_every_decision(tmp_path):
    found = found_of(tmp_path, test=TEST)
    assert found.reliability.groupby("method")["count"].sum().tolist() == [80] * 6
    pooled = found.reliability.query("method == 'tram'")
    accuracy = np.average(pooled["accuracy"], weights=pooled["count"])
    assert accuracy == pytest.approx(found.summary.loc["tram", "accuracy"])
    assert ((pooled["low"] < pooled["confidence"]) & (pooled["confidence"] <= pooled["high"])).all()


def test_what_is_written(tmp_path):
    found = found_of(tmp_path, ("price",), methods=["het-tram"])
    files = write_comparison(found, tmp_path / "run", {"command": "lupi compare"})
    assert [file.name for file in files] == ["results.json", "results.csv", "summary.csv", "report.html"]
    pd.testing.assert_frame_equal(pd.read_csv(files[1]), found.runs)
    summary = pd.read_csv(files[2], index_col="method")
    pd.testing.assert_frame_equal(summary, found.summary)
    facts = json.loads(files[0].read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert facts["command"] == "lupi compare"
    assert facts["seeds"] == [0, 1]
    assert facts["runs"][0]["rmse"] == pytest.approx(found.runs["rmse"][0], rel=1e-14)
    assert facts["runs"][0]["nll"] is None
    assert facts["about"]["epochs"] == 2


def test_the_table_shows_the_summary(tmp_path):
    found = found_of(tmp_path, test=TEST)
    head, first, *others, second = format_table(found).splitlines()
    assert head.split()[:2] == ["NLL", "difference"]
    row, base = found.summary.loc["tram"], found.summary.loc["no-pi"]
    assert first.split()[:2] == ["no-pi", f"{base['nll']:.3f}±{base['nll_sd']:.3f}"]
    (named,) = [line for line in (first, *others) if line.split("±")[1][6:].strip().startswith("best baseline")]
    assert named.startswith(find_best(found, "nll"))
    assert f"{row['nll_difference']:+.3f} [{row['nll_low']:+.3f}, {row['nll_high']:+.3f}]" in second
    assert f"{100 * row['accuracy_difference']:+.1f} [" in second
    assert len({len(line) for line in (head, first, *others, second)}) == 1


def test_a_method_that_fails_is_named(tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("Expected better luck.")

    monkeypatch.setattr(arms, "fit_tables", fail)
    with pytest.raises(ValueError, match=r"no-pi.*better luck"):
        found_of(tmp_path)


@pytest.mark.parametrize("named", [None, "size"])
def test_arms_learn_from_the_annotators_of_the_table(named, tmp_path, monkeypatch):
    trained = record(monkeypatch)
    table = TABLE.assign(width=TABLE["size"])
    found = found_of(tmp_path, table=table, controls=True, annotator=named)
    columns = ("annotator",) if named is None else ("annotator", "size")
    told = {
        (model.method, model.estimator.annotator, tuple(model.schema.privileged if model.uses_privileged else ()))
        for model in trained
    }
    assert told == {
        ("no-pi", None, ()),
        ("stack", None, ()),
        ("majority-vote", None, ()),
        ("dawid-skene", columns[-1], columns),
        ("tram", columns[-1], columns),
        ("tram", None, ("nothing",)),
    }
    assert found.about["annotator"] == columns[-1]


def test_warnings_of_training_become_notes(tmp_path, monkeypatch):
    train = arms.fit_tables
    monkeypatch.setattr(arms, "fit_tables", lambda *given: warnings.warn("slow", stacklevel=1) or train(*given))
    assert "no-pi: slow" in found_of(tmp_path).notes
