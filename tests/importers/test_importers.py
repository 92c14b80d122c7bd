"""What all importers have in common: equal contents become equal labels."""

import runpy
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pytest

from lupi.importers import IMPORTERS, read_export
from lupi.importers.wide import to_long
from tests.faults.folders import damage_export
from tests.importers.exports import ANNOTATORS, EXPORTS, SEVERAL_QUESTIONS, labels, write_lines

GIVEN = [(text, who, label) for _, text, who, label, _ in labels()]


def test_every_importer_has_an_export():
    assert list(EXPORTS) == list(SEVERAL_QUESTIONS) == list(IMPORTERS)


@pytest.mark.parametrize("tool", [tool for tool in EXPORTS if tool != "wide"])
def test_equal_contents_are_equal_labels(tool, tmp_path):
    table = read_export(tool, EXPORTS[tool](tmp_path))
    who = table.frame["annotator"].str.removeprefix("films-").replace(dict(zip("123", ANNOTATORS, strict=True)))
    found = list(zip(table.frame["text"], who, table.frame["label"], strict=True))
    assert sorted(found) == sorted(GIVEN)
    assert (table.target, table.example, table.gold) == (("label",), "example", None)
    if tool == "huggingface":  # its rows are examples
        repeated = "48 rows repeat the inputs of others: `example` names the column of their ids."
        assert table.notes == [repeated]
    else:
        assert table.notes == []
        assert (table.frame.groupby("text")["example"].nunique() == 1).all()


def test_a_wide_table_has_the_labels_of_its_cells(tmp_path):
    table = read_export("wide", EXPORTS["wide"](tmp_path))
    kept = [row for n, row in enumerate(labels()) if not (row[0] == 3 and row[2] == "eve")]
    expected = [(str(i), who, int(label == "yes")) for i, _, who, label, _ in kept]
    found = list(zip(table.frame["example"], table.frame["annotator"], table.frame["label"], strict=True))
    assert found == expected
    assert table.notes == ["Annotators: ann, bob, eve; inputs: x.", "1 of 72 cells have no label."]


def test_what_is_known_about_labels_is_privileged(tmp_path):
    facts = {tool: read_export(tool, make(tmp_path)).privileged for tool, make in EXPORTS.items() if tool != "wide"}
    predicted = ("prediction", "prediction_score", "prediction_version")
    assert facts == {
        "label-studio": ("annotator", "seconds", "timestamp", *predicted),
        "argilla": ("annotator", *predicted),
        "prodigy": ("annotator", "timestamp", "prediction_score"),
        "doccano": ("annotator",),
        "huggingface": ("annotator", "seconds"),
        "judges": ("annotator", "seconds"),
    }


@pytest.mark.parametrize("name", ["labels.parquet", "labels.csv"])
def test_tables_are_saved(name, tmp_path):
    table = read_export("label-studio", EXPORTS["label-studio"](tmp_path))
    table.save(tmp_path / name)
    read = pd.read_parquet(tmp_path / name) if name.endswith("parquet") else pd.read_csv(tmp_path / name)
    assert read["label"].tolist() == table.frame["label"].tolist()
    with pytest.raises(FileExistsError, match="`output` to be new"):
        table.save(tmp_path / name)
    table.save(tmp_path / name, overwrite=True)
    with pytest.raises(ValueError, match=r"`output` to be a \.parquet or \.csv file"):
        table.save(tmp_path / "labels.json")


@pytest.mark.parametrize(
    ("tool", "options", "message"),
    [
        ("labelbox", {}, "`tool` to be one of label-studio, argilla, .* 'labelbox'"),
        ("prodigy", {"split": "train"}, "'prodigy' to take the options `label`, but got `split`"),
        ("wide", {"split": "x"}, "'wide' to take the options `label`, `example`, `annotators`, but got `split`"),
    ],
)
def test_importers_and_options_that_do_not_exist(tool, options, message):
    with pytest.raises(ValueError, match=message):
        read_export(tool, "export.json", **options)


def test_an_export_that_does_not_exist():
    with pytest.raises(FileNotFoundError, match=r"there is no none\.json"):
        read_export("prodigy", "none.json")


@pytest.mark.parametrize("tool", ["label-studio", "argilla", "prodigy", "doccano", "judges"])
@pytest.mark.parametrize("text", ["[]", '[{"a": 1}]', "{", '[{"data": {}, "annotations": []}]'])
def test_files_that_are_no_exports(tool, text, tmp_path):
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(ValueError, match="Expected "):
        read_export(tool, tmp_path / "e.json")


TEXTS = ("Das ist ein Film.", "Das war ein Buch.", "Wer weiß das schon?")


@pytest.mark.parametrize(
    ("tool", "record", "options"),
    [
        ("prodigy", lambda text: {"text": "It is.", "accept": [text], "answer": "accept", "_annotator_id": "ann"}, {}),
        ("judges", lambda text: {"item": text, "judge": "m", "verdict": text, "input": "It is."}, {}),
        ("huggingface", lambda text: {"text": "It is.", "label": text}, {}),
        ("wide", lambda text: {"ann": text, "bob": f"{text} Ja."}, {"annotators": ["ann", "bob"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_free_text_is_no_label(tool, record, options, tmp_path):
    path = write_lines(tmp_path / "e.jsonl", [record(text) for text in TEXTS])
    with pytest.raises(ValueError, match=r"e\.jsonl to be classes or numbers, but they are free text such as 'Das ist"):
        read_export(tool, path, **options)


@pytest.mark.parametrize("missing", [None, -1])
def test_matrices_are_wide_tables(missing):
    matrix = pd.DataFrame([[0, 1], [1, missing], [2, 2]])
    long = to_long(matrix if missing is None else matrix.to_numpy()).frame
    assert long.to_dict("list") == {
        "example": ["0", "0", "1", "2", "2"],
        "label": [0, 1, 1, 2, 2],
        "annotator": ["0", "1", "0", "0", "1"],
    }


@pytest.mark.parametrize("tool", EXPORTS)
def test_exports_that_are_not_as_the_tool_writes_them(tool, tmp_path):
    """Whatever is changed in an export, it can be read, or the error names the file."""
    errors = []
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = EXPORTS[tool](folder)
        damage_export(folder, Random(number))
        try:
            read_export(tool, path)
        except (ValueError, OSError) as error:
            errors.append(str(error))
    assert all(error.startswith("Expected ") for error in errors), errors
    assert errors


def test_strings_whose_places_are_not_in_the_file(tmp_path):
    """Arrow would end the process if it were asked for such a string."""
    path = EXPORTS["huggingface"](tmp_path)
    file = path / "data-00000-of-00001.arrow"
    rows = pa.ipc.open_stream(file.read_bytes()).read_all()
    texts = rows.column("text").chunk(0)
    offsets = np.frombuffer(texts.buffers()[1], np.int32).copy()
    offsets[3] = -5
    broken = pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(offsets), texts.buffers()[2]])
    rows = rows.set_column(0, "text", pa.chunked_array([broken]))
    with pa.ipc.new_stream(str(file), rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(ValueError, match="dataset to be a readable table"):
        read_export("huggingface", path)


def test_the_page_says_what_each_importer_reads():
    script = runpy.run_path(str(Path(__file__).parents[2] / "docs" / ".scripts" / "importers.py"))
    page = script["PAGE"].read_text(encoding="utf-8")
    assert page == script["describe_importers"](), "Run `python docs/.scripts/importers.py`."
    assert all(f"\n### {tool}\n" in page for tool in IMPORTERS)
