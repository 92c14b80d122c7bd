import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from lupi.metrics import METRICS
from lupi.report import figures

NS = "{http://www.w3.org/2000/svg}"


def texts(figure):
    return ["".join(each.itertext()) for each in ElementTree.fromstring(figure.svg).iter(f"{NS}text")]


def described(figure):
    return ElementTree.fromstring(figure.svg).find(f"{NS}desc").text


def differences(**more):
    table = {"method": ["tram", "pi-dual"], "difference": [-0.1, 0.02], "low": [-0.2, -0.01], "high": [-0.05, 0.05]}
    return pd.DataFrame(table | {"control": [False, False], "of": ""} | more)


def annotators(n=5):
    reliability = np.linspace(0.3, 0.9, n)
    return pd.DataFrame(
        {"annotator": [f"worker {i}" for i in range(n)], "reliability": reliability, "low": reliability - 0.1}
        | {"high": reliability + 0.05, "confidence": reliability**2, "flagged": reliability < 0.4}
    )


def draw():
    """Draw one figure of each kind."""
    bins = pd.DataFrame(
        {"method": ["no-pi", "tram"], "confidence": [0.9, 0.8], "accuracy": [0.7, 0.8], "count": [9, 9]}
    )
    information = pd.DataFrame({"column": ["who"], "estimate": [0.1], "low": [0.05], "high": [0.2], "leak": [True]})
    return [
        figures.draw_differences(differences(control=[False, True]), METRICS["nll"], "no-pi"),
        *figures.draw_calibration(bins),
        figures.draw_confidence(annotators()),
        figures.draw_information(information),
        figures.draw_label_errors([0.1, 0.2, 0.9]),
    ]


@pytest.fixture(scope="module")
def drawn():
    return draw()


def test_figures_take_the_colours_of_the_page(drawn):
    for figure in drawn:
        bare = re.sub(r"var\(--[\w-]+, #\w+\)", "", figure.svg)
        assert not re.search(r"#[0-9a-f]{6}\b", bare), "a colour that dark mode cannot change"
        assert "currentColor" in figure.svg
        assert "font-family" not in figure.svg
        assert "<style" not in figure.svg


def test_figures_scale_and_have_a_title_and_a_description(drawn):
    for figure in drawn:
        root = ElementTree.fromstring(figure.svg)
        assert "viewBox" in root.attrib
        assert not {"width", "height"} & set(root.attrib)
        ids = [root.find(f"{NS}title").get("id"), root.find(f"{NS}desc").get("id")]
        assert root.get("aria-labelledby").split() == ids
        assert described(figure)
        assert figure.caption


def test_a_figure_is_the_same_text_each_time(drawn):
    assert [each.svg for each in draw()] == [each.svg for each in drawn]


def test_differences_are_described_in_words():
    figure = figures.draw_differences(differences(control=[False, True]), METRICS["nll"], "no-pi")
    assert described(figure) == (
        "tram −0.100, interval −0.200 to −0.050; pi-dual (control) +0.020, interval −0.010 to +0.050."
    )
    assert {"tram", "pi-dual", "method", "control", "difference in NLL (← better)"} <= set(texts(figure))
    higher = figures.draw_differences(differences(), METRICS["accuracy"], "no-pi")
    assert described(higher) == "tram −10.0, interval −20.0 to −5.0; pi-dual +2.0, interval −1.0 to +5.0."
    assert "difference in accuracy, % (better →)" in texts(higher)


def test_only_an_interval_that_excludes_zero_has_a_filled_mark():
    def hollow(low):
        table = differences(low=low, high=0.2)
        return (
            f"fill: var(--paper, {figures.COLOURS['paper']})"
            in figures.draw_differences(table, METRICS["nll"], "no-pi").svg
        )

    assert hollow(-0.01)
    assert not hollow(0.01)


def test_controls_are_drawn_below_their_method():
    names, place = figures._place_rows(["a", "b", "a [x]", "a [y]", "z [x]"], ["", "", "a", "a", ""])
    assert names == ["a", "b", "z [x]"]
    assert place[0] > place[2] > place[3] > place[1] + 0.5
    assert place[1] == 1
    table = differences(method=["tram", "tram [PI shuffled]"], control=[False, True], of=["", "tram"])
    figure = figures.draw_differences(table, METRICS["nll"], "no-pi")
    assert "tram [PI shuffled]" not in texts(figure)
    assert "tram [PI shuffled] (control)" in described(figure)


def test_one_seed_has_no_interval():
    figure = figures.draw_differences(differences(low=[np.nan] * 2, high=[np.nan] * 2), METRICS["nll"], "no-pi")
    assert "tram −0.100, interval – to –" in described(figure)


def test_calibration_error_is_weighted_by_count():
    bins = pd.DataFrame({"method": "m", "confidence": [0.9, 0.5], "accuracy": [0.7, 0.5], "count": [30, 10]})
    (figure,) = figures.draw_calibration(bins)
    assert figure.caption == "m: ECE 0.150"
    assert figure.small


def test_the_tooltip_of_a_point_names_its_annotator():
    table = annotators()
    table.loc[2, "reliability"] = np.nan  # cannot be drawn
    root = ElementTree.fromstring(figures.draw_confidence(table).svg)
    tips = [use.find(f"{NS}title").text for use in root.iter(f"{NS}use") if use.find(f"{NS}title") is not None]
    assert sorted(tip.partition(":")[0] for tip in tips) == ["worker 0", "worker 1", "worker 3", "worker 4"]
    x = {use.find(f"{NS}title").text[:8]: float(use.get("x")) for use in root.iter(f"{NS}use") if len(use)}
    assert x["worker 0"] < x["worker 1"] < x["worker 3"] < x["worker 4"]


def test_labels_that_are_probably_wrong_are_counted():
    figure = figures.draw_label_errors([0.1, 0.5, 0.6, 1.0 + 1e-9])
    assert described(figure) == "2 of 4 labels are more likely wrong than right."


def test_hostile_names_are_shown_as_text(make):
    table = pd.DataFrame({"column": make.hostile, "estimate": 0.1, "low": 0.0, "high": 0.2, "leak": False})
    shown = texts(figures.draw_information(table))
    assert "<script>document.title =…" in shown
    assert "$x^2$ {{ 7 * 7 }} {% raw…" in shown
    assert "turned around" in shown
