import numpy as np
import pandas as pd
import pytest

from lupi.crowd import aggregate
from lupi.crowd.agreement import krippendorff_alpha


@pytest.fixture(scope="module")
def table(simulate):
    _, label, example, annotator, _, _ = simulate(3, examples=80, people=6)
    names = np.array(["bad", "fair", "good"])
    return pd.DataFrame({"song": example + 100, "worker": [f"w{a}" for a in annotator], "genre": names[label]})


@pytest.fixture(scope="module")
def found(table):
    return aggregate(table, example="song", annotator="worker", label="genre")


def test_tables_have_a_row_per_example_annotator_and_label(found, table):
    assert found.consensus["example"].tolist() == sorted(table["song"].unique())
    assert sorted(found.annotators["annotator"]) == sorted(table["worker"].unique())
    assert found.labels["label"].tolist() == table["genre"].tolist()
    assert found.labels.index.equals(table.index)
    assert found.classes.tolist() == ["bad", "fair", "good"]
    assert found.annotators["reliability"].is_monotonic_increasing


def test_consensus_counts_labels_and_agreement(found, table):
    joined = table.merge(found.consensus, left_on="song", right_on="example")
    expected = joined.assign(same=joined["genre"] == joined["label"]).groupby("song")["same"].agg(["mean", "size"])
    np.testing.assert_allclose(found.consensus["agreement"], expected["mean"])
    np.testing.assert_array_equal(found.consensus["labels"], expected["size"])


def test_probability_that_a_label_is_right_is_the_consensus_probability_of_labels_that_agree(found):
    joined = found.labels.merge(found.consensus, on="example")
    same = joined["label_x"] == joined["label_y"]
    np.testing.assert_allclose(joined.loc[same, "right"], joined.loc[same, "probability"])
    assert (joined.loc[~same, "right"] <= joined.loc[~same, "probability"]).all()


def test_confusion_matrix_of_an_annotator(found):
    matrix = found.confusion("w0")
    np.testing.assert_allclose(matrix.to_numpy().sum(1), 1, atol=0.02)
    counts = found.confusions.groupby("annotator")["count"].sum()
    np.testing.assert_allclose(counts[found.annotators["annotator"]], found.annotators["labels"], atol=0.2)
    with pytest.raises(ValueError, match="Expected `annotator` to be an id of the table, but got 'nobody'"):
        found.confusion("nobody")


def test_order_of_rows_does_not_matter(found, table):
    mixed = table.sample(frac=1, random_state=0)
    other = aggregate(mixed, example="song", annotator="worker", label="genre")
    pd.testing.assert_series_equal(other.labels["right"].sort_index(), found.labels["right"], rtol=1e-2, atol=1e-3)


def test_wide_and_long_tables_agree():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=60)
    wide = np.where(rng.random((60, 5)) < 0.7, truth[:, None], rng.integers(3, size=(60, 5))).astype(float)
    wide[rng.random(wide.shape) < 0.3] = np.nan
    example, annotator = np.nonzero(~np.isnan(wide))
    long = pd.DataFrame({"example": example, "annotator": annotator, "label": wide[example, annotator]})
    one, other = aggregate(wide), aggregate(long)
    np.testing.assert_allclose(one.consensus["probability"], other.consensus["probability"])
    assert one.consensus["label"].tolist() == other.consensus["label"].tolist()
    assert one.classes.tolist() == other.classes.tolist() == [0, 1, 2]
    assert one.notes == (f"{np.isnan(wide).sum()} of 300 cells have no label.",)


def test_missing_labels_are_dropped_and_missing_annotators_are_one():
    table = pd.DataFrame({"example": [1, 1, 2, 2, 3], "annotator": ["a", None, "a", None, "a"]})
    found = aggregate(table.assign(label=["x", "x", "y", "y", None]))
    assert found.notes == ("1 of 5 rows have no label.",)
    assert (len(found.consensus), len(found.annotators)) == (2, 2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"example": [1, 1], "annotator": [1, 2], "label": ["x", "x"]},
            "at least two classes of labels, but all .* 'x'",
        ),
        ({"example": [1, None], "annotator": [1, 2], "label": ["x", "y"]}, "an id in every row, but row 1 has none"),
        ({"annotator": [1, 2], "label": ["x", "y"]}, "Expected `example` to name a column"),
        (
            {"example": [1, 1], "annotator": [1, 2], "label": [1, 0.25]},
            "labels to be names or integers, but got 0.25, a real number",
        ),
        ({"example": [1, 1], "annotator": [1, 2], "label": [None, None]}, "to have labels, but it has none"),
    ],
)
def test_tables_that_cannot_be_aggregated(table, message):
    with pytest.raises(ValueError, match=message):
        aggregate(pd.DataFrame(table))


def test_notebooks_show_escaped_tables(table):
    html = aggregate(
        table.replace({"worker": {"w0": "<script>"}}), example="song", annotator="worker", label="genre"
    )._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "320 labels of 80 examples by 6 annotators, 3 classes" in html


def test_alpha_of_the_table(found, table):
    assert found.alpha == krippendorff_alpha(table["genre"], table["song"])


def make_liars():
    """Ann knows the truth; the three others mostly lie."""
    truth, lies = np.array(["yes", "no"] * 20), np.array(["no", "yes"] * 20)
    lied = np.random.default_rng(0).random((40, 3)) < 0.8
    wide = pd.DataFrame(np.where(lied, lies[:, None], truth[:, None]), columns=["bob", "cem", "dan"])
    return wide.assign(ann=truth), truth


def test_true_labels_and_trust_anchor_the_consensus():
    wide, truth = make_liars()
    gold = np.where(np.arange(40) < 8, truth, None)
    long = wide.rename_axis("example").reset_index().melt("example", var_name="annotator", value_name="label")
    long["known"] = gold[long["example"]]
    share = {
        "labels alone": aggregate(wide),
        "dict": aggregate(wide, gold=dict(enumerate(gold))),
        "wide column": aggregate(wide.assign(known=gold), gold="known"),
        "long column": aggregate(long, gold="known"),
        "trust": aggregate(wide, trust={"ann": 0.99}),
    }
    right = {name: (found.consensus["label"] == truth).mean() for name, found in share.items()}
    assert right.pop("labels alone") < 0.5
    assert min(right.values()) > 0.9
    assert share["dict"].notes == ("The true labels of 8 of 40 examples are known.",)
    assert share["dict"].consensus["probability"].head(8).tolist() == [1.0] * 8
    assert sorted(share["wide column"].annotators["annotator"]) == ["ann", "bob", "cem", "dan"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gold": {0: "maybe"}}, "`gold` to have labels of the table, but got 'maybe' of example 0"),
        ({"gold": "truth"}, "`gold` to name a column of the table, but got 'truth'"),
        ({"gold": pd.Series(["yes", "no"], index=[3, 3])}, "one true label per example, but example 3 has several"),
        ({"trust": {"anna": 0.9}}, "`trust` to name annotators, but got 'anna': did you mean 'ann'?"),
    ],
)
def test_wrong_true_labels_and_trust_are_explained(arguments, message):
    with pytest.raises(ValueError, match=message):
        aggregate(make_liars()[0], **arguments)
