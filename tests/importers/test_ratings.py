"""Ratings stay integers in imported tables, so that commands can tell that they may be grades."""

import json

import pytest

from lupi.importers import read_export
from lupi.tabular import TableSpec
from lupi.tabular.table_data import read_data

STARS = (1, 4, 5, 4)


def rate_in_label_studio(star, number):
    result = {"from_name": "stars", "to_name": "text", "type": "rating", "value": {"rating": star}}
    annotation = {"result": [result], "completed_by": number % 2}
    return {"id": number, "data": {"text": f"text number {number}"}, "annotations": [annotation]}


def rate_in_argilla(star, number):
    response = {"value": star, "user_id": f"u{number % 2}", "status": "submitted"}
    return {"id": str(number), "fields": {"text": f"text number {number}"}, "responses": {"stars": [response]}}


@pytest.mark.parametrize(("tool", "rate"), [("label-studio", rate_in_label_studio), ("argilla", rate_in_argilla)])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_imported_ratings_are_integers_and_noted(tmp_path, tool, rate, suffix):
    path, table = tmp_path / "export.json", tmp_path / f"labels.{suffix}"
    path.write_text(json.dumps([rate(star, number) for number, star in enumerate(STARS)]))
    found = read_export(tool, path)
    assert found.frame["label"].dtype.kind == "i"
    found.save(table)
    spec = {"table": table, "target": found.target, "privileged": found.privileged, "example": "example"}
    data = read_data(TableSpec(**spec))
    assert data.classes == (1, 4, 5)
    assert any("grades of a rating scale" in note for note in data.notes)
    assert read_data(TableSpec(**spec, scale="1,2,3,4,5")).classes == (1, 2, 3, 4, 5)
