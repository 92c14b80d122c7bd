"""Predictions and suspicious labels go back to labelling tools, in the formats that their import documents.

See https://labelstud.io/guide/predictions and https://docs.argilla.io/latest/how_to_guides/import_export.
"""

import json

import pandas as pd
import pytest

from lupi.importers import IMPORTERS, read_export
from lupi.importers.pre_annotations import send_back
from tests.cli.helpers import refused, run
from tests.importers.exports import EXPORTS, SEVERAL_QUESTIONS, write_json


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module", params=["label-studio", "argilla"])
def trip(request, tmp_path_factory):
    """Import an export, diagnose it, predict it, and send both back."""
    folder, tool = tmp_path_factory.mktemp("trip"), request.param
    export, table = SEVERAL_QUESTIONS[tool](folder), folder / "labels.parquet"
    succeed("import", tool, export, "-o", table)
    known = (
        "--privileged",
        "annotator,confidence",
        "--ignore",
        ",".join(name for name in read_export(tool, export).privileged if name not in ("annotator", "confidence")),
    )
    roles = ("--target", "label", *known, "--example", "example")
    succeed("diagnose", table, *roles, "--epochs", 1, "--jobs", 1, "--folds", 2, "-o", folder / "run")
    succeed("train", table, *roles, "--method", "no-pi", "--epochs", 2, "-o", folder / "model")
    succeed("predict", folder / "model", table, "-o", folder / "predictions.csv")
    added = ("--add", folder / "predictions.csv", "--add", folder / "run" / "labels.csv")
    result = succeed("import", tool, export, *added, "-o", folder / "back.json")
    assert result.stdout.splitlines()[-1].endswith("24 examples, 24 of them with pre-annotations or suspicions")
    return tool, folder, json.loads(export.read_text()), json.loads((folder / "back.json").read_text())


def test_predictions_and_suspicions_are_those_of_the_commands(trip):
    tool, folder, _, _ = trip
    again = read_export(tool, folder / "back.json").frame.set_index("example")
    predicted = pd.read_csv(folder / "predictions.csv", dtype={"example": str}).set_index("example")
    score = predicted.filter(like="probability_").max(axis="columns")
    suspicious = pd.read_csv(folder / "run" / "labels.csv", dtype={"example": str}).groupby("example")["wrong"].max()
    for example in again.index.unique():
        row = again.loc[example].iloc[0]
        assert row["lupi_wrong"] == pytest.approx(suspicious[example], abs=1e-5)
        last = "prediction (lupi)" if tool == "label-studio" else "prediction"
        assert row[last] == predicted["prediction"][example].iloc[0]
        assert row[last.replace("prediction", "prediction_score")] == pytest.approx(score[example].iloc[0], abs=1e-5)


def test_the_files_have_the_documented_form(trip):
    tool, _, before, after = trip
    for old, new in zip(before, after, strict=True):
        if tool == "label-studio":
            assert old["annotations"] == new["annotations"]
            assert new["data"].keys() - old["data"].keys() == {"lupi_wrong"}
            *others, own = new["predictions"]
            assert others == old["predictions"]
            assert own.keys() == {"model_version", "score", "result"}
            (result,) = own["result"]
            shown = old["annotations"][0]["result"][0]
            assert {name: result[name] for name in ("from_name", "to_name", "type")} == {
                name: shown[name] for name in ("from_name", "to_name", "type")
            }
            assert result["value"]["choices"][0] in ("yes", "no")
        else:
            assert {name: new[name] for name in ("id", "fields", "responses", "vectors")} == {
                name: old[name] for name in ("id", "fields", "responses", "vectors")
            }
            assert new["suggestions"]["sentiment"].keys() == {"value", "score", "agent"}
            assert 0 <= new["metadata"]["lupi_wrong"] <= 1


def test_pre_annotations_are_replaced_not_repeated(trip, tmp_path):
    tool, folder, _, after = trip
    send_back(IMPORTERS[tool], folder / "back.json", [folder / "run" / "consensus.csv"], tmp_path / "c.json")
    again = json.loads((tmp_path / "c.json").read_text())
    consensus = pd.read_csv(folder / "run" / "consensus.csv", dtype={"example": str}).set_index("example")
    for old, new in zip(after, again, strict=True):
        likely = consensus["label"][str(new["id"])]
        if tool == "label-studio":
            assert len(new["predictions"]) == len(old["predictions"])
            assert new["predictions"][-1]["result"][0]["value"] == {"choices": [likely]}
        else:
            assert new["suggestions"]["sentiment"]["value"] == likely


@pytest.mark.parametrize(
    ("kind", "value", "predicted", "expected"),
    [
        ("rating", {"rating": 4}, 2.7, {"rating": 3}),
        ("number", {"number": 4.5}, 2.5, {"number": 2.5}),
        ("taxonomy", {"taxonomy": [["animal", "cat"]]}, "animal / dog", {"taxonomy": [["animal", "dog"]]}),
        ("pairwise", {"selected": "left"}, "right", {"selected": "right"}),
    ],
)
def test_other_control_tags(tmp_path, kind, value, predicted, expected):
    shown = {"from_name": "tag", "to_name": "text", "type": kind, "value": value}
    tasks = [{"id": 7, "data": {"text": "good"}, "annotations": [{"result": [shown]}]}]
    pd.DataFrame({"example": [7], "prediction": [predicted]}).to_csv(tmp_path / "p.csv", index=False)
    export = write_json(tmp_path / "e.json", tasks)
    assert send_back(IMPORTERS["label-studio"], export, [tmp_path / "p.csv"], tmp_path / "o.json") == (1, 1)
    (prediction,) = json.loads((tmp_path / "o.json").read_text())[0]["predictions"]
    assert prediction["result"][0]["value"] == expected
    assert "score" not in prediction


def test_several_labels_and_ratings(tmp_path):
    answers = {"tags": [{"value": ["a"], "user_id": "u"}], "stars": [{"value": 4, "user_id": "u"}]}
    export = write_json(tmp_path / "e.json", [{"id": "r", "fields": {"text": "good"}, "responses": answers}])
    columns = {"example": ["r"], "prediction_label_a": [1], "prediction_label_b": [1], "probability_label_a": [0.9]}
    pd.DataFrame(columns).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"example": ["r"], "prediction": [2.6]}).to_csv(tmp_path / "q.csv", index=False)
    for number, (name, label) in enumerate((("p.csv", "tags"), ("q.csv", "stars"))):
        output = tmp_path / f"{number}.json"
        send_back(IMPORTERS["argilla"], export, [tmp_path / name], output, label=label)
        expected = {"tags": ["a", "b"], "stars": 3}[label]
        assert json.loads(output.read_text())[0]["suggestions"][label] == {"value": expected, "agent": "lupi"}


def test_what_is_refused(tmp_path):
    export, output = EXPORTS["label-studio"](tmp_path), tmp_path / "o.json"
    pd.DataFrame({"example": ["x"], "prediction": ["yes"]}).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"id": ["x"], "prediction": ["yes"]}).to_csv(tmp_path / "q.csv", index=False)
    pd.DataFrame({"example": ["x"], "size": [1]}).to_csv(tmp_path / "r.csv", index=False)
    add = ("--add", tmp_path / "p.csv")
    refused(run("import", "label-studio", export, *add, "-o", output), "examples of", "such as '0', but got 'x'")
    refused(run("import", "label-studio", export, "--add", tmp_path / "q.csv", "-o", output), "a column 'example'")
    refused(
        run("import", "label-studio", export, "--add", tmp_path / "r.csv", "-o", output), "`--add` to name tables of"
    )
    refused(run("import", "label-studio", export, *add, "-o", tmp_path / "o.csv"), "`--output` to be a .json file")
    refused(run("import", "label-studio", export, *add, "-o", export, "--overwrite"), "another file than the input")
    refused(run("import", "label-studio", export, *add, "--split", "a", "-o", output), "`--add` without")
    refused(run("import", "nothing", export, *add, "-o", output), "'nothing'")
    refused(run("import", "prodigy", EXPORTS["prodigy"](tmp_path), *add, "-o", output), "for label-studio or argilla")
    assert not output.exists()
