import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lupi.importers import read_export
from tests.importers.exports import huggingface, write_json

LABEL = {"names": ["no", "yes"], "_type": "ClassLabel"}


def test_a_parquet_file_has_its_features_in_its_schema(tmp_path):
    about = {"info": {"features": {"label": LABEL}}}
    table = pa.table({"text": ["p", "q", "r"], "label": [0, 1, -1]}).replace_schema_metadata(
        {"huggingface": json.dumps(about)}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_export("huggingface", tmp_path / "t.parquet")
    assert found.frame["label"].tolist() == ["no", "yes"]
    assert found.notes == ["1 of 3 rows have no label and are left out."]


def test_lists_of_labels_are_one_row_each(tmp_path):
    columns = {
        "text": ["p", "q"],
        "labels": [[0, 1], [1]],
        "annotators": [["ann", "bob"], ["ann"]],
        "embedding": [[0.5, 1.5, 2.5], [0.5, 1.5, 2.5]],
    }
    about = {"info": {"features": {"labels": {"feature": LABEL, "_type": "Sequence"}}}}
    table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(about)})
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_export("huggingface", tmp_path / "t.parquet")
    assert found.frame.to_dict("list") == {
        "example": ["0", "0", "1"],
        "text": ["p", "p", "q"],
        "label": ["no", "yes", "yes"],
        "annotators": ["ann", "bob", "ann"],
    }
    assert found.privileged == ("annotators",)
    assert found.notes == ["Columns with lists or objects are left out: embedding."]


def test_splits(tmp_path):
    folder = huggingface(tmp_path)
    folder.rename(tmp_path / "train")
    write_json(tmp_path / "dataset_dict.json", {"splits": ["train", "test"]})
    with pytest.raises(ValueError, match="`split` to be one of train, test, but got None"):
        read_export("huggingface", tmp_path)
    assert len(read_export("huggingface", tmp_path, split="train").frame) == 72


def test_names_of_columns(tmp_path):
    pd.DataFrame({"id": [3, 4], "mood": ["a", "b"], "label": [1, 2]}).to_csv(tmp_path / "t.csv", index=False)
    found = read_export("huggingface", tmp_path / "t.csv", label="mood", example="id")
    assert found.frame.to_dict("list") == {"example": ["3", "4"], "label": ["a", "b"], "input_label": [1, 2]}
    pd.DataFrame({"mood": ["a", "b"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"`label` to name a column of .*, which are mood"):
        read_export("huggingface", tmp_path / "t.csv")


def test_repeated_ids_are_examples(tmp_path):
    rows = {"item_id": [3, 3, 4], "text": ["p", "p", "q"], "worker_id": [1, 2, 1], "label": ["a", "b", "b"]}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    found = read_export("huggingface", tmp_path / "t.csv")
    assert found.frame["example"].tolist() == ["3", "3", "4"]
    assert found.privileged == ("worker_id",)
    assert found.notes == ["Examples: item_id, by its name; `example` names another column."]


@pytest.mark.parametrize("tokens", ["tokens", "pieces_of_text"])
def test_tags_of_tokens_are_no_labels(tmp_path, tokens):
    columns = {tokens: [["Ann", "sings"], ["Bob"]], "ner_tags": [[1, 0], [1]], "text": ["Ann sings", "Bob"]}
    names = {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "Sequence"}
    table = pa.table(columns).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": {"ner_tags": names}}})}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"labels of whole examples, but 'ner_tags' of .* labels (the )?tokens"):
        read_export("huggingface", tmp_path / "t.parquet", label="ner_tags")


def test_a_dataset_without_inputs(tmp_path):
    pq.write_table(pa.table({"labels": [[0, 1], [1]], "parts": [["a", "b"], ["c"]]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="to have inputs, but all columns are about labels: example, label, parts"):
        read_export("huggingface", tmp_path / "t.parquet")


@pytest.mark.parametrize("name", ["../secret.arrow", "/etc/passwd", "..", "sub/x.arrow", "link.arrow"])
def test_files_outside_of_the_folder(tmp_path, name):
    folder = huggingface(tmp_path)
    secret = tmp_path / "secret.arrow"
    (folder / "data-00000-of-00001.arrow").rename(secret)
    (folder / "link.arrow").symlink_to(secret)
    write_json(folder / "state.json", {"_data_files": [{"filename": name}], "_split": None})
    with pytest.raises(ValueError, match="to be in this folder, but it names"):
        read_export("huggingface", folder)
