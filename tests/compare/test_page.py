from dataclasses import replace

import pandas as pd
import pytest

from lupi.compare.page import comparison_page


def test_a_metric_is_written_with_its_difference(make):
    found = replace(make.compared(["no-pi", "tram"], seeds=4), notes=["Note."])
    page = comparison_page(found)
    assert page.verdict == "It helps."
    first = page.sections[0]
    assert "4 seeds" in first.text
    assert "95% interval" in first.text
    assert "control" not in first.text
    assert first.notes == ["Note."]
    assert [figure.caption.partition(" from ")[0] for figure in first.figures] == [
        "Difference in NLL",
        "Difference in accuracy",
    ]
    assert "from the best baseline, no-pi" in first.figures[0].caption
    (table,) = first.tables
    assert list(table.frame.columns) == [
        "method",
        "NLL",
        "NLL difference",
        "accuracy, %",
        "accuracy difference",
        "time",
    ]
    assert table.frame["accuracy, %"].tolist() == pytest.approx((100 * found.summary["accuracy"]).tolist())
    assert table.texts["accuracy difference"][0] == "best baseline"
    row = found.summary.loc["tram"]
    gap, low, high = (100 * row[f"accuracy_{part}"] for part in ("difference", "low", "high"))
    assert table.texts["accuracy difference"][1] == f"{gap:+.1f} [{low:+.1f}, {high:+.1f}]".replace("-", "−")
    assert table.texts["NLL"][1] == f"{row['nll']:.3f} ± {row['nll_sd']:.3f}"


def test_controls_are_marked_explained_and_left_out_of_calibration(make):
    names = ["no-pi", "tram", "no-pi [early stopping]", "tram [PI shuffled]"]
    found = make.compared(names, controls=names[2:])
    bins = pd.DataFrame({"method": names, "confidence": 0.9, "accuracy": 0.8, "count": 10})
    page = comparison_page(replace(found, reliability=bins))
    assert "so it cannot gain from its content" in page.sections[0].text
    assert page.sections[0].tables[0].frame["kind"].tolist() == ["", "", "control", "control"]
    svg = page.sections[0].figures[0].svg
    assert ">no-pi [early stopping]</" in svg  # in a row of its own
    assert ">tram [PI shuffled]</" not in svg  # below tram
    calibration = next(section for section in page.sections if section.heading == "Calibration")
    assert [figure.caption.partition(":")[0] for figure in calibration.figures] == ["no-pi", "tram"]


def test_every_run_is_listed(make):
    found = make.compared(["no-pi", "tram"], seeds=3)
    (table,) = comparison_page(found).sections[-1].tables
    assert len(table.frame) == 6
    assert table.frame["accuracy, %"].tolist() == pytest.approx((100 * found.runs["accuracy"]).tolist())
    assert found.runs["accuracy"].max() < 1  # the caller's table is unchanged


def test_no_pi_alone_has_no_figure(make):
    assert comparison_page(make.compared(["no-pi"])).sections[0].figures == []
