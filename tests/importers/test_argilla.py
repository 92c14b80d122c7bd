import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lupi.importers import read_export
from tests.importers.exports import write_json

NESTED = {
    "id": "r1",
    "fields": {"text": "good"},
    "metadata": {"source": "web"},
    "suggestions": {"mood": {"value": "a", "score": 0.75, "agent": "v1"}},
    "responses": {"mood": [{"value": "a", "user_id": "u1"}, {"value": "b", "user_id": "u2"}]},
    "vectors": {},
    "_server_id": "s1",
}
FLAT = {
    "id": "r1",
    "_server_id": "s1",
    "status": "completed",
    "text": "good",
    "source": "web",
    "mood.responses": ["a", "b"],
    "mood.responses.users": ["u1", "u2"],
    "mood.responses.status": ["submitted", "submitted"],
    "mood.suggestion": "a",
    "mood.suggestion.score": 0.75,
    "mood.suggestion.agent": "v1",
}
OLD = {
    "external_id": "r1",
    "text": "good",
    "metadata": '{"source": "web"}',
    "mood": [
        {"user_id": "u1", "value": "a", "status": "submitted"},
        {"user_id": "u2", "value": "b", "status": "submitted"},
    ],
    "mood-suggestion": "a",
    "mood-suggestion-metadata": {"type": "model", "score": 0.75, "agent": "v1"},
}
COLUMNS = OLD | {"mood": {"user_id": ["u1", "u2"], "value": ["a", "b"], "status": ["submitted", "submitted"]}}


def read(tmp_path, records, **options):
    return read_export("argilla", write_json(tmp_path / "e.json", records), **options)


@pytest.mark.parametrize("record", [NESTED, FLAT, OLD, COLUMNS])
def test_all_forms_of_a_record_are_the_same_rows(record, tmp_path):
    table = read(tmp_path, [record])
    shared = {"example": "r1", "text": "good", "source": "web"}
    predicted = {"prediction": "a", "prediction_score": 0.75, "prediction_version": "v1"}
    assert table.frame.to_dict("records") == [
        {**shared, "label": "a", "annotator": "u1", **predicted},
        {**shared, "label": "b", "annotator": "u2", **predicted},
    ]
    assert table.privileged == ("annotator", *predicted)


def test_a_folder_and_a_parquet_file(tmp_path):
    write_json(tmp_path / "records.json", [NESTED])
    pq.write_table(pa.Table.from_pylist([FLAT]), tmp_path / "e.parquet")
    folder, file = (read_export("argilla", path).frame for path in (tmp_path, tmp_path / "e.parquet"))
    pd.testing.assert_frame_equal(folder, file)


def test_responses_that_were_not_submitted_are_left_out(tmp_path):
    table = read(tmp_path, [FLAT | {"mood.responses.status": ["discarded", "submitted"]}])
    assert table.frame["label"].tolist() == ["b"]
    assert table.notes == ["1 discarded labels are left out."]


def test_several_questions(tmp_path):
    record = NESTED | {"responses": {**NESTED["responses"], "rating": [{"value": 4, "user_id": "u1"}]}}
    with pytest.raises(ValueError, match="`label` to name one of the questions 'mood', 'rating'"):
        read(tmp_path, [record])
    assert read(tmp_path, [record], label="rating").frame["label"].tolist() == [4]


def test_several_labels_and_their_scores(tmp_path):
    responses = {"tags": [{"value": ["a", "b"], "user_id": "u1"}, {"value": ["b"], "user_id": "u2"}]}
    suggestions = {"tags": {"value": ["a", "b"], "score": [0.5, 1.0], "agent": "v1"}}
    table = read(tmp_path, [NESTED | {"responses": responses, "suggestions": suggestions}])
    assert table.target == ("label_a", "label_b")
    assert table.frame["prediction"].tolist() == ["a; b", "a; b"]
    assert table.frame["prediction_score"].tolist() == [0.75, 0.75]


def test_spans_are_no_labels(tmp_path):
    responses = {"spans": [{"value": [{"start": 0, "end": 2, "label": "X"}], "user_id": "u1"}]}
    with pytest.raises(ValueError, match="labels of whole examples, but got"):
        read(tmp_path, [NESTED | {"responses": responses}])
