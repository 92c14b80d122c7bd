from pathlib import Path

import pytest

from lupi.tabular import TableSpec
from lupi.tabular.spec import Roles


def spec_of(**options):
    return TableSpec(**{"table": Path("t.csv"), "target": ["label"]} | options)


def test_what_is_not_named_is_input():
    names = ["id", "age", "worker", "label", "gold", "city"]
    roles = Roles.of(spec_of(target=["label"], privileged=["worker"], example="id", ignore=["gold"]), names)
    assert roles.inputs == ("age", "city")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": []}, "`target`.*none"),
        ({"target": ["labl"]}, "`target`.*'labl'.*'label'"),
        ({"privileged": ["?"]}, r"`privileged`.*'\?'.*age, worker, label"),
        ({"example": "label"}, "'label'.*`target` and `example`"),
        ({"privileged": ["worker", "worker"]}, "'worker'.*`privileged` and `privileged`"),
        ({"gold": "label"}, "'label'.*`target` and `gold`"),
        ({"gold": "worker", "annotator": "worker"}, "'worker'.*`gold` and `annotator`"),
        ({"annotator": "label"}, "'label'.*`target` and `annotator`"),
        ({"gold": "?"}, r"`gold`.*'\?'"),
        ({"annotator": "?"}, r"`annotator`.*'\?'"),
        ({"ignore": ["age", "worker"]}, "to be inputs"),
    ],
)
def test_roles_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        Roles.of(spec_of(**{"target": ["label"]} | options), ["age", "worker", "label"])


def test_an_annotator_is_privileged_and_gold_is_ignored():
    names = ["age", "worker", "label", "truth"]
    roles = Roles.of(spec_of(annotator="worker", gold="truth"), names)
    assert (roles.privileged, roles.ignored, roles.inputs) == (("worker",), ("truth",), ("age",))
    assert Roles.of(spec_of(annotator="worker", ignore=["worker", "truth"], gold="truth"), names).privileged == ()
