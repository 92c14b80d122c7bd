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
    table = read(tmp_path, [record])
    assert table.frame["label"].tolist() == ["a", "b"]
    assert table.frame["rating"].fillna(-1).tolist() == [4, -1]
    assert table.privileged[-1] == "rating"
    assert table.notes == ["Labels: mood, the first of the questions; `label` can name rating."]
    table = read(tmp_path, [record], label="rating")
    assert table.frame[["label", "mood"]].to_numpy().tolist() == [[4, "a"]]
    assert table.notes == []


def test_other_answers_that_are_drafts_texts_rankings_or_nobodys(tmp_path):
    more = {
        "why": [{"value": "I like it", "user_id": "u1"}, {"value": "meh", "user_id": "u2", "status": "draft"}],
        "order": [{"value": [{"value": "a", "rank": 1}], "user_id": "u1"}],
        "tags": [{"value": ["x", "y"], "user_id": "u2"}, {"value": ["x"], "user_id": None}],
    }
    table = read(tmp_path, [NESTED | {"responses": {**NESTED["responses"], **more}}], label="mood")
    assert table.frame[["why", "tags"]].fillna("").to_numpy().tolist() == [["I like it", ""], ["", "x; y"]]
    assert table.notes == ["Questions that are not read: order."]


def test_the_first_question_that_asks_for_labels(tmp_path):
    record = NESTED | {"responses": {"why": [{"value": "I like it", "user_id": "u1"}], **NESTED["responses"]}}
    write_json(tmp_path / "records.json", [record])
    (tmp_path / ".argilla").mkdir()
    settings = {"questions": [{"name": "why", "settings": {"type": "text"}}]}
    write_json(tmp_path / ".argilla" / "settings.json", settings)
    table = read_export("argilla", tmp_path)
    assert table.frame["label"].tolist() == ["a", "b"]
    assert "why" in table.privileged


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


def answer(*values, question="q"):
    return [
        NESTED | {"id": str(i), "responses": {question: [{"value": value, "user_id": "u1"}]}}
        for i, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([["a", "b"], ["b", "a"]], "each has all of a, b, as a ranking has"),
        ([[{"value": "a", "rank": 1}, {"value": "b", "rank": 2}]], "'q' to ask for labels, but it asks for ranking"),
        (["It is a good film.", "I did not like it.", "Who knows what it is."], "they are free text such as 'It is"),
        ([f"name{i}" for i in range(120)], "they are free text such as 'name0'"),
    ],
)
def test_answers_that_are_no_labels(tmp_path, values, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, answer(*values))


def test_long_names_of_classes_are_labels(tmp_path):
    names = ["not at all good", "neither good nor bad", "very good indeed"]
    assert read(tmp_path, answer(*names * 3)).frame["label"].nunique() == 3


@pytest.mark.parametrize("kind", ["text", "ranking", "span"])
def test_the_settings_of_a_folder_name_the_type_of_a_question(tmp_path, kind):
    write_json(tmp_path / "records.json", answer("a", "b"))
    (tmp_path / ".argilla").mkdir()
    write_json(tmp_path / ".argilla" / "settings.json", {"questions": [{"name": "q", "settings": {"type": kind}}]})
    with pytest.raises(ValueError, match=f"'q' to ask for labels or a rating, but it asks for {kind}"):
        read_export("argilla", tmp_path)


def test_none_of_several_labels_is_a_label(tmp_path):
    table = read(tmp_path, answer(["a", "b"], [], ["b"]))
    assert table.frame[["label_a", "label_b"]].to_numpy().tolist() == [[1, 1], [0, 0], [0, 1]]


def test_records_without_ids_and_with_vectors(tmp_path):
    records = [{k: v for k, v in one.items() if k != "id"} | {"vectors": {"v": [1.0]}} for one in answer("a", "b")]
    records[1]["fields"] = {"text": "bad"}
    table = read(tmp_path, records)
    assert table.frame["example"].nunique() == 2
    assert table.notes[1:] == ["Fields of records that are not read: vectors."]
