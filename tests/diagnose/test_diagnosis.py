import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lupi.crowd.agreement import krippendorff_alpha
from lupi.diagnose import Problem, diagnose
from lupi.diagnose.checks.columns import SHUFFLED, TOGETHER

FAST = {"epochs": 8, "learning_rate": 1e-2, "batch_size": 32}
TINY = {"epochs": 1}
EXAMPLES, EACH, PEOPLE = 200, 3, 8
SKILL = np.array([0.2, 0.35, 0.8, 0.85, 0.9, 0.9, 0.95, 0.95])


def crowd(seed=0, blur=1.0, examples=EXAMPLES):
    """Three classes, seen in two numbers; eight people, of whom two are careless; seconds and confidence say little."""
    rng = np.random.default_rng(seed)
    example = np.repeat(np.arange(examples), EACH)
    n = len(example)
    truth = rng.integers(3, size=examples)
    centre = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])
    X = pd.DataFrame((centre[truth] + blur * rng.normal(size=(examples, 2)))[example], columns=["u", "v"])
    person = rng.integers(PEOPLE, size=n)
    right = rng.random(n) < SKILL[person]
    label = np.where(right, truth[example], (truth[example] + rng.integers(1, 3, n)) % 3)
    A = pd.DataFrame(
        {
            "annotator": np.array([f"p{i}" for i in range(PEOPLE)])[person],
            "seconds": rng.exponential(size=n) * np.where(right, 1.0, 1.5),
            "confidence": np.where(right, 3, 2) + rng.integers(3, size=n),
        }
    )
    return X, np.array(["a", "b", "c"])[label], A, example, np.array(["a", "b", "c"])[truth[example]], rng


@pytest.fixture(scope="module")
def honest():
    X, y, A, example, gold, _ = crowd()
    return diagnose(Problem(X, y, A, example=example, annotator=A["annotator"], gold=gold, folds=4, parameters=FAST))


def test_honest_information_is_worth_having_and_leaks_nothing(honest):
    table = honest["information"].table.set_index("column")
    assert list(table.index) == ["annotator", "seconds", "confidence", TOGETHER, SHUFFLED]
    assert not table["leak"].any()
    assert table.loc["annotator", "low"] > 0
    assert table.loc[SHUFFLED, "low"] < 0.02
    assert table.loc["annotator", "estimate"] > table.loc["seconds", "estimate"]
    assert table.loc[TOGETHER, "share"] == pytest.approx(
        table.loc[TOGETHER, "estimate"] / honest["information"].numbers["(none)"]["loss"]
    )
    assert (table["alone"].dropna() < 0.1).all()
    assert "This privileged information is worth having: it carries 0." in honest.verdict
    assert "most of it is in 'annotator'" in honest.verdict
    assert any("error that all networks share" in note for note in honest.notes)
    assert any("With only 200 examples" in note for note in honest.notes)


def test_careless_annotators_are_found(honest):
    table = honest["annotators"].table
    assert table["support"].is_monotonic_increasing
    assert set(table["annotator"][:2]) == {"p0", "p1"}
    assert set(table.loc[table["flagged"], "annotator"]) == {"p0", "p1"}
    assert {"agreement", "confidence", "reliability", "low", "high"} <= set(table)
    assert "2 of 8 annotators are flagged" in honest.verdict
    assert re.search(r"First check the labels of p[01] \(often '[abc]' for '[abc]'\), p[01] \(often", honest.verdict)
    assert any("make reliability too high" in note for note in honest.notes)


def test_consensus_confusions_and_classes(honest):
    _, y, A, example, gold, _ = crowd()
    consensus = honest["consensus"].table
    assert list(consensus) == ["example", "label", "probability", "labels", "agreement", "given"]
    assert consensus["example"].tolist() == list(range(EXAMPLES))
    assert (consensus["label"].to_numpy() == gold[::EACH]).mean() > 0.85
    same = pd.Series(consensus["label"].to_numpy()[example] == y).groupby(example).mean()
    np.testing.assert_allclose(consensus["agreement"], same)
    cells = honest["confusion"].table
    counts = cells.groupby("annotator")["count"].sum()
    np.testing.assert_allclose(counts, A["annotator"].value_counts().sort_index(), atol=0.1)
    own = cells[cells["true"] == cells["given"]].groupby("annotator")["count"].sum() / counts
    assert own["p0"] < own["p7"]
    balance = honest["balance"].table
    np.testing.assert_array_equal(balance["labels"], pd.Series(y).value_counts().sort_index())
    assert balance["examples"].sum() == pytest.approx(EXAMPLES)
    assert balance["true_share"].sum() == pytest.approx(1)
    assert honest["agreement"].numbers["alpha"] == krippendorff_alpha(y, example)
    assert any("Krippendorff's α of the labels is 0." in note for note in honest.notes)


def test_probabilities_of_another_model_judge_the_labels():
    X, y, A, example, gold, _ = crowd(examples=60)
    p = np.where(gold[:, None] == np.array(["a", "b", "c"]), 0.98, 0.01)
    given = {"example": example, "annotator": A["annotator"], "folds": 2, "parameters": TINY}
    found = diagnose(Problem(X, y, A[["annotator"]], probabilities=p, **given))
    np.testing.assert_array_equal(found["consensus"].table["label"], gold[::EACH])
    np.testing.assert_array_equal(found["labels"].table["wrong"] > 0.5, (y != gold)[found["labels"].table["row"]])
    assert "Annotators and labels were judged by the probabilities that were given." in found.notes


def test_a_consensus_that_no_annotator_gave_is_marked_and_noted():
    """Another model is certain of the truth, which nobody chose for some examples."""
    X, y, A, example, gold, _ = crowd(examples=60)
    sure = np.where(gold[:, None] == np.array(["a", "b", "c"]), 1 - 2e-9, 1e-9)
    y = np.where((example < 5) & (gold != "c"), "c", y)
    missed = [one for one in range(60) if not (y == gold)[example == one].any()]
    assert 1 < len(missed) < 20
    found = diagnose(
        Problem(X, y, A[["annotator"]], probabilities=sure, example=example, annotator=A["annotator"], parameters=TINY)
    )
    table = found["consensus"].table
    assert table.loc[~table["given"], "example"].tolist() == missed
    assert found["consensus"].numbers["given by nobody"] == len(missed)
    assert any(note.startswith(f"For {len(missed)} examples, the most probable label is one") for note in found.notes)


def test_labels_are_ranked_and_counted(honest):
    labels = honest["labels"].table
    assert list(labels) == ["row", "example", "annotator", "given", "likely", "wrong", "right"]
    np.testing.assert_allclose(labels["right"], 1 - labels["wrong"])
    assert labels["wrong"].is_monotonic_decreasing
    assert sorted(labels["row"]) == list(range(EXAMPLES * EACH))
    _, y, A, example, _, _ = crowd()
    np.testing.assert_array_equal(labels["given"], y[labels["row"]])
    np.testing.assert_array_equal(labels["annotator"], A["annotator"].to_numpy()[labels["row"]])
    np.testing.assert_array_equal(labels["example"], example[labels["row"]])
    look = int((labels["wrong"] > 0.5).sum())
    assert honest.verdict.startswith(f"{look} of 600 labels")
    assert f"First check rows {', '.join(map(str, labels['row'][:5]))}." in honest.verdict
    numbers = honest.numbers()
    assert numbers[numbers["quantity"] == "look wrong"]["value"].tolist() == [look]


def test_it_scores_itself_beside_baselines(honest):
    value = honest["scores"].table.set_index(["score", "estimate"])["value"]
    assert value["Spearman", "support"] > 0.8
    assert value["AUROC", "suspicion"] > max(0.85, value["AUROC", "model alone"], value["AUROC", "majority vote"])
    assert any("true labels of 200 of 200 examples" in note for note in honest.notes)


def test_true_labels_anchor_the_diagnosis_and_score_one_that_does_not_know_them():
    X, y, A, example, gold, _ = crowd(examples=40)
    some = np.where(example < 10, gold, None)
    given = {"example": example, "annotator": A["annotator"], "folds": 2, "parameters": TINY}
    without, again, known, other = (
        diagnose(Problem(X, y, A[["annotator"]], **given, **more))
        for more in ({}, {"trust": {}}, {"gold": some}, {"seed": 1})
    )
    pd.testing.assert_frame_equal(without["labels"].table, again["labels"].table)
    assert without.verdict == again.verdict != other.verdict
    pd.testing.assert_frame_equal(without["information"].table, known["information"].table)
    first = known["consensus"].table.set_index("example").loc[range(10)]
    np.testing.assert_array_equal(first["label"], gold[::EACH][:10])
    assert (first["probability"] == 1).all()
    labels, blind = (found["labels"].table.sort_values("row") for found in (known, without))
    np.testing.assert_array_equal(labels["wrong"][: 10 * EACH], (y != gold)[: 10 * EACH])
    assert any("true labels of 10 of 40 examples anchor" in note for note in known.notes)
    wrong = (y != gold)[: 10 * EACH]
    expected = roc_auc_score(wrong, blind["wrong"][: 10 * EACH])
    assert known["scores"].table.query("of == 'labels' and estimate == 'suspicion'")["value"].tolist() == [expected]
    assert "scores" not in without.findings


def test_trust_counts():
    X, y, A, example, *_ = crowd(examples=40)
    given = {"example": example, "annotator": A["annotator"], "folds": 2, "parameters": TINY}
    found = [diagnose(Problem(X, y, A[["annotator"]], trust=trust, **given)) for trust in (None, {"p0": 0.99})]
    reliability = [one["annotators"].table.set_index("annotator")["reliability"]["p0"] for one in found]
    assert reliability[1] > max(0.8, reliability[0] + 0.1)


def test_leaks_are_named_left_out_and_explained():
    X, y, A, example, gold, rng = crowd(1, blur=2.0)
    A = A[["annotator"]].assign(
        copy=pd.Series(y).map({"a": "x7", "b": "x1", "c": "x9"}),
        truth=np.where(rng.random(len(y)) < 0.02, y, gold),
        row=[f"r{i}" for i in range(len(y))],
    )
    found = diagnose(Problem(X, y, A, example=example, annotator=A["annotator"], folds=3, parameters=FAST))
    how = found["information"].table.set_index("column")["how"]
    assert how.loc[["copy", "truth"]].tolist() == ["copy", "answer"]
    assert how.loc[["annotator", "row"]].tolist() == ["", ""]
    assert found.verdict.startswith("Remove 'copy', 'truth', which give the label away.\n\n")
    for name in ("copy", "truth"):
        assert sum(f"'{name}'" in note and "`ignore`" in note for note in found.notes) == 1
    assert any("'row' has a different value in nearly every example" in note for note in found.notes)
    # Leaks are not learned from: the careless are still found.
    assert set(found["annotators"].table["annotator"][:2]) == {"p0", "p1"}
    rows = found["information"].table.set_index("column")["estimate"]
    assert rows[TOGETHER] < 0.5 * rows["copy"]


def test_shuffled_information_is_not_shown_to_be_worth_having():
    X, y, A, example, _, rng = crowd(2, examples=100)
    A = A.iloc[rng.permutation(len(A))].reset_index(drop=True)
    found = diagnose(Problem(X, y, A[["annotator"]], example=example, folds=3, parameters=FAST))
    assert "This privileged information is worth having" not in found.verdict
    assert "annotators" not in found.findings
    assert "labels" in found.findings


def test_a_single_annotator_column_missing_leaves_the_models_ranking():
    X, y, A, example, gold, _ = crowd(examples=40)
    found = diagnose(Problem(X, y, A[["confidence"]], example=example, gold=gold, folds=2, parameters=TINY))
    assert "annotators" not in found.findings
    assert list(found["labels"].table) == ["row", "example", "given", "likely", "wrong", "right"]
    assert set(found["scores"].table["of"]) == {"labels"}
    assert "annotators to" not in found.verdict


def test_only_leaks_leave_no_pi():
    X, y, _, example, _, _ = crowd(examples=40)
    found = diagnose(Problem(X, y, pd.DataFrame({"copy": y}), example=example, folds=2, parameters=TINY))
    assert "All privileged columns leak the label" in found.verdict
    assert any("judged by No PI" in note for note in found.notes)


def test_several_targets_and_real_numbers_have_information_and_leaks():
    rng = np.random.default_rng(0)
    x, careless = rng.normal(size=(600, 2)), rng.integers(2, size=600)
    several = np.where(careless[:, None], rng.integers(2, size=(600, 2)), x > 0).astype(int)
    A = pd.DataFrame({"careless": careless.astype(str), "nothing": rng.integers(3, size=600).astype(str)})
    found = diagnose(Problem(x, several, A, folds=3, parameters=FAST))
    table = found["information"].table.set_index("column")
    assert table.loc["careless", "low"] > 0 > table.loc["nothing", "low"]
    assert not table["leak"].any()
    assert found["labels"].table is None
    assert any("single target of classes" in note for note in found.notes)
    y = np.where(careless, 3 * rng.normal(size=600), 0.1 * rng.normal(size=600))
    A = A[["careless"]].assign(copy=2 * y - 1)
    found = diagnose(Problem(x, y, A, real=True, folds=3, parameters=FAST))
    table = found["information"].table.set_index("column")
    assert table.loc["careless", "low"] > 0
    assert table["how"].to_dict() == {"careless": "", "copy": "copy", TOGETHER: "", SHUFFLED: ""}
    assert table["share"].isna().all()
    assert "worth having" in found.verdict


def test_the_interval_is_the_wider_one_and_counts_folds_too():
    X, y, A, example, _, _ = crowd()
    problem = Problem(X, y, A, example=example, folds=4)
    rng = np.random.default_rng(0)
    one = rng.normal(1, 0.1, len(y))
    steady, shaky = one - 0.2, one - 0.2 - 0.2 * (problem.fold % 2)
    assert problem.gain(one, steady).low > 0.19
    assert problem.gain(one, shaky).low < 0.2 < problem.gain(one, shaky).high
    assert problem.gain(one, shaky).high - problem.gain(one, shaky).low > 0.3
    for group in range(4):
        members = np.unique(problem.group[problem.fold == group])
        assert not np.isin(members, problem.group[problem.fold != group]).any()


def test_small_data_have_small_batches():
    X, y, A, _, _, _ = crowd()
    assert Problem(X, y, A).batch_size == 9
    assert Problem(X, y[:60], A).batch_size == 8
    assert Problem(X, np.tile(y, 10), A).batch_size == 96


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "trams"}, "trams"),
        ({"folds": 1}, "`folds`.*100.*1"),
        ({"privileged": pd.DataFrame(index=range(600))}, "`privileged`"),
        ({"example": np.zeros(600)}, "20 examples, but got 1"),
    ],
)
def test_a_problem_that_cannot_be_diagnosed_is_refused(change, words):
    X, y, A, example, _, _ = crowd()
    with pytest.raises(ValueError, match=words):
        Problem(X, y, **{"privileged": A, "example": example, **change})


def test_labels_are_judged_by_networks_that_stop_on_labels(monkeypatch):
    """The consensus would take another network for each fold."""
    monkeypatch.delattr("lupi.training.consensus.add_consensus")
    X, y, A, example, _, _ = crowd(examples=20)
    assert diagnose(Problem(X, y, A, example=example, folds=2, parameters=TINY))["labels"].table is not None
