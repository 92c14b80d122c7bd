import zipfile

import pytest

from lupi.importers import read_export
from tests.importers.exports import write_json, write_lines

ROW = {"id": 7, "text": "good", "label": ["a"], "Comments": ["not sure"], "source": "web"}


def test_each_file_is_an_annotator(tmp_path):
    write_lines(tmp_path / "ann.jsonl", [ROW])
    write_lines(tmp_path / "bob.jsonl", [ROW | {"label": ["b"], "Comments": []}])
    table = read_export("doccano", tmp_path)
    assert table.frame.fillna("").to_dict("records") == [
        {"example": "7", "text": "good", "source": "web", "label": "a", "annotator": "ann", "comment": "not sure"},
        {"example": "7", "text": "good", "source": "web", "label": "b", "annotator": "bob", "comment": ""},
    ]
    assert table.privileged == ("annotator", "comment")


def test_shared_labels_have_no_annotator(tmp_path):
    table = read_export("doccano", write_lines(tmp_path / "all.jsonl", [ROW | {"Comments": []}]))
    assert table.privileged == ()
    assert table.notes == ["The export does not say who gave a label, since its annotators share their labels."]


def test_csv_joins_labels(tmp_path):
    (tmp_path / "ann.csv").write_text("id,text,label\n7,good,a\n8,bad,a#b\n9,none,\n")
    table = read_export("doccano", tmp_path / "ann.csv")
    assert table.frame[["label_a", "label_b"]].to_numpy().tolist() == [[1, 0], [1, 1]]
    assert table.notes == ["1 empty labels are left out."]


def test_annotations_with_users(tmp_path):
    """As doccano 1.0 wrote them."""
    annotations = [{"label": 3, "user": 1, "created_at": "2020-05-01T10:00:00Z"}, {"label": 4, "user": 2}]
    record = {"id": 7, "text": "good", "annotations": annotations, "meta": {"source": "web"}}
    table = read_export("doccano", write_json(tmp_path / "e.json", [record]))
    assert table.frame[["source", "label", "annotator"]].to_numpy().tolist() == [["web", 3, "1"], ["web", 4, "2"]]


def test_spans_are_no_labels(tmp_path):
    path = write_lines(tmp_path / "ann.jsonl", [ROW | {"label": [[0, 4, "X"]]}])
    with pytest.raises(ValueError, match=r"labels of whole examples, but got \[0, 4, 'X'\]"):
        read_export("doccano", path)


def test_another_field_of_labels(tmp_path):
    row = {"id": 7, "text": "good", "mood": ["a"]}
    path = write_lines(tmp_path / "ann.jsonl", [row])
    with pytest.raises(ValueError, match="to have labels, but it has none"):
        read_export("doccano", path)
    assert read_export("doccano", path, label="mood").frame["label"].tolist() == ["a"]


def test_texts_are_no_labels(tmp_path):
    texts = ["Das ist ein Film.", "Das war ein Buch.", "Wer wei\u00df das schon?"]
    rows = [{"id": i, "text": "It is.", "label": [text]} for i, text in enumerate(texts)]
    with pytest.raises(ValueError, match="free text such as 'Das ist ein Film"):
        read_export("doccano", write_lines(tmp_path / "ann.jsonl", rows))


def test_examples_without_ids_are_those_with_equal_inputs(tmp_path):
    rows = [{"text": text, "label": ["a"]} for text in ("good", "bad")]
    write_lines(tmp_path / "ann.jsonl", rows)
    write_lines(tmp_path / "bob.jsonl", rows[::-1])
    table = read_export("doccano", tmp_path)
    assert table.frame.groupby("text")["example"].nunique().tolist() == [1, 1]
    assert table.frame["example"].nunique() == 2


def test_a_zip_file_that_unpacks_to_far_more(tmp_path):
    with zipfile.ZipFile(tmp_path / "e.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("ann.jsonl", b" " * 2**25)
    with pytest.raises(ValueError, match="would unpack to 33,554,432 bytes"):
        read_export("doccano", tmp_path / "e.zip")
