"""Readers of published crowd sets, on tiny files in the authors' formats."""

import pandas as pd
import pytest

from lupi.datasets import load_crowd

MTURK = "id,annotator,f1,f2,class\nblues.1.au,A1,0.5,2,rock\nblues.1.au,A2,0.5,2,blues\njazz.2.au,A1,1.5,3,jazz\n"
GOLD = "id,f1,f2,class\nblues.1.au,0.5,2,blues\njazz.2.au,1.5,3,jazz\n"
TEST = "id,f1,f2,class\npop.9.au,0.1,4,pop\n"


def write_music(folder):
    for part, text in (("mturk", MTURK), ("gold", GOLD), ("test", TEST)):
        (folder / f"music_genre_{part}.csv").write_text(text)


def write_labelme(folder):
    (folder / "answers.txt").write_text("-1 3 -1 1\n1 -1 -1 -1\n")
    (folder / "labels_train.txt").write_text("3\n1\n")
    (folder / "labels_train_names.txt").write_text("street\ninsidecity\n")
    (folder / "filenames_train.txt").write_text("street_1.jpg\ninsidecity_2.jpg\n")
    (folder / "labels_test_names.txt").write_text("coast\n")
    (folder / "filenames_test.txt").write_text("coast_3.jpg\n")


def test_music_genre_has_a_row_per_label_with_the_truth(tmp_path):
    write_music(tmp_path)
    labels, test = load_crowd("music-genre", tmp_path)
    assert labels.columns.tolist() == ["song", "annotator", "f1", "f2", "label", "gold"]
    assert labels["gold"].tolist() == ["blues", "blues", "jazz"]
    assert labels["label"].tolist() == ["rock", "blues", "jazz"]
    assert test.to_dict("records") == [{"song": "pop.9.au", "f1": 0.1, "f2": 4, "label": "pop"}]


def test_labelme_joins_its_files_by_their_lines(tmp_path):
    write_labelme(tmp_path)
    labels, test = load_crowd("labelme", tmp_path)
    assert labels["annotator"].tolist() == ["w01", "w03", "w00"]
    assert labels["label"].tolist() == ["street", "insidecity", "insidecity"]
    assert labels["gold"].tolist() == ["street", "street", "insidecity"]
    assert labels["image"].tolist()[1:] == [
        str(tmp_path / "train" / "street" / "street_1.jpg"),
        str(tmp_path / "train" / "insidecity" / "insidecity_2.jpg"),
    ]
    assert test["label"].tolist() == ["coast"]


def test_files_of_unequal_length_are_refused(tmp_path):
    write_labelme(tmp_path)
    (tmp_path / "labels_train.txt").write_text("3\n")
    with pytest.raises(ValueError, match="to be as long, but got 2, 1 and 2"):
        load_crowd("labelme", tmp_path)


def test_a_missing_file_or_column_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the file mturk_answers.csv, but .* has not: unpack"):
        load_crowd("sentiment-polarity", tmp_path)
    write_music(tmp_path)
    pd.read_csv(tmp_path / "music_genre_mturk.csv").drop(columns="annotator").to_csv(
        tmp_path / "music_genre_mturk.csv", index=False
    )
    with pytest.raises(ValueError, match="to have the column 'annotator', but got id, f1, f2, class"):
        load_crowd("music-genre", tmp_path)
    with pytest.raises(ValueError, match="`name` to be one of music-genre, sentiment-polarity, labelme, but got 'x'"):
        load_crowd("x", tmp_path)
