import pytest

from lupi.serving.card import card
from lupi.tabular.tables import Input, Roles, Schema

ROLES = Roles(("label",), ("worker",), "id", ("gold",), ("age", "note"))
INPUTS = {"age": Input("number", "number"), "note": Input("text", "string")}
TRAINING = {
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


def written(privileged=None, ships=False, **changes):
    schema = Schema(ROLES, "classification", INPUTS, {"worker": "category"} if privileged is None else privileged)
    return card(schema, {"method": "tram", "ships_privileged": ships}, TRAINING | changes)


@pytest.mark.parametrize(
    "line",
    [
        "Trained by lupi 0.1 on 1,234 annotations of 617 examples in `t.csv`.",
        "- Task: classification of 2: `no`, `yes`.",
        "- Method: `tram`, 5 epochs, seed 7.",
        "- Inputs, number: `age`.",
        "- Inputs, text: `note`.",
        "- Privileged, known in training only: `worker`.",
        "- Example: `id`.",
        "- Not used: `gold`.",
        "- Text encoder: TF-IDF.",
        "    lupi train t.csv",
        "lupi 0.1, torch 2.",
    ],
)
def test_it_says_what_the_model_is(line):
    assert line in written().splitlines()


def test_it_says_what_ships():
    assert "The predictor ships no values of the privileged information. This folder also holds" in written()
    assert "The predictor ships values of the privileged information." in written(ships=True)
    assert "The method does not look at privileged columns." in written(privileged={})


def test_it_says_that_gold_labels_were_not_used():
    assert "Training read no gold labels" in written()
    assert "- Input column 'truth' sounds like" in written(notes=["Input column 'truth' sounds like"])


def test_real_numbers_have_no_classes():
    assert "- Task: classification.\n" in written(classes=None)
