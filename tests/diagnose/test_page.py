import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import Finding
from lupi.diagnose.checks.annotators import describe_annotators
from lupi.diagnose.checks.scores import describe_scores
from lupi.report import Section
from lupi.report.page import render

SCORES = pd.DataFrame({"of": ["labels"], "estimate": ["suspicion"], "score": ["AUROC"], "value": [0.9], "count": [5]})
NAMES = [f"worker {i}" for i in range(20)]


def section(found, heading):
    return next(each for each in found.page.sections if each.heading == heading)


def test_parts_that_were_found_are_shown(make):
    found = make.diagnosed(NAMES)
    scores = describe_scores(SCORES, [])
    whole = replace(found, notes=["Note."], findings={**found.findings, "scores": scores}).page
    assert [each.heading for each in whole.sections] == [
        "Privileged columns",
        "Annotators",
        "Labels",
        "Scores by true labels",
        "Notes",
    ]
    bare = replace(found, findings={"information": found["information"]})
    assert [each.heading for each in bare.page.sections] == ["Privileged columns"]


def test_a_finding_is_shown_and_written_with_nothing_but_a_table_and_a_heading(make, tmp_path):
    ties = pd.DataFrame({"example": ["a"], "labels": [2]})
    finding = Finding(sentence="1 tie.", table=ties, section=Section(heading="Ties"), numbers={"count": np.int64(1)})
    found = make.diagnosed(NAMES)
    found = replace(found, findings={**found.findings, "ties": finding})
    pd.testing.assert_frame_equal(section(found, "Ties").tables[0].frame, ties)
    assert "1 tie." in str(found)
    assert found.numbers().iloc[-1].tolist() == ["ties", "", "count", 1]
    files = found.write(tmp_path / "run")
    assert tmp_path / "run" / "ties.csv" in files
    assert json.loads(files[0].read_text())["findings"]["ties"] == {"count": 1}
    with pytest.raises(FileExistsError, match="overwrite"):
        found.write(tmp_path / "run")


def test_a_column_that_leaks_is_pointed_out(make):
    found = make.diagnosed(NAMES)
    shown = section(found, "Privileged columns").tables[0]
    assert shown.marked == found["information"].table["leak"].tolist()
    assert (shown.frame["leak"] == "may leak the label").tolist() == shown.marked


def test_annotators_are_shown_with_intervals_and_flags(make):
    found = make.diagnosed(NAMES)
    part = section(found, "Annotators")
    shown, table = part.tables[0], found["annotators"].table
    assert shown.frame["annotator"].tolist() == table["annotator"].tolist()
    row = table.iloc[0]
    reliability = {column.name: column.texts for column in shown.columns()}["reliability"]
    assert reliability[0] == f"{row['reliability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
    assert shown.marked == table["flagged"].tolist()
    assert f"{table['flagged'].sum()} of 20 annotators are flagged" in found["annotators"].sentence
    assert len(part.figures) == 1


def test_wrong_labels_are_counted_in_the_figure(make):
    found = make.diagnosed(NAMES)
    part = section(found, "Labels")
    assert part.tables[0].frame["row"].tolist() == found["labels"].table["row"].tolist()
    assert f"{(found['labels'].table['wrong'] > 0.5).sum()} of 50 labels" in part.figures[0].caption


def test_an_annotator_with_a_number_for_a_name(make):
    found = make.diagnosed(NAMES)
    annotators = describe_annotators(found["annotators"].table.assign(annotator=range(20)))
    assert "worker" not in render(replace(found, findings={"annotators": annotators}).page)


def confused(make, classes):
    people = [f"w{i}" for i in range(60)]
    cells = [{"annotator": who, "true": t, "given": (t + 1) % classes} for who in people for t in range(classes - 1)]
    confusions = pd.DataFrame(cells).assign(count=np.arange(len(cells)) % 7 + 1.0, probability=1.0)
    return make.diagnosed(people, confusions=confusions, classes=range(classes))


def test_the_least_supported_annotators_open_to_a_confusion_matrix(make):
    found = confused(make, 3)
    shown = section(found, "Annotators")
    assert len(shown.details) == 20
    assert shown.details[0].summary.startswith(f"{found['annotators'].table['annotator'][0]}: ")
    matrix = shown.details[0].table.frame.set_index("true \\ given")
    np.testing.assert_array_equal(matrix.to_numpy(), [[0, 1, 0], [0, 0, 1], [np.nan] * 3])  # 2 is never the true label


def test_of_many_classes_the_largest_confusions_are_listed(make):
    shown = section(confused(make, 40), "Annotators")
    table = shown.details[0].table.frame
    assert len(table) == 15
    assert table["count"].is_monotonic_decreasing
