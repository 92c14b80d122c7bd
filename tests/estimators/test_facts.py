"""A model folder whose digests an attacker has updated is refused in one sentence, before it takes memory."""

import json
import resource

import numpy as np
import pandas as pd
import pytest
import torch

import lupi
from lupi.estimators import folder as model_folder
from lupi.estimators.packing import pack_model, restore
from tests.estimators.helpers import LABELS, QUICK, A, X
from tests.faults.folders import reseal


@pytest.fixture(scope="module")
def stored():
    """The contents of model folders, by the kind of labels."""
    return {
        labels: pack_model(kind("tram", **QUICK).fit(X, y, privileged=A)) for labels, (kind, y, _) in LABELS.items()
    }


def save(path, model, facts=None, encoders=None):
    """Write a model folder with changed contents and right digests."""
    changed = model._replace(facts=model.facts if facts is None else facts)
    model_folder.save_model_folder(path, changed if encoders is None else changed._replace(encoders=encoders))
    return path


def refused(path):
    with pytest.raises(ValueError, match=r"^Expected ") as caught:
        lupi.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def places(facts, path=()):
    """Every place in a JSON value."""
    for name in facts:
        yield (*path, name)
        if isinstance(facts[name], dict):
            yield from places(facts[name], (*path, name))


def changed_at(facts, path, value):
    """A copy of facts with another value at a place; none if the value is `...`."""
    facts = json.loads(json.dumps(facts, default=model_folder.to_plain))
    parent = facts
    for name in path[:-1]:
        parent = parent[name]
    if value is ...:
        parent.pop(path[-1])
    else:
        parent[path[-1]] = value
    return facts


VALUES = [..., None, "nonsense", -1, 0, 10**30, 0.5, True, [], {}, ["x"], {"x": {"y": 1}}, [10**9, 10**9]]


@pytest.mark.parametrize("labels", LABELS)
def test_every_change_of_the_facts_is_refused_or_harmless(labels, stored, monkeypatch):
    model = stored[labels]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refusals = []
    for place in places(model.facts):
        for value in VALUES:
            facts = changed_at(model.facts | {"format": 4, "notes": [], "sha256": {}}, place, value)
            monkeypatch.setattr(model_folder, "read_model_folder", lambda _, new=facts: model._replace(facts=new))
            try:
                loaded = lupi.load("folder")
            except ValueError as error:
                refusals.append(str(error))
            else:
                assert np.isfinite(loaded.predict(X)).all(), (place, value)
    assert len(refusals) > 200
    assert [text for text in refusals if not (text.startswith("Expected ") and "folder" in text)] == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A model folder with encodings of all sorts, and the rows of its training."""
    X = pd.DataFrame({"size": np.arange(24.0), "colour": list("abc") * 8, "note": ["a good one", "a bad one"] * 12})
    X = X.assign(place=[[0.5, i] for i in range(24)], gap=[None, 1.5, 2.5] * 8)
    A = pd.DataFrame({"worker": list("abcd") * 6, "seconds": np.arange(24.0), "comment": X["note"]})
    model = lupi.PrivilegedClassifier("tram", epochs=1).fit(X, ["no", "yes"] * 12, privileged=A)
    model.save(path := tmp_path_factory.mktemp("mixed"))
    return path, X, A


def json_places(value, path=()):
    """Every place in a JSON value, lists too."""
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, name)
            yield from json_places(one, (*path, name))


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_every_change_of_the_encoders_is_refused_or_harmless(mixed):
    path, X, A = mixed
    file = path / model_folder.ENCODERS
    original, refused, others = json.loads(file.read_bytes()), 0, []
    for place in json_places(original):
        for value in (..., "nonsense", ["x"], {"array": 0}, {"class": "Category", "state": {"argument": None}}):
            file.write_text(json.dumps(changed_at(original, place, value)))
            reseal(path)
            try:
                model = lupi.load(path)
                assert np.isfinite(model.predict_proba(X)).all(), (place, value)
                assert np.isfinite(model.predict_proba_given(X, A)).all(), (place, value)
            except ValueError as error:
                refused += 1
                others += [] if str(error).startswith("Expected ") else [(place, value, str(error))]
    assert others == []
    assert refused > 400


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": [10**6, 10**6]},
        {"hidden": [1] * 100_000},
        {"tower": [10**6, 10**6]},
        {"members": 10**9},
        {"method_options": {"random": 10**12}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_network_larger_than_its_weights_is_refused(changes, stored, tmp_path):
    model = stored["classes"]
    facts = model.facts | {"parameters": model.facts["parameters"] | changes}
    refused(save(tmp_path / "model", model, facts))


@pytest.mark.parametrize("name", ["inputs", "features", "outputs", "privileged"])
def test_widths_that_are_not_those_of_the_weights_are_refused(name, stored, tmp_path):
    model = stored["classes"]
    facts = model.facts | {"widths": model.facts["widths"] | {name: 10**9}}
    refused(save(tmp_path / "model", model, facts))


def test_an_endless_network_is_refused(stored, tmp_path):
    """ "stack" builds a network for every fold."""
    model = stored["classes"]
    options = model.facts["parameters"] | {"method_options": {"folds": 10**9}}
    refused(save(tmp_path / "model", model, model.facts | {"method": "stack", "parameters": options}))


def test_a_part_of_your_own_is_bounded_too(stored, tmp_path):
    model = stored["classes"]
    facts = model.facts | {"own_trunk": True, "widths": model.facts["widths"] | {"features": 10**6}}
    save(tmp_path / "model", model, facts)
    with pytest.raises(ValueError, match="size mismatch"):
        lupi.load(tmp_path / "model", trunk=torch.nn.Identity())


@pytest.mark.parametrize("name", ["input_encoder_", "n_features_in_", "target_", "privileged_encoder_"])
@pytest.mark.parametrize("value", [None, "nonsense", 7.5, {"a": 1}, np.zeros(3), np.array(["a", "b"])], ids=str)
def test_encoders_of_another_type_are_refused(name, value, stored, tmp_path):
    model = stored["classes"]
    path = save(tmp_path / "model", model, encoders=model.encoders | {name: value})
    if value is None and name == "privileged_encoder_":
        lupi.load(path)  # a model may have none
    else:
        refused(path)


def test_weights_of_another_type_are_refused(stored, tmp_path):
    model = stored["classes"]
    weights = {name: tensor.double() for name, tensor in model.weights.items()}
    assert "torch.float64" in refused(save(tmp_path / "model", model._replace(weights=weights)))


def test_loading_draws_no_weights():
    """A network is built without memory, and its weights are those of the file."""
    weights = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    network = restore(lambda: torch.nn.Linear(3, 2), weights, own=False)
    assert network.weight.data_ptr() == weights["weight"].data_ptr()
    assert network.weight.requires_grad
