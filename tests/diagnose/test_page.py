import pandas as pd
import pytest

from lupi.diagnose import diagnosis_page
from lupi.report.page import render

SCORES = pd.DataFrame({"of": ["labels"], "estimate": ["suspicion"], "score": ["AUROC"], "value": [0.9], "count": [5]})
NAMES = [f"worker {i}" for i in range(20)]


def section(page, heading):
    return next(each for each in page.sections if each.heading == heading)


def test_parts_that_are_given_are_shown(make):
    given = make.diagnosed(NAMES)
    whole = diagnosis_page("Verdict.", notes=["Note."], scores=SCORES, **given)
    assert [each.heading for each in whole.sections] == [
        "Privileged columns",
        "Annotators",
        "Labels",
        "Scores by true labels",
        "Notes",
    ]
    assert [each.heading for each in diagnosis_page("Verdict.", labels=given["labels"]).sections] == ["Labels"]
    assert diagnosis_page("Verdict.", information=given["information"].head(0)).sections == []


def test_a_column_that_leaks_is_pointed_out(make):
    table = make.diagnosed(NAMES)["information"]
    part = section(diagnosis_page("", information=table.assign(leak=False)), "Privileged columns")
    assert "leak" not in part.text
    assert "leak" not in part.tables[0].frame
    part = section(
        diagnosis_page("", information=table.assign(leak=table.index == 3, alone=0.25)), "Privileged columns"
    )
    assert "may leak the label nearly gives it away" in part.text
    assert part.tables[0].marked == [place == 3 for place in range(20)]
    assert part.tables[0].frame["leak"][3] == "may leak the label"
    assert "Alone is" in part.text
    assert "Known is" not in part.text


def test_annotators_come_in_the_callers_order_with_what_is_known(make):
    table = make.diagnosed(NAMES)["annotators"]
    part = section(diagnosis_page("", annotators=table), "Annotators")
    shown = part.tables[0]
    assert shown.frame["annotator"].tolist() == NAMES
    assert shown.sorted_by is None
    row = table.iloc[0]
    assert shown.texts["reliability"][0] == f"{row['reliability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
    assert shown.marked == table["flagged"].tolist()
    assert f"{table['flagged'].sum()} of 20 annotators are flagged" in part.text
    assert len(part.figures) == 2
    part = section(diagnosis_page("", annotators=table.drop(columns="confidence_baseline")), "Annotators")
    assert len(part.figures) == 1
    part = section(diagnosis_page("", annotators=table.sort_values("reliability")), "Annotators")
    assert part.tables[0].sorted_by == "reliability"


def test_labels_come_the_most_suspicious_first(make):
    table = make.diagnosed(NAMES)["labels"]
    part = section(diagnosis_page("", labels=table), "Labels")
    shown = part.tables[0].frame
    assert shown["wrong"].is_monotonic_decreasing
    assert shown["row"].tolist() == table.sort_values("wrong", ascending=False)["row"].tolist()
    assert f"{(table['wrong'] > 0.5).sum()} of 50 labels" in part.figures[0].caption


def test_an_annotator_with_a_number_for_a_name(make):
    given = make.diagnosed(NAMES)
    given["annotators"]["annotator"] = range(20)
    assert "worker" not in render(diagnosis_page("", annotators=given["annotators"]))


@pytest.mark.parametrize(
    ("part", "column"), [("information", "estimate"), ("annotators", "flagged"), ("labels", "likely")]
)
def test_a_missing_column_is_named(make, part, column):
    table = make.diagnosed(NAMES)[part].drop(columns=column)
    with pytest.raises(ValueError, match=f"{part}.*{column}"):
        diagnosis_page("", **{part: table})
