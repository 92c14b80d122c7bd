import pandas as pd
import pytest

from lupi.importers import read_export
from tests.importers.exports import choice, write_json


def task(*annotations, predictions=(), **data):
    return {
        "id": 7,
        "data": data or {"text": "good"},
        "annotations": list(annotations),
        "predictions": list(predictions),
    }


def annotation(*results, **facts):
    return {"result": list(results), "completed_by": 1, "lead_time": 2.5, "created_at": "2024-05-01T10:00:00Z", **facts}


def read(tmp_path, tasks, **options):
    return read_export("label-studio", write_json(tmp_path / "e.json", tasks), **options)


def test_cancelled_and_empty_annotations_are_left_out_with_a_note(tmp_path):
    table = read(tmp_path, [task(annotation(choice("a")), annotation(choice("b"), was_cancelled=True), annotation())])
    assert table.frame["label"].tolist() == ["a"]
    assert table.notes == ["1 cancelled labels are left out.", "1 empty labels are left out."]


def test_facts_of_an_annotation(tmp_path):
    one = annotation(choice("a"), completed_by={"id": 3, "email": "ann@example.com"})
    row = read(tmp_path, [task(one)]).frame.iloc[0]
    assert (row["example"], row["annotator"], row["seconds"]) == ("7", "ann@example.com", 2.5)
    assert row["timestamp"] == pd.Timestamp("2024-05-01T10:00:00Z")


def test_several_control_tags(tmp_path):
    tasks = [task(annotation(choice("a"), choice("x", name="topic")))]
    table = read(tmp_path, tasks)
    assert table.frame[["label", "topic"]].to_numpy().tolist() == [["a", "x"]]
    assert table.notes == ["Labels: sentiment, the first of the control tags; `label` can name topic."]
    table = read(tmp_path, tasks, label="topic")
    assert table.frame[["label", "sentiment"]].to_numpy().tolist() == [["x", "a"]]
    assert (table.privileged[3:], table.notes) == (("sentiment",), [])
    with pytest.raises(ValueError, match=r"`label` to be one of the control tags .*, but got 'topics'"):
        read(tmp_path, tasks, label="topics")


def test_other_answers_are_privileged_unless_they_are_of_parts(tmp_path):
    rating = {"from_name": "confidence", "type": "rating", "value": {"rating": 4}}
    words = {"from_name": "seconds", "type": "textarea", "value": {"text": ["not sure", "at all"]}}
    two = {**choice("x", name="topic"), "value": {"choices": ["x", "y"]}}
    box = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["cat"]}}
    part = {**choice("b", name="part"), "value": {"choices": ["b"], "start": 0}}
    tasks = [task(annotation(choice("a"), rating, words, two, box, part), annotation(choice("b")))]
    table = read(tmp_path, tasks, label="sentiment")
    answers = table.frame[["confidence", "answer_seconds", "topic"]]
    assert answers.iloc[0].tolist() == [4, "not sure; at all", "x; y"]
    assert answers.iloc[1].isna().all()
    assert table.privileged == ("annotator", "seconds", "timestamp", *answers)
    assert table.notes == ["Control tags that are not read: box, part."]


def test_several_choices_are_multi_label(tmp_path):
    two = {**choice("a"), "value": {"choices": ["a", "b"]}}
    table = read(tmp_path, [task(annotation(choice("a")), annotation(two))])
    assert table.target == ("label_a", "label_b")
    assert table.frame[list(table.target)].to_numpy().tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("kind", "value", "label"),
    [
        ("rating", {"rating": 4}, 4),
        ("number", {"number": 2.5}, 2.5),
        ("taxonomy", {"taxonomy": [["animal", "cat"]]}, "animal / cat"),
        ("pairwise", {"selected": "left"}, "left"),
    ],
)
def test_other_control_tags(tmp_path, kind, value, label):
    result = {"from_name": "tag", "to_name": "text", "type": kind, "value": value}
    assert read(tmp_path, [task(annotation(result))]).frame["label"].tolist() == [label]


def test_parts_of_examples_are_no_labels(tmp_path):
    box = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["cat"]}}
    with pytest.raises(ValueError, match="to label whole tasks, by one of choices, rating"):
        read(tmp_path, [task(annotation(box))])


def test_predictions_of_several_models_have_columns_of_their_own(tmp_path):
    predictions = [{"model_version": f"v{i}", "score": i / 4, "result": [choice("ab"[i])]} for i in range(2)]
    table = read(tmp_path, [task(annotation(choice("a")), predictions=predictions)])
    assert table.frame[list(table.privileged[3:])].iloc[0].to_dict() == {
        "prediction (v0)": "a",
        "prediction_score (v0)": 0.0,
        "prediction (v1)": "b",
        "prediction_score (v1)": 0.25,
    }


def test_ground_truth_is_gold(tmp_path):
    first = task(annotation(choice("a")), annotation(choice("b"), ground_truth=True))
    table = read(tmp_path, [first, task(annotation(choice("a")))])
    assert table.gold == "gold"
    assert table.frame["gold"].fillna("").tolist() == ["b", "b", ""]


def test_fields_that_clash_or_are_nested(tmp_path):
    table = read(tmp_path, [task(annotation(choice("a")), text="good", label="old", meta={"url": "x"})])
    assert list(table.frame)[:3] == ["example", "text", "input_label"]
    assert table.notes == [
        "Fields with lists or objects are left out: meta.",
        "Input field 'label' is now 'input_label'.",
    ]


def test_json_min_needs_the_label(tmp_path):
    facts = {"annotator": 1, "annotation_id": 9, "created_at": "2024-05-01T10:00:00Z", "lead_time": 3.5}
    records = [{"id": 7, "text": "good", "sentiment": "a", **facts}]
    with pytest.raises(ValueError, match="`label` to name one of 'sentiment', 'text', since JSON-MIN does not say"):
        read(tmp_path, records)
    table = read(tmp_path, records, label="sentiment")
    assert table.frame[["text", "label", "annotator", "seconds"]].iloc[0].tolist() == ["good", "a", "1", 3.5]


@pytest.mark.parametrize(
    "place",
    [
        {"value": {"choices": ["a"], "start": 0, "end": 3, "text": "goo"}},
        {"value": {"choices": ["a"], "x": 1, "y": 2, "width": 3, "height": 4}},
        {"item_index": 0},
    ],
)
def test_choices_of_regions_are_no_labels_of_tasks(tmp_path, place):
    with pytest.raises(ValueError, match="'sentiment' to label whole tasks, but it labels parts"):
        read(tmp_path, [task(annotation({**choice("a"), **place}))])


def test_two_choices_of_one_control_tag_are_those_of_parts(tmp_path):
    with pytest.raises(ValueError, match="'sentiment' to label whole tasks, but it labels parts"):
        read(tmp_path, [task(annotation(choice("a"), choice("b")))])


def test_tasks_without_ids_are_told_apart_by_their_inputs(tmp_path):
    tasks = [task(annotation(choice("a")), annotation(choice("b")), text=text) for text in ("good", "bad", "good")]
    for one in tasks:
        del one["id"]
    table = read(tmp_path, tasks)
    assert table.frame.groupby("text")["example"].nunique().tolist() == [1, 1]
    assert table.frame["example"].nunique() == 2
    assert table.notes == ["6 labels are of examples without id; those with equal inputs are one example."]


def test_fields_that_are_not_read_are_named(tmp_path):
    one = task(annotation(choice("a"), review="good")) | {"drafts": [{"id": 1}], "project": 3, "meta": {}}
    assert read(tmp_path, [one]).notes == [
        "Fields of tasks that are not read: drafts.",
        "Fields of annotations that are not read: review.",
    ]


def test_true_labels_of_several_targets_are_left_out(tmp_path):
    two = {**choice("a"), "value": {"choices": ["a", "b"]}}
    table = read(tmp_path, [task(annotation(two, ground_truth=True), annotation(choice("a")))])
    assert table.gold is None
    assert table.notes == ["True labels are left out, since they must be classes of a single target."]


def test_other_answers_in_json_min(tmp_path):
    """Which fields are data and which are answers shows where annotators of a task differ."""
    records = [
        {"id": 7, "text": "good", "mood": mood, "sure": sure, "topic": {"choices": topic}}
        | {"annotator": who, "annotation_id": who, "lead_time": 3.5}
        for who, mood, sure, topic in ((1, "a", 5, ["x", "y"]), (2, "b", 2, ["x"]))
    ]
    table = read(tmp_path, records, label="mood")
    assert table.privileged == ("annotator", "seconds", "sure", "topic")
    assert table.frame[["sure", "topic"]].to_numpy().tolist() == [[5, "x; y"], [2, "x"]]
    assert table.notes == ["Privileged, since they differ between labels of one example: sure, topic."]


def test_parts_in_json_min(tmp_path):
    facts = {"annotator": 1, "annotation_id": 9, "created_at": "2024-05-01T10:00:00Z", "lead_time": 3.5}
    records = [{"id": 7, "mood": {"choices": ["a"], "start": 0}, **facts}]
    with pytest.raises(ValueError, match="`label` to be a field of whole tasks, but 'mood' has choices, start"):
        read(tmp_path, records, label="mood")
