import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from lupi.datasets import annotate, relabel
from lupi.datasets.relabelling import MALICIOUS

seeds = st.integers(0, 2**32 - 1)


def random_distributions(rng, models, examples, classes):
    """Distributions, some of whose classes have probability zero."""
    scores = rng.exponential(size=(models, examples, classes)) * (rng.random((models, examples, classes)) < 0.7)
    scores[..., 0] += 1e-3
    return scores / scores.sum(axis=-1, keepdims=True)


def annotator_numbers(privileged):
    return privileged["annotator"].cat.codes.to_numpy()


@given(
    models=st.integers(1, 4),
    examples=st.integers(1, 6),
    classes=st.integers(1, 5),
    annotations=st.integers(1, 4),
    malicious=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=seeds,
)
def test_every_annotation_is_one_its_annotator_could_have_given(
    models, examples, classes, annotations, malicious, seed
):
    probabilities = random_distributions(np.random.default_rng(seed), models, examples, classes)
    row, label, privileged = relabel(probabilities, annotations=annotations, malicious=malicious, random_state=seed)

    np.testing.assert_array_equal(row, np.arange(examples * annotations) // annotations)
    assert len(label) == len(privileged) == examples * annotations
    assert list(privileged) == ["annotator", "probability"]
    assert np.all((label >= 0) & (label < classes))
    everyone = np.concatenate([probabilities, np.full((1, examples, classes), 1 / classes)])
    # Exactly, not nearly: it is the very number the annotator gave.
    np.testing.assert_array_equal(privileged["probability"], everyone[annotator_numbers(privileged), row, label])
    assert np.all(privileged["probability"] > 0)
    if malicious in (0, 1):
        assert ((privileged["annotator"] == MALICIOUS) == bool(malicious)).all()


@given(seed=seeds)
def test_the_seed_decides(seed):
    probabilities = random_distributions(np.random.default_rng(0), 3, 50, 10)
    first, second = (relabel(probabilities, random_state=seed) for _ in range(2))
    np.testing.assert_array_equal(first.label, second.label)
    pd.testing.assert_frame_equal(first.privileged, second.privileged)
    assert not first.privileged.equals(relabel(probabilities, random_state=seed + 1).privileged)


def test_a_generator_goes_on_where_it_stopped():
    probabilities = random_distributions(np.random.default_rng(0), 3, 50, 10)
    rng = np.random.default_rng(5)
    first, second = (relabel(probabilities, random_state=rng) for _ in range(2))
    np.testing.assert_array_equal(first.label, relabel(probabilities, random_state=5).label)
    assert not np.array_equal(first.label, second.label)


@pytest.mark.parametrize("malicious", [0.1, 0.4])
def test_annotators_are_drawn_as_specified(malicious):
    models, annotations = 16, 100_000
    _, _, privileged = relabel(np.full((models, 1, 5), 0.2), annotations=annotations, malicious=malicious)
    counts = np.bincount(annotator_numbers(privileged), minlength=models + 1)
    expected = np.append(np.full(models, (1 - malicious) / models), malicious) * annotations
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_annotators_are_drawn_anew_for_every_annotation():
    _, _, privileged = relabel(np.full((5, 20_000, 2), 0.5), annotations=2, malicious=0)
    who = annotator_numbers(privileged)
    for distance in (1, 2, 5):
        same = who[distance:] == who[:-distance]
        assert stats.binomtest(int(same.sum()), len(same), 1 / 5).pvalue > 1e-3


def test_labels_follow_the_distribution_of_their_annotator_and_example():
    probabilities = np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [[0.05, 0.9, 0.05], [0.6, 0.39, 0.01]]])
    row, label, privileged = relabel(probabilities, annotations=50_000, malicious=0.3)
    everyone = np.concatenate([probabilities, np.full((1, 2, 3), 1 / 3)])
    who = annotator_numbers(privileged)
    for annotator in range(3):
        for example in range(2):
            counts = np.bincount(label[(who == annotator) & (row == example)], minlength=3)
            expected = everyone[annotator, example] * counts.sum()
            assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_several_annotations_of_an_example_are_independent():
    # A model that answers uniformly: two answers agree in one of four cases, of one example or of neighbours.
    examples = 20_000
    _, label, _ = relabel(np.full((1, examples, 4), 0.25), annotations=2, malicious=0)
    first, second = label.reshape(examples, 2).T
    for agree in (first == second, first[1:] == second[:-1]):
        assert stats.binomtest(int(agree.sum()), len(agree), 0.25).pvalue > 1e-3


def test_agreement_with_the_truth_is_what_the_procedure_implies():
    """E[label is right] = (1 − malicious) · mean over models of p(true class) + malicious / classes."""
    rng = np.random.default_rng(1)
    models, examples, classes = 8, 20_000, 10
    probabilities = random_distributions(rng, models, examples, classes)
    truth = rng.integers(classes, size=examples)
    _, label, _ = relabel(probabilities, malicious=0.1)
    expected = 0.9 * probabilities[:, np.arange(examples), truth].mean() + 0.1 / classes
    assert stats.binomtest(int((label == truth).sum()), examples, expected).pvalue > 1e-3


def test_annotator_explains_the_label_beyond_the_example():
    """I(y; a | x) counted from the draws is the one the distributions have: H(mean) − mean of H."""
    probabilities = np.array([[[0.9, 0.1]], [[0.2, 0.8]], [[0.6, 0.4]]])
    malicious, annotations = 0.25, 200_000
    _, label, privileged = relabel(probabilities, annotations=annotations, malicious=malicious)

    weights = np.append(np.full(3, (1 - malicious) / 3), malicious)
    rows = np.concatenate([probabilities[:, 0], [[0.5, 0.5]]])
    exact = stats.entropy(weights @ rows) - weights @ stats.entropy(rows, axis=1)

    joint = pd.crosstab(privileged["annotator"], label).to_numpy() / annotations
    independent = joint.sum(1, keepdims=True) @ joint.sum(0, keepdims=True)
    drawn = (joint * np.log(joint / independent)).sum()
    assert exact > 0.1
    assert drawn == pytest.approx(exact, abs=0.005)


def test_names():
    probabilities = np.full((2, 30, 2), 0.5)
    annotators = relabel(probabilities, names=["ann", "bob"]).privileged["annotator"]
    assert list(annotators.cat.categories) == ["ann", "bob", MALICIOUS]
    annotators = relabel(probabilities, malicious=0).privileged["annotator"]
    assert list(annotators.cat.categories) == ["model-0", "model-1"]


@pytest.mark.parametrize("size", [1, 7, 30, 10_000])
def test_blocks_change_nothing(monkeypatch, size):
    probabilities = random_distributions(np.random.default_rng(2), 3, 40, 5)
    whole = relabel(probabilities, annotations=3)
    monkeypatch.setattr(sys.modules["lupi.datasets.relabelling"], "_BLOCK", size)
    blocks = relabel(probabilities, annotations=3)
    np.testing.assert_array_equal(whole.label, blocks.label)
    pd.testing.assert_frame_equal(whole.privileged, blocks.privileged)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_memory_mapped_and_short_floats(tmp_path, dtype):
    probabilities = random_distributions(np.random.default_rng(3), 2, 200, 50).astype(dtype)
    np.save(tmp_path / "probabilities.npy", probabilities)
    mapped = np.load(tmp_path / "probabilities.npy", mmap_mode="r")
    row, label, privileged = relabel(list(mapped), malicious=0)
    assert privileged["probability"].dtype == np.float64
    expected = probabilities[annotator_numbers(privileged), row, label]
    np.testing.assert_array_equal(privileged["probability"], expected.astype(np.float64))


def test_extreme_quantiles_give_classes_that_are_possible():
    at_quantile = sys.modules["lupi.datasets.relabelling"]._at_quantile
    distributions = random_distributions(np.random.default_rng(4), 1, 5_000, 30)[0]
    distributions[:, [0, -1]] = 0
    distributions[:, 1] += 1e-3
    distributions /= distributions.sum(axis=1, keepdims=True)
    distributions = np.vstack([distributions, distributions * 1.0005, distributions * 0.9995])
    label = at_quantile(distributions, np.full(len(distributions), np.nextafter(1, 0)))
    last = 29 - np.argmax(distributions[:, ::-1] > 0, axis=1)
    np.testing.assert_array_equal(label, last)
    first = np.argmax(distributions > 0, axis=1)
    np.testing.assert_array_equal(at_quantile(distributions, np.zeros(len(distributions))), first)


GOOD = np.full((2, 4, 5), 0.2)


def changed(value):
    bad = GOOD.copy()
    bad[1, 2, 3] = value
    return bad


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probabilities": GOOD[0]}, r"probabilities.*\(5,\)"),
        (
            {"probabilities": GOOD[None]},
            r"probabilities.*\(2, 4, 5\)",
        ),
        ({"probabilities": [GOOD[0], GOOD[1, :3]]}, r"probabilities.*\[\(3, 5\), \(4, 5\)\]"),
        ({"probabilities": []}, r"probabilities.*\[\]"),
        ({"probabilities": GOOD[:, :0]}, r"probabilities.*\(0, 5\)"),
        (
            {"probabilities": GOOD[..., :0]},
            r"probabilities.*\(4, 0\)",
        ),
        ({"probabilities": changed(0.5)}, "probabilities.*sum of 1.3 for model 1, example 2"),
        ({"probabilities": changed(np.nan)}, "probabilities.*sum of nan for model 1, example 2"),
        ({"probabilities": changed(np.inf)}, "probabilities.*sum of inf for model 1, example 2"),
        ({"probabilities": [[[1.5, -0.5]]]}, "probabilities.*minimum of -0.5.*model 0, example 0"),
        ({"annotations": 0}, "annotations.*0"),
        ({"malicious": 1.1}, "malicious.*1.1"),
        ({"malicious": float("nan")}, "malicious.*nan"),
        ({"names": ["ann"]}, r"names.*2.*\['ann'\]"),
        ({"names": ["ann", "ann"]}, "names.*2"),
        ({"names": ["ann", "bob", "bob"]}, "names.*2"),
        ({"names": ["ann", MALICIOUS]}, "names.*malicious"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        relabel(**{"probabilities": GOOD, **arguments})


def test_a_bad_row_is_named_whatever_the_blocks(monkeypatch):
    monkeypatch.setattr(sys.modules["lupi.datasets.relabelling"], "_BLOCK", 10)  # two rows
    with pytest.raises(ValueError, match="for model 1, example 2"):
        relabel(changed(0.5))


def test_annotate_is_relabel_with_predictions():
    X, y = load_iris(return_X_y=True)
    models = [GaussianNB().fit(X, y), LogisticRegression(C=0.01, max_iter=1000).fit(X, y)]
    expected = relabel([model.predict_proba(X) for model in models], annotations=2, names=["a", "b"], random_state=7)
    got = annotate(models, X, annotations=2, names=["a", "b"], random_state=7)
    np.testing.assert_array_equal(got.row, expected.row)
    np.testing.assert_array_equal(got.label, expected.label)
    pd.testing.assert_frame_equal(got.privileged, expected.privileged)


def test_annotate_joins_models_that_know_different_classes():
    X, y = load_iris(return_X_y=True)
    flower = np.array(["setosa", "versicolor", "virginica"])[y]
    models = [GaussianNB().fit(X[flower != out], flower[flower != out]) for out in ("setosa", "virginica")]
    row, label, privileged = annotate(models, X, annotations=3)
    who = privileged["annotator"].to_numpy()
    known = [{"versicolor", "virginica"}, {"setosa", "versicolor"}]
    for model, name, labels in zip(models, ["model-0", "model-1"], known, strict=True):
        own = who == name
        assert set(label[own]) == labels
        column = np.searchsorted(model.classes_, label[own])
        expected = model.predict_proba(X)[row[own], column]
        np.testing.assert_array_equal(privileged["probability"][own], expected)
    assert set(label[who == MALICIOUS]) == set(flower)


def test_annotate_takes_data_frames():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = GaussianNB().fit(X, y)
    from_frame = annotate([model], X, malicious=0)
    from_array = relabel([model.predict_proba(X)], malicious=0)
    np.testing.assert_array_equal(from_frame.label, from_array.label)


def test_annotate_needs_a_model():
    with pytest.raises(ValueError, match="models"):
        annotate([], np.zeros((3, 2)))
