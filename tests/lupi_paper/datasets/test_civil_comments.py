import csv
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.tabular import TableEncoder
from lupi_paper.datasets import load_civil_comments
from lupi_paper.datasets.civil_comments import IDENTITIES, LABELS

module = sys.modules["lupi_paper.datasets.civil_comments"]
TEXTS = ["No, not that.", 'He said "no".', "Two\nlines, and\n\nmore", "", "naïve — 你好", "NA", "null", "1.5"]


def published(rows=200, toxicity="target", seed=0):
    """A table with the published columns and others; about a quarter of the rows has identities."""
    rng = np.random.default_rng(seed)
    labels = [toxicity, *LABELS[1:]]
    table = pd.DataFrame(rng.integers(11, size=(rows, 7)) / 10, columns=labels)
    table.insert(0, "id", np.arange(rows) + 59848)
    table.insert(2, "comment_text", rng.choice(TEXTS, rows))
    identities = pd.DataFrame(rng.integers(5, size=(rows, 24)) / 4, columns=IDENTITIES)
    identities[rng.random(rows) > 0.25] = np.nan
    table = table.join(identities[IDENTITIES[::-1]])
    return table.assign(created_date="2015-09-29 10:50:41.987077+00", rating="rejected", toxicity_annotator_count=4)


def write(path, table):
    table.to_csv(path, index=False)
    return path


def check(got, table, toxicity="target"):
    kept = table[table["male"].notna()]
    assert 0 < len(kept) < len(table)
    assert list(got.X) == list(kept["comment_text"])
    assert got.labels == tuple(LABELS)
    np.testing.assert_array_equal(got.y, kept[[toxicity, *LABELS[1:]]] >= 0.5)
    assert list(got.privileged.columns) == IDENTITIES
    np.testing.assert_allclose(got.privileged, kept[IDENTITIES])


def test_the_numbers_are_the_papers():
    assert len(set(LABELS)) == 7
    assert len(set(IDENTITIES)) == 24


@pytest.mark.parametrize("toxicity", ["target", "toxicity"])
def test_comments_with_identities(tmp_path, toxicity):
    table = published(toxicity=toxicity)
    check(load_civil_comments(str(write(tmp_path / "train.csv", table))), table, toxicity)


@pytest.mark.parametrize("block", [2**11, 2**13])
def test_blocks_change_nothing(tmp_path, monkeypatch, block):
    table = published()
    table["comment_text"] += "\nand so on" * 30  # most blocks end inside a comment
    monkeypatch.setattr(module, "_BLOCK", block)
    check(load_civil_comments(write(tmp_path / "train.csv", table)), table)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=20)


@given(comments=st.lists(texts, min_size=1, max_size=4))
def test_any_text(comments, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "comments.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["comment_text", "target", *LABELS[1:], *IDENTITIES])
        writer.writerows([text, *[0.0] * 7, *[1.0] * 24] for text in comments)
    assert list(load_civil_comments(path).X) == comments


def test_a_row_with_a_missing_identity_is_left_out(tmp_path):
    table = published(8)
    table[IDENTITIES] = 0.5
    table.loc[3, "other_disability"] = np.nan
    got = load_civil_comments(write(tmp_path / "train.csv", table))
    assert list(got.X) == list(table["comment_text"].drop(3))


def test_a_missing_label_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"train\.csv.*'insult'"):
        load_civil_comments(write(tmp_path / "train.csv", published().assign(insult=np.nan)))


def test_threshold(tmp_path):
    table = published()
    got = load_civil_comments(write(tmp_path / "train.csv", table), threshold=0.8)
    np.testing.assert_array_equal(got.y[:, 0], table[table["male"].notna()]["target"] >= 0.8)


def test_no_comment_with_identities(tmp_path):
    table = published()
    table[IDENTITIES] = np.nan
    got = load_civil_comments(write(tmp_path / "train.csv", table))
    assert got.y.shape == (0, 7)
    assert got.privileged.shape == (0, 24)


def test_ready_for_the_encoder(tmp_path):
    privileged = load_civil_comments(write(tmp_path / "train.csv", published())).privileged
    encoder = TableEncoder(dict.fromkeys(privileged, "standardized"), privileged=True).fit(privileged)
    assert encoder.transform(privileged).shape == privileged.shape


def test_missing_files_say_what_to_download(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path.*train\.csv.*download it from https://www\.kaggle\.com"):
        load_civil_comments(tmp_path / "train.csv")


def test_other_tables(tmp_path):
    path = tmp_path / "train.csv"
    write(path, published().drop(columns="hindu"))
    with pytest.raises(ValueError, match=r"train\.csv.*hindu"):
        load_civil_comments(path)
    write(path, published().assign(insult="much"))
    with pytest.raises(ValueError, match=r"Expected .*train\.csv to .*much"):
        load_civil_comments(path)
