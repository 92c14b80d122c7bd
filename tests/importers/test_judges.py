import numpy as np
import pandas as pd
import pytest

from lupi.importers import read_export
from tests.importers.exports import write_lines


def read(tmp_path, lines, **options):
    return read_export("judges", write_lines(tmp_path / "log.jsonl", lines), **options)


def line(item="a", judge="alpha", **more):
    return {"item": item, "judge": judge, "text": f"text {item}", **more}


def test_a_prompt_version_is_another_annotator_and_facts_are_privileged(tmp_path):
    lines = [
        line(prompt_version="v2", verdict="good", score=8, confidence=0.9, timestamp=1714557600, latency=1.5),
        line(judge="beta", verdict="bad", score=2),
        line("b", verdict="bad", score=1, gold="bad"),
    ]
    table = read(tmp_path, lines)
    assert table.frame["annotator"].tolist() == ["alpha/v2", "beta", "alpha"]
    assert table.frame["label"].tolist() == ["good", "bad", "bad"]
    assert table.privileged == ("annotator", "score", "confidence", "seconds", "timestamp")
    assert table.frame["timestamp"][0] == pd.Timestamp("2024-05-01T10:00:00Z")
    assert table.gold == "gold"
    assert table.frame["text"].tolist() == ["text a", "text a", "text b"]
    assert table.notes == []


def test_log_probabilities_are_those_of_the_label(tmp_path):
    lines = [
        line(logprobs={"good": -0.1, "bad": -2.4}),
        line("b", logprobs={"good": -3.0, "bad": -0.05}),
        line("c", logprobs={}),
    ]
    table = read(tmp_path, lines)
    assert table.frame["label"].tolist() == ["good", "bad"]
    assert table.frame["logprob"].tolist() == [-0.1, -0.05]
    assert table.notes == ["1 empty labels are left out."]
    given = [line(verdict="bad", logprobs={"good": -0.1, "bad": -2.4}), line("b", verdict="good", logprob=-0.2)]
    assert read(tmp_path, given).frame["logprob"].tolist() == [-2.4, -0.2]


def test_scores_are_labels_if_there_is_nothing_else_or_they_are_named(tmp_path):
    table = read(tmp_path, [line(score=7), line("b", score=3)])
    assert table.frame["label"].tolist() == [7, 3]
    assert table.privileged == ("annotator",)
    table = read(tmp_path, [line(score=7, verdict="x"), line("b", score=3, verdict="y")], label="score")
    assert table.frame["label"].tolist() == [7, 3]


def test_what_a_judge_wrote_is_not_read(tmp_path):
    lines = [
        line(verdict="x", reason="since", run=1),
        line(judge="beta", verdict="y", reason="as", run=2, input={"q": 1}),
    ]
    table = read(tmp_path, lines)
    assert table.notes == ["Fields of judgements that are not read: reason, run."]
    assert list(table.frame) == ["example", "text", "q", "label", "annotator"]
    assert np.isnan(table.frame["q"][0])


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ([line(verdict="x"), {"item": "b", "verdict": "y"}], {}, "name their `judge`, but line 2 does not"),
        ([line(reason="x")], {}, "`verdict`, `logprobs` or a `score` in its lines, but it has none"),
        (
            [line(verdict="x")],
            {"label": "grade"},
            "`label` to be one of the fields item, judge, text, verdict, but got",
        ),
    ],
)
def test_other_logs_are_refused(tmp_path, lines, options, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, lines, **options)
