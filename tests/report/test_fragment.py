"""What notebooks show of a comparison and of a diagnosis."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from lupi.report.page import format_fragment


class Cells(HTMLParser):
    """Collects the texts of tables, and checks that all elements are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):  # noqa: ARG002
        assert tag not in ("script", "style", "link", "html", "img")
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells.append(data.strip())


def test_a_comparison_shows_scores_and_differences(make):
    found = replace(make.compared(["no-pi", "tram <b>"], seeds=4), notes=["Note <1>."])
    text = found._repr_html_()
    cells = Cells(text).cells
    assert "tram <b>" in cells
    row = found.summary.loc["tram <b>"]
    assert f"{row['nll']:.3f}±{row['nll_sd']:.3f}" in cells
    assert "It helps." in text
    assert "Note &lt;1&gt;." in text


def test_a_diagnosis_shows_what_was_found(make):
    found = make.diagnosed([f"<img src=x>{i}" for i in range(20)])
    text = found._repr_html_()
    assert found["annotators"].table["annotator"].iloc[0] in Cells(text).cells
    assert text.count("<tr>") == len(found["information"].table) + 8 + 8  # not all annotators, nor all labels
    bare = Cells(replace(found, findings={"information": found["information"]})._repr_html_()).cells
    assert "annotator" not in bare
    assert found["information"].table["column"].iloc[0] in bare


@pytest.mark.parametrize("verdict", ["", "One.\n\nTwo."])
def test_every_line_of_the_verdict_is_a_paragraph(verdict):
    assert format_fragment(verdict, {}).count("<p>") == len(verdict.split())
