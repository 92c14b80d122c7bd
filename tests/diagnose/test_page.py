from dataclasses import replace

import numpy as np
import pandas as pd

from lupi.diagnose import diagnosis_page
from lupi.report.page import render

SCORES = pd.DataFrame({"of": ["labels"], "estimate": ["suspicion"], "score": ["AUROC"], "value": [0.9], "count": [5]})
NAMES = [f"worker {i}" for i in range(20)]


def section(found, heading):
    return next(each for each in diagnosis_page(found).sections if each.heading == heading)


def test_parts_that_were_found_are_shown(make):
    found = make.diagnosed(NAMES)
    whole = diagnosis_page(replace(found, notes=["Note."], scores=SCORES))
    assert [each.heading for each in whole.sections] == [
        "Privileged columns",
        "Annotators",
        "Labels",
        "Scores by true labels",
        "Notes",
    ]
    bare = replace(found, annotators=None, labels=None)
    assert [each.heading for each in diagnosis_page(bare).sections] == ["Privileged columns"]


def test_a_column_that_leaks_is_pointed_out(make):
    found = make.diagnosed(NAMES)
    shown = section(found, "Privileged columns").tables[0]
    assert shown.marked == found.information["leak"].tolist()
    assert (shown.frame["leak"] == "may leak the label").tolist() == shown.marked


def test_annotators_are_shown_with_intervals_and_flags(make):
    found = make.diagnosed(NAMES)
    part = section(found, "Annotators")
    shown, table = part.tables[0], found.annotators
    assert shown.frame["annotator"].tolist() == table["annotator"].tolist()
    row = table.iloc[0]
    assert shown.texts["reliability"][0] == f"{row['reliability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
    assert shown.marked == table["flagged"].tolist()
    assert f"{table['flagged'].sum()} of 20 annotators are flagged" in part.text
    assert len(part.figures) == 2
    part = section(replace(found, annotators=table.drop(columns="confidence_baseline")), "Annotators")
    assert len(part.figures) == 1


def test_wrong_labels_are_counted_in_the_figure(make):
    found = make.diagnosed(NAMES)
    part = section(found, "Labels")
    assert part.tables[0].frame["row"].tolist() == found.labels["row"].tolist()
    assert f"{(found.labels['wrong'] > 0.5).sum()} of 50 labels" in part.figures[0].caption


def test_an_annotator_with_a_number_for_a_name(make):
    found = make.diagnosed(NAMES)
    information, annotators = found.information.assign(column="c"), found.annotators.assign(annotator=range(20))
    found = replace(found, information=information, annotators=annotators, labels=None)
    assert "worker" not in render(diagnosis_page(found))


def confused(make, classes):
    people = [f"w{i}" for i in range(60)]
    cells = [{"annotator": who, "true": t, "given": (t + 1) % classes} for who in people for t in range(classes - 1)]
    confusions = pd.DataFrame(cells).assign(count=np.arange(len(cells)) % 7 + 1.0, probability=1.0)
    balance = pd.DataFrame({"class": range(classes), "labels": 9, "share": 0.5, "examples": 4.0, "true_share": 0.5})
    return replace(make.diagnosed(people), confusions=confusions, balance=balance)


def test_the_least_supported_annotators_open_to_a_confusion_matrix(make):
    found = confused(make, 3)
    shown = section(found, "Annotators")
    assert len(shown.details) == 50
    assert shown.details[0].summary.startswith(f"{found.annotators['annotator'][0]}: ")
    matrix = shown.details[0].table.frame.set_index("true \\ given")
    np.testing.assert_array_equal(matrix.to_numpy(), [[0, 1, 0], [0, 0, 1], [np.nan] * 3])  # 2 is never the true label


def test_of_many_classes_the_largest_confusions_are_listed(make):
    shown = section(confused(make, 40), "Annotators")
    table = shown.details[0].table.frame
    assert len(table) == 15
    assert table["count"].is_monotonic_decreasing
