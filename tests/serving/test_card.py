import re

import pytest

from lupi.serving.card import write_card
from lupi.tabular.schema import InputColumn, Schema
from lupi.tabular.spec import Roles

ROLES = Roles(target=("label",), privileged=("worker",), example="id", ignored=("gold",), inputs=("age", "note"))
INPUTS = {"age": InputColumn("number", "number"), "note": InputColumn("text", "string")}
RECORD = {
    "table": "t.csv",
    "rows": 1234,
    "examples": 617,
    "classes": ["no", "yes"],
    "epochs": 5,
    "seed": 7,
    "text_encoder": "TF-IDF",
    "notes": [],
    "command": "lupi train t.csv",
    "versions": {"lupi": "0.1", "torch": "2"},
}


def card(privileged=None, ships=False, whole=True, **changes):
    schema = Schema(ROLES, "classification", INPUTS, {"worker": "category"} if privileged is None else privileged)
    return write_card(
        schema, {"method": "tram", "ships_privileged": ships, "privileged": whole, "record": RECORD | changes}
    )


@pytest.mark.parametrize(
    "line",
    [
        "Trained with lupi 0.1 on 1,234 annotations of 617 examples in `t.csv`.",
        "- Task: classification of 2 classes: `no`, `yes`.",
        "- Method: `tram`, 5 epochs, seed 7.",
        "- Inputs, number: `age`.",
        "- Inputs, text: `note`.",
        "- Privileged, known in training only: `worker`.",
        "- Example: `id`.",
        "- Not used: `gold`.",
        "- Text encoder: TF-IDF.",
        '    lupi.load("FOLDER").predict(table)',
        "    lupi train t.csv",
        "lupi 0.1, torch 2.",
    ],
)
def test_it_says_what_the_model_is(line):
    assert line in card().splitlines()


def test_it_says_whether_the_predictor_contains_privileged_information():
    assert "The predictor contains no values of the privileged information. This folder also holds" in card()
    assert "The predictor contains values of the privileged information." in card(ships=True)
    assert "Training did not use privileged columns." in card(privileged={})


def test_it_says_what_the_folder_holds():
    assert "edges of bins. A folder saved with `lupi train --no-privileged`" in card()
    assert "edges of bins.\n" in card(ships=True)
    assert "only the predictor: no names" in card(whole=False)
    assert "edges of bins" not in card(whole=False)


def test_it_repeats_the_notes():
    assert "- Input column 'truth' sounds like" in card(notes=["Input column 'truth' sounds like"])


def test_regression_has_no_classes():
    assert "- Task: classification.\n" in card(classes=None)


def test_a_model_trained_in_python_has_no_command():
    assert "## Reproduce\nlupi 0.1" in card(command=None)


@pytest.mark.parametrize(
    "name", ["a\n# heading", "a`b", "``", "<img src=x>", "[a](javascript:b)", "\x1b[2J", "*a*", ""]
)
def test_names_cannot_add_lines_or_markup(name):
    roles = Roles(target=(name,), privileged=(name,), example=name, ignored=(name,), inputs=(name,))
    schema = Schema(roles, "classification", {name: InputColumn("text", "string")}, {name: "category"})
    record = RECORD | {"classes": [name], "notes": [f"Column {name} is odd."], "table": name, "text_encoder": name}
    facts = {"method": "tram", "ships_privileged": False, "privileged": True, "record": record | {"mixture": name}}
    text = write_card(schema, facts)
    plain = write_card(Schema(ROLES, "classification", INPUTS, {"worker": "category"}), facts | {"record": RECORD})
    extra = 2  # one note, one mixture; but inputs are of one kind
    assert abs(len(text.splitlines()) - len(plain.splitlines())) <= extra
    assert "\n# heading" not in text
    assert "\x1b" not in text
    outside = re.sub(r"(`+)[^`].*?[^`]\1(?!`)", "", text)  # code is shown as it is
    for markup in ("<img", "[a](", "*a*"):
        assert not re.search(rf"(?<!\\){re.escape(markup)}", outside)


def test_a_command_of_several_lines_stays_in_its_block():
    lines = card(command="lupi train 'a\n# heading'").splitlines()
    assert "    # heading'" in lines
