import pandas as pd
import pytest

from lupi.importers import read_export
from tests.importers.exports import write_lines

FACTS = {"_input_hash": 5, "_task_hash": 6, "_timestamp": 1714557600, "_annotator_id": "d-ann", "_session_id": "d-ann"}


def read(tmp_path, tasks, **options):
    return read_export("prodigy", write_lines(tmp_path / "e.jsonl", tasks), **options)


def binary(label, answer):
    return {"text": "good", "label": label, "answer": answer, **FACTS}


def chosen(accept, answer="accept"):
    return {"text": "good", "options": [{"id": "a", "text": "A"}], "accept": accept, "answer": answer, **FACTS}


def test_labels_are_accepted_or_rejected(tmp_path):
    table = read(tmp_path, [binary("SPORT", "accept"), binary("SPORT", "reject"), binary("SPORT", "ignore")])
    assert table.frame["label"].tolist() == ["accept", "reject"]
    assert table.notes == ["1 ignored labels are left out."]
    row = table.frame.iloc[0]
    assert (row["example"], row["annotator"], row["text"]) == ("5", "d-ann", "good")
    assert row["timestamp"] == pd.Timestamp("2024-05-01T10:00:00Z")


def test_several_labels_that_are_accepted_or_rejected(tmp_path):
    tasks = [binary("SPORT", "accept"), binary("NEWS", "reject")]
    table = read(tmp_path, tasks)
    assert table.frame[["label", "NEWS"]].to_numpy().tolist() == [["accept", "reject"]]
    assert table.notes == ["Labels: SPORT, the first of the labels; `label` can name NEWS."]
    other = binary("SPORT", "accept") | {"_annotator_id": "d-bob", "_session_id": "d-bob"}
    table = read(tmp_path, [*tasks, other], label="NEWS")
    assert table.frame[["label", "SPORT"]].to_numpy().tolist() == [["reject", "accept"]]
    assert table.privileged[-1] == "SPORT"
    assert table.notes == ["1 other labels are left out."]


def test_what_annotators_of_one_input_differ_in_is_privileged(tmp_path):
    tasks = [chosen(["a"]) | {"user_input": "sure"}, chosen(["b"]) | {"user_input": "perhaps"}]
    table = read(tmp_path, tasks)
    assert "user_input" in table.privileged
    assert table.notes == ["Privileged, since they differ between labels of one example: user_input."]


def test_choices(tmp_path):
    table = read(tmp_path, [chosen(["a"]), chosen(["b"]), chosen(["a"], "reject"), chosen([]), chosen(["a"], "ignore")])
    assert table.frame["label"].tolist() == ["a", "b"]
    assert len(table.notes) == 3
    assert read(tmp_path, [chosen(["a", "b"]), chosen(["b"])]).target == ("label_a", "label_b")


def test_scores_of_a_model_in_the_loop(tmp_path):
    task = binary("SPORT", "accept") | {"meta": {"score": 0.5, "source": "web"}}
    table = read(tmp_path, [task])
    assert table.frame["prediction_score"].tolist() == [0.5]
    assert "meta" not in table.frame
    assert table.notes == ["Fields of tasks that are not read: meta."]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"text": "good"}, "line 1 has no answer"),
        ({"text": "good", "spans": [], "answer": "accept"}, "choices or one label each, but they have neither"),
    ],
)
def test_tasks_of_another_kind(tmp_path, task, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, [task])


def test_nothing_chosen_among_several_choices_is_a_label(tmp_path):
    table = read(tmp_path, [chosen(["a", "b"]), chosen([]), chosen(["b"])])
    assert table.frame[["label_a", "label_b"]].to_numpy().tolist() == [[1, 1], [0, 0], [0, 1]]
    assert table.notes == []


def test_tasks_without_a_hash_and_with_spans(tmp_path):
    tasks = [chosen(["a"]) | {"text": text, "spans": [{"start": 0}]} for text in ("good", "bad", "good")]
    table = read(tmp_path, [{k: v for k, v in task.items() if k != "_input_hash"} for task in tasks])
    assert table.frame["example"].tolist() == ["unnamed 0", "unnamed 1", "unnamed 0"]
    assert table.notes[1:] == ["Fields of tasks that are not read: spans."]
