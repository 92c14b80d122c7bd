"""Look at report pages in a browser. Without Chromium these tests are skipped."""

import base64
import io
import json
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lupi.compare.page import comparison_page
from lupi.diagnose import Diagnosis, Finding, Problem
from lupi.diagnose.checks.agreement import Agreement
from lupi.diagnose.checks.balance import Balance
from lupi.diagnose.checks.judges import Judges
from lupi.diagnose.checks.next import Next
from lupi.report import Section
from lupi.report.page import Figure, Page, Table, write_report

COLUMN = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[%d].textContent)"
FIGURES = """[...document.querySelectorAll('svg')].map(e => {
  const [box, texts] = [e.getBoundingClientRect(), [...e.querySelectorAll('text')]];
  const size = Math.min(...texts.map(t => parseFloat(getComputedStyle(t).fontSize)));
  const outside = own => own.left < box.left - 2 || own.right > box.right + 2;
  const lost = texts.filter(t => outside(t.getBoundingClientRect())).map(t => t.textContent);
  return [box.width, size * box.width / e.viewBox.baseVal.width, lost];
})"""
"""For each figure its width, the size of its smallest letters, and the texts that are cut off."""
ORDERS = "[...document.querySelectorAll('thead th')].map(heading => heading.ariaSort)"


@pytest.fixture(scope="module")
def pages(make, tmp_path_factory):
    """A comparison, a diagnosis, one of each where every name is hostile, and a large diagnosis."""
    folder = tmp_path_factory.mktemp("pages")
    names = ["no-pi", "heteroscedastic-dropout", "tram", "tram [PI shuffled]"]
    bins = pd.DataFrame({"confidence": [0.5, 0.9], "accuracy": [0.5, 0.8], "count": [10, 90]})
    made = {}
    for kind, methods, people in (("plain", names, [f"worker {i}" for i in range(50)]), ("hostile", None, None)):
        methods, people = methods or ["no-pi", *make.hostile], people or make.hostile
        found = make.compared(methods, metrics=("nll", "accuracy", "brier", "ece"), controls=methods[-1:])
        texts = {"command": " ".join(people), "versions": dict(zip(people, people, strict=True))}
        texts = {"notes": people} | texts if kind == "hostile" else {"command": "lupi compare"}
        reliability = pd.concat([bins.assign(method=name) for name in methods[:3]])
        found = replace(found, reliability=reliability, notes=texts.get("notes", []))
        facts = {name: value for name, value in texts.items() if name != "notes"}
        made[f"comparison-{kind}"] = comparison_page(found), facts
        made[f"diagnosis-{kind}"] = replace(make.diagnosed(people), notes=found.notes).page, facts
    made["large"] = make.diagnosed([f"worker {i}" for i in range(200)], 6000).page, {}
    return {name: write_report(page, folder / f"{name}.html", **facts) for name, (page, facts) in made.items()}


PAGES = ["comparison-plain", "diagnosis-plain", "comparison-hostile", "diagnosis-hostile"]


@pytest.fixture
def numbers(tmp_path):
    """A page with one table: names, numbers, and numbers that are shown as words."""
    frame = pd.DataFrame(
        {
            "name": ["b10", "b9", "a", None, "C"],
            "count": [9, 10, 100, -1, 0],
            "score": [0.10001, 0.1, np.nan, -2.5, np.inf],
            "words": [3.0, 1.0, 2.0, np.nan, 20.0],
        }
    )
    table = Table(caption="Numbers.", frame=frame, texts={"words": ["9 three", "8 one", "7 two", "6 none", "5 twenty"]})
    page = Page(title="Sorting", verdict="Sorted.", sections=[Section(heading="Table", tables=[table])])
    return write_report(page, tmp_path / "sort.html")


def click(browser, column):
    browser.run(f"document.querySelectorAll('thead th')[{column}].querySelector('button').click()")


def busy(browser):
    """Seconds of computing so far."""
    found = browser.call("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in found if each["name"] == "TaskDuration")


@pytest.mark.parametrize("name", PAGES)
def test_the_console_is_silent_no_request_leaves_and_names_stay_text(browser, pages, name):
    browser.open(pages[name])
    assert browser.run("document.querySelectorAll('table button').length") > 0
    for place in range(3):
        click(browser, place)
    assert browser.complaints() == ([], [])
    counts = browser.run("['h1', 'script', 'style', 'img', 'title'].map(tag => document.querySelectorAll(tag).length)")
    in_figures = browser.run("document.querySelectorAll('svg title').length")
    assert counts == [1, 1, 1, 0, 1 + in_figures]
    attributes = browser.run("[...new Set([...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()))]")
    assert [each for each in attributes if each.startswith("on")] == []


def test_hostile_names_are_shown_as_they_are(browser, pages, make):
    browser.open(pages["diagnosis-hostile"])
    shown = set(browser.run(COLUMN % 0))
    for text in make.hostile:
        plain = text.replace("\u202e", "").replace("\x00", "").replace("\x07", "")
        assert (plain if len(plain) <= 200 else plain[:199] + "…") in shown


def test_what_the_policy_forbids_is_noticed(browser, tmp_path):
    bad = "<svg><script>document.title = 'taken'</script></svg><img src='https://example.invalid/x.png'>"
    page = Page(title="Mine", verdict="", sections=[Section(heading="Bad", figures=[Figure(bad, "")])])
    browser.open(write_report(page, tmp_path / "bad.html"))
    said, _ = browser.complaints()
    assert sum("Content Security Policy" in str(line) for line in said) == 2
    assert browser.run("document.title") == "Mine"


@pytest.mark.nightly
@pytest.mark.parametrize("name", PAGES)
def test_ids_are_unique_and_what_is_referred_to_is_there(browser, pages, name):
    browser.open(pages[name])
    code = """(() => {
      const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
      const used = [...document.querySelectorAll('use')].map(e => e.getAttribute('href').slice(1));
      for (const e of document.querySelectorAll('[aria-labelledby]'))
        used.push(...e.getAttribute('aria-labelledby').split(' '));
      return [ids.length - new Set(ids).size, used.filter(id => !document.getElementById(id)), used.length];
    })()"""
    twice, lost, used = browser.run(code)
    assert (twice, lost) == (0, [])
    assert used > 20


@pytest.mark.nightly
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_cut_or_too_small_and_the_page_never_scrolls_sideways(browser, pages, name, width):
    browser.open(pages[name], width=width, height=800)
    assert browser.run("document.documentElement.scrollWidth") <= width
    for wide, letters, lost in browser.run(FIGURES):
        assert wide <= width
        assert letters >= 7.5  # pixels
        assert lost == []
    cut = """[...document.querySelectorAll('p, li, h1, h2, figcaption, pre')]
             .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).map(e => e.textContent.slice(0, 40))"""
    assert browser.run(cut) == []


@pytest.mark.nightly
def test_a_wide_table_scrolls_in_its_own_box(browser, pages):
    browser.open(pages["comparison-plain"], width=360, height=800)
    box = browser.run("(b => [b.scrollWidth > b.clientWidth, b.clientWidth <= 360])(document.querySelector('.scroll'))")
    assert box == [True, True]


SECTIONS = "[...document.querySelectorAll('.scroll')].map(b => b.parentElement.querySelector('b').textContent)"
LINES = """[...document.querySelectorAll('tbody th')].map(cell => {
  const [box, range] = [new Set(), document.createRange()];
  range.selectNodeContents(cell);
  for (const part of range.getClientRects()) box.add(Math.round(part.top));
  return box.size;
})"""


@pytest.mark.nightly
def test_names_of_methods_take_at_most_two_lines_on_a_desk(browser, make, tmp_path):
    names = ["no-pi", "no-pi [5 averaged]", "heteroscedastic-dropout [PI shuffled]"]
    names += ["generalized-distillation [PI shuffled]", "full-marginalization [PI shuffled]"]
    page = comparison_page(make.compared(names, metrics=("nll", "accuracy", "brier", "ece")))
    browser.open(write_report(page, tmp_path / "report.html"))
    assert max(browser.run(LINES)) <= 2


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["comparison-plain", "diagnosis-plain"])
def test_on_a_phone_half_of_a_table_is_for_its_numbers(browser, pages, name):
    browser.open(pages[name], width=390)
    code = "[...document.querySelectorAll('.scroll')].map(b => b.querySelector('tbody th').offsetWidth / b.clientWidth)"
    assert max(browser.run(code)) < 0.5
    sizes = "[...document.querySelectorAll('td')].map(cell => parseFloat(getComputedStyle(cell).fontSize))"
    assert min(browser.run(sizes)) >= 14


@pytest.fixture(scope="module")
def decisions(make, tmp_path_factory):
    """What judges with long names said of texts, half of which have a true label, and what to do next."""
    rng = np.random.default_rng(0)
    truth, who = rng.integers(2, size=60), [f"Judge-{size}-Instruct" for size in ("1B", "8B", "70B")]
    label = np.where(rng.random((60, 3)) < [0.6, 0.75, 0.9], truth[:, None], 1 - truth[:, None])
    given = {"example": np.arange(60).repeat(3), "annotator": np.tile(who, 60)}
    given["gold"] = np.where(np.arange(60) < 30, truth.astype(float), np.nan).repeat(3)
    privileged, p = pd.DataFrame({"who": given["annotator"]}), np.full((180, 2), 0.5)
    problem = Problem(np.zeros((180, 1)), label.ravel(), privileged, probabilities=p, **given)
    findings = {check.name: check.run(problem) for check in (Next(), Judges(), Agreement(), Balance())}
    texts = {"text": [f"Text {i}: {'word ' * 30}" for i in range(50)]}
    found = Diagnosis(findings={**make.diagnosed(who, content=texts).findings, **findings})
    return write_report(found.page, tmp_path_factory.mktemp("decisions") / "report.html")


HEADINGS = """[...document.querySelectorAll('.scroll')].map(box => [box.scrollWidth - box.clientWidth,
  [...box.querySelectorAll('thead th')].filter(e => e.checkVisibility())
    .map(e => e.querySelector('span').textContent)])"""


def test_on_a_phone_the_important_columns_stay_on_screen(browser, decisions):
    browser.open(decisions, width=390)
    shown = dict(zip(browser.run(SECTIONS), browser.run(HEADINGS), strict=True))
    expected = {
        "Labels, the most suspicious first.": ["row", "given", "likely", "wrong"],
        "Examples to label next.": ["example", "label", "gain", "ask"],
        "Annotators by true labels, the least accurate first.": ["annotator", "accuracy", "alike"],
        "Pairs of annotators, the least agreeing first.": ["one", "other", "κ"],
        "Classes.": ["class", "share of labels", "recognized", "true rate"],
    }
    assert {name: shown[name] for name in expected} == {name: [0, columns] for name, columns in expected.items()}
    assert shown["Annotators."][0] == 0
    text = "[...document.querySelectorAll('td.below')].map(e => [e.textContent.slice(0, 7), e.offsetWidth])"
    assert browser.run(text)[0][0].startswith("Text ")
    assert min(width for _, width in browser.run(text)) > 300
    assert "A wider screen also shows" in browser.run("document.querySelector('main').innerText")
    assert browser.complaints() == ([], [])


def test_on_a_desk_every_column_and_the_text_beside_a_label_are_shown(browser, decisions):
    browser.open(decisions)
    shown = dict(zip(browser.run(SECTIONS), browser.run(HEADINGS), strict=True))
    assert all(past == 0 for past, _ in shown.values())
    assert shown["Labels, the most suspicious first."][1] == ["row", "example", "given", "likely", "wrong", "text"]
    assert "A wider screen also shows" not in browser.run("document.querySelector('main').innerText")
    first = browser.run("document.querySelector('.verdict').innerText.split('\\n')[0]")
    assert "information" not in first


@pytest.mark.nightly
def test_code_is_shown_without_backticks(browser, make, tmp_path):
    found = replace(make.diagnosed(["a", "b"]), notes=["See `lupi compare --test <b>`."])
    browser.open(write_report(found.page, tmp_path / "report.html"))
    assert browser.run("document.querySelector('main').innerText.includes('`')") is False
    assert "lupi compare --test <b>" in browser.run("[...document.querySelectorAll('code')].map(e => e.textContent)")


def test_numbers_sort_as_numbers(browser, numbers):
    browser.open(numbers)
    click(browser, 1)
    assert browser.run(COLUMN % 1) == ["100", "10", "9", "0", "−1"]
    assert browser.run(ORDERS) == ["none", "descending", "none", "none"]
    click(browser, 1)
    assert browser.run(COLUMN % 1) == ["−1", "0", "9", "10", "100"]
    assert browser.run(ORDERS) == ["none", "ascending", "none", "none"]


@pytest.mark.nightly
def test_numbers_sort_by_more_than_the_digits_shown_and_missing_ones_last(browser, numbers):
    browser.open(numbers)
    click(browser, 2)
    assert browser.run(COLUMN % 0) == ["C", "b10", "b9", "–", "a"]
    click(browser, 2)
    assert browser.run(COLUMN % 0) == ["–", "b9", "b10", "C", "a"]


@pytest.mark.nightly
def test_words_for_numbers_sort_by_the_numbers(browser, numbers):
    browser.open(numbers)
    click(browser, 3)
    assert browser.run(COLUMN % 3) == ["5 twenty", "9 three", "7 two", "8 one", "6 none"]


@pytest.mark.nightly
def test_names_sort_as_people_do_by_keyboard(browser, numbers):
    browser.open(numbers)
    browser.press("Tab")  # the box that scrolls
    browser.press("Tab")  # the first heading
    browser.press("Enter")
    assert browser.run(COLUMN % 0) == ["a", "b9", "b10", "C", "–"]
    browser.press(" ")
    assert browser.run(COLUMN % 0) == ["C", "b10", "b9", "a", "–"]
    assert browser.run(ORDERS)[0] == "descending"
    assert browser.run("document.activeElement.textContent") == "name"


@pytest.mark.nightly
def test_five_thousand_labels_sort_at_once_in_a_box_of_bounded_height(browser, pages):
    browser.open(pages["large"])
    last = "[...document.querySelectorAll('table')].at(-1)"
    assert browser.run(f"{last}.tBodies[0].rows.length") == 5000
    assert browser.run(f"{last}.parentElement.clientHeight") < 750
    browser.call("Performance.enable", timeDomain="threadTicks")  # which other processes do not slow down
    before = busy(browser)
    browser.run(f"{last}.tHead.rows[0].cells[0].querySelector('button').click()")
    first = browser.run(f"{last}.tBodies[0].rows[0].cells[0].textContent")
    assert busy(browser) - before < 3
    assert int(first) > 4990
    assert browser.run("document.querySelectorAll('svg use title').length") == 200


@pytest.mark.nightly
def test_headings_stay_in_sight(browser, pages):
    browser.open(pages["diagnosis-plain"])
    code = """(box => { box.scrollTop = 300;
      return box.querySelector('thead th').getBoundingClientRect().top - box.getBoundingClientRect().top;
    })([...document.querySelectorAll('.scroll')].at(-1))"""
    assert abs(browser.run(code)) <= 2


def test_the_page_is_complete_without_script(browser, numbers):
    browser.open(numbers, script=False)
    root = browser.call("DOM.getDocument", depth=-1)["root"]
    html = browser.call("DOM.getOuterHTML", nodeId=root["nodeId"])["outerHTML"]
    assert "<button" not in html
    assert html.count("<tr") == 6
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


LIGHT = """(colour => {
  const part = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
})"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", PAGES[:2])
@pytest.mark.parametrize("dark", [False, True])
def test_text_and_marks_stand_out_in_light_and_dark(browser, pages, name, dark):
    browser.open(pages[name], dark=dark)
    paper = browser.run(f"{LIGHT}(getComputedStyle(document.body).backgroundColor)")
    assert paper < 0.05 if dark else paper > 0.9

    def contrasts(selector, what):
        style = f"getComputedStyle(e).{what}"
        code = f"[...document.querySelectorAll('{selector}')].map(e => {style}).filter(c => c.startsWith('rgb'))"
        lights = browser.run(f"[...new Set({code})].map({LIGHT})")
        assert lights
        return [(max(light, paper) + 0.05) / (min(light, paper) + 0.05) for light in lights]

    assert min(contrasts("p, h1, h2, td, th, figcaption, small", "color")) >= 4.5
    assert min(contrasts("svg text", "fill")) >= 4.5
    marks = [each for each in contrasts("svg use, svg path", "stroke") if each > 1.01]  # paper is paper
    assert min(marks) >= 3


@pytest.mark.nightly
def test_figures_have_names_and_descriptions(browser, pages):
    browser.open(pages["diagnosis-plain"])
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    names = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") in ("img", "image")]
    browser.call("Accessibility.disable")
    assert len(names) == browser.run("document.querySelectorAll('svg').length") == 3
    assert any(
        "probabilities that labels are wrong" in name and "more likely wrong than right" in name for name in names
    )


@pytest.mark.nightly
def test_print_is_light_and_short(browser, pages):
    browser.open(pages["large"], media="print", dark=True)
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown = """[...document.querySelectorAll('table')].map(t =>
        [...t.tBodies[0].rows].filter(row => getComputedStyle(row).display !== 'none').length)"""
    assert max(browser.run(shown)) == 40
    assert browser.run("getComputedStyle([...document.querySelectorAll('.print')].at(-1)).display") == "block"
    browser.open(pages["diagnosis-plain"])
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert 1 < pdf.count(b"/Type /Page\n") < 10


def test_a_point_tells_who_it_is(browser, pages):
    browser.open(pages["diagnosis-plain"])
    tips = browser.run("[...document.querySelectorAll('svg use title')].map(e => e.textContent)")
    assert json.dumps(tips).count("worker 17:") == 1


@pytest.fixture(scope="module")
def page_with_confusions(make, tmp_path_factory):
    """A diagnosis with confusion matrices, where some names are hostile."""
    people = [*make.hostile, *(f"worker {i}" for i in range(30))]
    cells = [{"annotator": who, "true": t, "given": g} for who in people for t in "ab" for g in "ab"]
    confusions = pd.DataFrame(cells).assign(count=2.0, probability=[0.9, 0.1, 0.25, 0.75] * len(people))
    found = make.diagnosed(people, confusions=confusions, classes="ab")
    classes = Finding(table=pd.DataFrame({"class": ["a", "b"]}), section=Section(heading="Classes"))
    found = replace(found, findings={**found.findings, "balance": classes})
    return write_report(found.page, tmp_path_factory.mktemp("page") / "report.html")


ROWS = "[...document.querySelectorAll('section')].find(s => s.querySelector('h2').textContent == '%s')"
SHOWN = ROWS + ".querySelector('tbody').querySelectorAll('tr:not([hidden])').length"


WRITE = "(() => { const box = %s.querySelector('input'); box.value = '%s'; box.dispatchEvent(new Event('input')); })()"


def test_a_box_filters_the_rows_of_long_tables(browser, page_with_confusions):
    browser.open(page_with_confusions)
    assert browser.run(SHOWN % "Annotators") > 30
    browser.run(WRITE % (ROWS % "Annotators", "WORKER 2"))
    assert browser.run(SHOWN % "Annotators") == 11  # worker 2 and worker 20 to 29
    assert browser.run(ROWS % "Annotators" + ".querySelector('output').textContent").startswith("11 of ")
    browser.run(WRITE % (ROWS % "Annotators", "no such"))
    assert browser.run(SHOWN % "Annotators") == 0
    browser.run(WRITE % (ROWS % "Annotators", ""))
    assert browser.run(SHOWN % "Annotators") > 30
    assert browser.run(ROWS % "Classes" + ".querySelector('input')") is None  # two rows need no filter
    assert browser.complaints() == ([], [])


def download(browser, folder, heading):
    """Press the button of a section's table, and return the file."""
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.run(ROWS % heading + ".querySelector('.tools button').click()")
    file, end = folder / f"{heading.lower()}.csv", time.monotonic() + 10
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return pd.read_csv(file)


def test_tables_are_downloaded_as_csv_without_formulas(browser, page_with_confusions, tmp_path):
    browser.open(page_with_confusions)
    table = download(browser, tmp_path, "Annotators")
    assert len(table) == browser.run(SHOWN % "Annotators")
    assert list(table)[:3] == ["annotator", "labels", "agreement"]
    assert table["support"].is_monotonic_increasing  # values, not texts
    assert not table["annotator"].str.match(r"[=+\-@]").any()
    assert browser.complaints() == ([], [])


@pytest.mark.nightly
def test_what_is_filtered_and_sorted_is_downloaded_as_shown(browser, page_with_confusions, tmp_path):
    browser.open(page_with_confusions)
    browser.run(WRITE % (ROWS % "Annotators", "worker 2"))
    browser.run(ROWS % "Annotators" + ".querySelectorAll('thead button')[1].click()")
    table = download(browser, tmp_path, "Annotators")
    assert table["annotator"].tolist() == [f"worker {i}" for i in (*range(29, 19, -1), 2)]  # by labels, the most first
    assert table["labels"].is_monotonic_decreasing


def test_annotators_open_to_their_confusion_matrix(browser, page_with_confusions):
    browser.open(page_with_confusions)
    opened = ROWS % "Annotators" + ".querySelectorAll('details')[%d]"
    assert browser.run(f"{opened % 3}.open") is False
    browser.run(f"{opened % 3}.querySelector('summary').click()")
    assert browser.run(f"{opened % 3}.open")
    cells = browser.run(
        f"[...{opened % 3}.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert cells == [["a", "0.90", "0.10"], ["b", "0.25", "0.75"]]
    assert browser.run(f"{opened % 3}.querySelector('table').getBoundingClientRect().height") > 20
    assert browser.complaints() == ([], [])


@pytest.mark.nightly
@pytest.mark.parametrize("width", [1280, 390])
def test_tools_and_details_fit_the_page(browser, page_with_confusions, width):
    browser.open(page_with_confusions, width=width)
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_labels_have_pictures(browser, make, tmp_path):
    file = io.BytesIO()
    Image.new("RGB", (96, 48), "green").save(file, "JPEG")
    address = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
    content = {"photo": [f'"><script>{i}.png' for i in range(30)]}
    found = make.diagnosed(["ann", "bob"], 30, content=content, pictures={"photo": [address, None, address]})
    page = write_report(found.page, tmp_path / "page.html")
    for width in (1280, 390):
        browser.open(page, width=width)
        images = "[...document.images].map(i => [i.naturalWidth, i.alt, i.closest('tr').cells[5].textContent])"
        expected = [[96, f'photo: "><script>{i}.png', f'"><script>{i}.png'] for i in (0, 2)]
        assert browser.run(images) == expected
        assert browser.run("Math.max(...[...document.images].map(i => i.getBoundingClientRect().width))") <= 96
        said, urls = browser.complaints()
        assert said == []
        assert set(urls) == {address}  # which leaves the machine as little as the page does
    column = browser.run("[...document.querySelectorAll('thead th')].findIndex(h => h.textContent.includes('photo'))")
    click(browser, column)  # the images move with their rows
    assert sorted(browser.run(images)) == expected
