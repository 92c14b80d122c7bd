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
    facts = {"method": "tram", "ships_privileged": ships, "privileged": whole, "record": RECORD | changes}
    return write_card(schema(ROLES, INPUTS, {"worker": "category"} if privileged is None else privileged), facts)


def schema(roles, inputs, privileged):
    return Schema(roles=roles, task="classification", soft=False, inputs=inputs, privileged=privileged, annotator=None)


def test_it_says_what_the_folder_holds():
    assert "Training did not use privileged columns." in card(privileged={})
    assert "The predictor contains no values of the privileged information. This folder also holds" in card()
    assert "The predictor contains values of the privileged information." in card(ships=True)
    assert "only the predictor: no names" in card(whole=False)
    assert "edges of bins" not in card(whole=False)


@pytest.mark.parametrize(
    "name", ["a\n# heading", "a`b", "``", "<img src=x>", "[a](javascript:b)", "\x1b[2J", "*a*", ""]
)
def test_names_cannot_add_lines_or_markup(name):
    roles = Roles(target=(name,), privileged=(name,), example=name, ignored=(name,), inputs=(name,))
    record = RECORD | {"classes": [name], "notes": [f"Column {name} is odd."], "table": name, "text_encoder": name}
    facts = {"method": "tram", "ships_privileged": False, "privileged": True, "record": record | {"mixture": name}}
    text = write_card(schema(roles, {name: InputColumn("text", "string")}, {name: "category"}), facts)
    plain = card()
    extra = 2  # one note, one mixture; but inputs are of one kind
    assert abs(len(text.splitlines()) - len(plain.splitlines())) <= extra
    assert "\n# heading" not in text
    assert "\x1b" not in text
    outside = re.sub(r"(`+)[^`].*?[^`]\1(?!`)", "", text)  # code is shown as it is
    for markup in ("<img", "[a](", "*a*"):
        assert not re.search(rf"(?<!\\){re.escape(markup)}", outside)


def test_it_says_which_device_trained():
    assert "seed 7.\n" in card()  # a folder of before
    history = [{"stage": "train", "device": "cuda:0"}]
    assert "5 epochs, seed 7, trained on `cuda:0`.\n" in card(history=history)


def test_a_command_of_several_lines_stays_in_its_block():
    lines = card(command="lupi train 'a\n# heading'").splitlines()
    assert "    # heading'" in lines
