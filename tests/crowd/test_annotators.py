import numpy as np
import pandas as pd
import pytest

from lupi.crowd import infer, majority_vote, summarize_annotators
from lupi.crowd.annotators import approximate_reliability


def tabulate(found):
    return pd.DataFrame(summarize_annotators(found))


def test_perfect_annotators_are_found_to_be_perfect(simulate):
    p, _, example, annotator, truth, _ = simulate(3)
    found = infer(p, truth[example], example=example, annotator=annotator)
    assert found.wrong.max() < 0.01
    table = tabulate(found)
    assert table["reliability"].min() > 0.97
    assert not table["flagged"].any()


def test_liars_are_flagged_and_the_truth_is_found_in_spite_of_them(simulate):
    p, label, example, annotator, truth, _ = simulate(4, classes=4, a=20, b=3)
    liar = annotator < 3
    label = np.where(liar, (truth[example] + 1) % 4, label)
    found = infer(p, label, example=example, annotator=annotator)
    table = tabulate(found).set_index("annotator")
    assert table["reliability"].nsmallest(3).index.isin([0, 1, 2]).all()
    assert table.loc[[0, 1, 2], "flagged"].all()
    assert (table.loc[[0, 1, 2], "high"] < 0.2).all()
    assert (found.truth.argmax(1) == truth).mean() > (majority_vote(found.votes) == truth).mean() + 0.05


# Labels are independent, so 1 is right, and None has to find out; of one label it makes no difference.
@pytest.mark.parametrize(("per_example", "exponent"), [(1, None), (4, 1.0), (4, None)])
def test_interval_covers_the_accuracy_as_often_as_it_says(simulate, per_example, exponent):
    covered, widths = [], []
    for seed in range(100, 112):
        p, label, example, annotator, _, theta = simulate(
            seed, examples=800 // per_example, people=20, per_example=per_example
        )
        found = infer(p, label, example=example, annotator=annotator, exponent=exponent)
        _, low, high = approximate_reliability(found)
        covered.append((low <= theta[found.names]) & (theta[found.names] <= high))
        widths.append(high - low)
    # 240 intervals, those of a seed not independent.
    assert 0.88 <= np.mean(covered) <= 0.99
    assert np.mean(widths) < 0.45


def test_few_labels_leave_an_annotator_near_the_others(simulate):
    p, label, example, annotator, truth, _ = simulate(6, people=6, a=40, b=10)
    wrong = (truth[:2] + 1) % 3
    found = infer(
        np.vstack([p, p[:8:4]]),
        np.append(label, wrong),
        example=np.append(example, [0, 1]),
        annotator=np.append(annotator, [6, 6]),
    )
    mean, low, high = approximate_reliability(found)
    assert 0.3 < mean[6] < np.median(mean[:6])
    assert high[6] - low[6] > 1.2 * (high[:6] - low[:6]).max()


def test_summary_has_plain_facts_of_the_model(simulate):
    p, label, example, annotator, *_ = simulate(10)
    names = np.array([f"person {j}" for j in range(12)])
    found = infer(p, label, example=example, annotator=names[annotator])
    table, consensus = tabulate(found), found.truth.argmax(1)[found.votes.example]
    assert list(table) == [
        "annotator",
        "labels",
        "agreement",
        "reliability",
        "low",
        "high",
        "confidence",
        "support",
        "flagged",
    ]
    expected = pd.DataFrame(
        {"agreement": consensus == label, "confidence": p[range(len(p)), label], "name": names[annotator]}
    ).groupby("name")
    table_by_name = table.set_index("annotator")
    for column in ("agreement", "confidence"):
        pd.testing.assert_series_equal(
            table_by_name[column].sort_index().astype(float), expected[column].mean(), check_names=False
        )
    assert table["labels"].sum() == len(label)
    assert ((table["low"] < table["reliability"]) & (table["reliability"] < table["high"])).all()


def test_support_is_the_probability_by_the_model_and_the_other_labels(simulate):
    p, label, example, annotator, *_ = simulate(10)
    found = infer(p, label, example=example, annotator=annotator, exponent=0.3)
    whole = infer(p, label, example=example, annotator=annotator, exponent=1.0)
    expected = found.votes.mean_by_annotator(whole.others[range(len(label)), label])
    np.testing.assert_allclose(summarize_annotators(found)["support"], expected)


def test_reliability_averages_over_the_features_of_an_annotators_labels():
    rng = np.random.default_rng(0)
    truth, quick = rng.integers(0, 2, 2000), rng.random(2000) < 0.5
    label = np.where(quick & (rng.random(2000) < 0.4), 1 - truth, truth)
    # Both are right in 60 % of quick and in all of slow labels; "fast" gives more quick ones.
    who = np.where(rng.random(2000) < np.where(quick, 0.8, 0.2), "fast", "slow")
    found = infer(np.eye(2)[truth] * 0.98 + 0.01, label, annotator=who, features=quick[:, None])
    mean, *_ = approximate_reliability(found)
    share = [(label == truth)[who == name].mean() for name in found.names]
    assert mean == pytest.approx(share, abs=0.03)
    assert found.weights[0] < -2


def test_a_missing_annotator_is_one_more(simulate):
    p, label, example, annotator, *_ = simulate(11, people=4, per_example=2)
    ids = np.array(["a", "b", "c", None], dtype=object)[annotator]
    table = tabulate(infer(p, label, example=example, annotator=ids))
    assert len(table) == 4
    assert table["annotator"].isna().sum() == 1
