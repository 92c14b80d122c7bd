import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from lupi.crowd.agreement import bootstrap_alpha, krippendorff_alpha
from lupi.diagnose import Problem
from lupi.diagnose.checks.agreement import Agreement, compare_pairs


def votes(rng, examples=60, each=3, people=5):
    """Three classes; each label is the truth with probability 0.7, and one of all classes otherwise."""
    truth = rng.integers(3, size=examples)
    example = np.repeat(np.arange(examples), each)
    person = np.concatenate([rng.permutation(people)[:each] for _ in range(examples)])
    label = np.where(rng.random(len(example)) < 0.7, truth[example], rng.integers(3, size=len(example)))
    return label, example, np.array(list("abcde"))[person]


def test_kappa_is_that_of_scikit_learn():
    label, example, who = votes(np.random.default_rng(0))
    table = compare_pairs(label, example, who)
    assert len(table) == 10
    assert table["kappa"].is_monotonic_increasing
    for row in table.itertuples():
        one, other = ({e: y for e, y, w in zip(example, label, who, strict=True) if w == name} for name in row[1:3])
        both = sorted(one.keys() & other.keys())
        assert row.examples == len(both)
        expected = cohen_kappa_score([one[e] for e in both], [other[e] for e in both])
        assert row.kappa == pytest.approx(expected)
        assert row.low <= row.kappa <= row.high


def test_pairs_that_share_few_examples_are_left_out_and_equal_ones_agree():
    label, example, who = np.tile([0, 1], 10).repeat(2), np.arange(20).repeat(2), np.tile(["a", "b"], 20)
    assert compare_pairs(label[:18], example[:18], who[:18]).empty
    assert compare_pairs(label, example, who)["kappa"].tolist() == [1.0]
    assert compare_pairs(0 * label, example, who)["kappa"].tolist() == [1.0]


def test_intervals_cover_the_agreement_of_the_population():
    """For equally frequent classes, two labels agree with probability 0.49 + 0.51 / 3: α = κ = 0.49."""
    covered, pairs = 0, []
    for seed in range(200):
        label, example, who = votes(np.random.default_rng(seed), examples=100)
        low, high = bootstrap_alpha(label, example, seed=seed)
        assert low < krippendorff_alpha(label, example) < high
        covered += low < 0.49 < high
        table = compare_pairs(label, example, who)
        pairs += ((table["low"] < 0.49) & (table["high"] > 0.49)).tolist()
    assert covered >= 180
    assert np.mean(pairs) > 0.9


def test_grades_and_numbers_have_their_own_alpha():
    """Names of grades are not in the order of the alphabet."""
    label, example, who = votes(np.random.default_rng(0))
    names, privileged = np.array(["poor", "fair", "good"])[label], pd.DataFrame({"who": who})
    given = {"example": example, "annotator": who}
    of_grades = Agreement().run(Problem(example[:, None], names, privileged, grades=["poor", "fair", "good"], **given))
    assert of_grades.numbers["alpha"] == krippendorff_alpha(label, example, "ordinal")
    assert of_grades.table["kappa"].tolist() == compare_pairs(label, example, who)["kappa"].tolist()
    of_numbers = Agreement().run(Problem(example[:, None], label / 7, privileged, real=True, **given))
    assert of_numbers.numbers["alpha"] == pytest.approx(krippendorff_alpha(label, example, "interval"))
    assert of_numbers.table is None
    assert "squared" in of_numbers.section.text
