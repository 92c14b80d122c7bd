import json
import os
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch import nn

import lupi
from lupi import PrivilegedClassifier, methods
from lupi._internal import files
from lupi.estimators import folder as model_folder
from lupi.estimators.packing import pack_model
from tests.estimators.helpers import A_NEW, IMAGES, LABELS, QUICK, RNG, X_NEW, A, Net, X, Y

FILES = ("model.json", "weights.safetensors", "encoders.json")


def possible(names):
    """Methods with the kinds of labels that they take."""
    return [
        (method, labels)
        for method in names
        for labels, (_, _, likelihood) in LABELS.items()
        if likelihood in methods.kind(method).likelihoods
    ]


def fitted(method="tram", labels="classes", **parameters):
    kind, y, _ = LABELS[labels]
    return kind(method, **QUICK | parameters).fit(X, y, privileged=A)


def expected_y(model, X):
    return model.predict_proba(X) if isinstance(model, PrivilegedClassifier) else model.predict(X)


def predict_given(model, X, privileged):
    name = "predict_proba_given" if isinstance(model, PrivilegedClassifier) else "predict_given"
    return getattr(model, name)(X, privileged)


# -------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize(
    ("method", "labels"), possible(["no-pi", "tram", "two-step-tram", "full-marginalization", "auto"])
)
def test_a_model_comes_back(method, labels, tmp_path):
    model = fitted(method, labels)
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model")
    np.testing.assert_array_equal(expected_y(loaded, X_NEW), expected_y(model, X_NEW))
    np.testing.assert_array_equal(loaded.predict(X_NEW), model.predict(X_NEW))
    if isinstance(model.method_, methods.Conditional):
        np.testing.assert_array_equal(predict_given(loaded, X_NEW, A_NEW), predict_given(model, X_NEW, A_NEW))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == sorted(FILES)
    assert not loaded.method_.training


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["no", "so", "yes"]),
        np.array(["no", "so", "yes"], dtype=object),
        np.array([3, 50, 700]),
        np.array([3, 50, 70], dtype=np.uint8),
        np.array([2**63, 2**63 + 1], dtype=np.uint64),
        np.array([1, 2, 4], dtype=np.float32),
        np.array([False, True]),
    ],
    ids=["str", "object", "int", "uint8", "uint64", "float32", "bool"],
)
def test_classes_keep_their_type(classes, tmp_path):
    y = classes[np.arange(60) % len(classes)]
    model = PrivilegedClassifier("tram", **QUICK).fit(X, y, privileged=A)
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype == y.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.predict(X).dtype == y.dtype


def test_names_categories_and_parameters_come_back(tmp_path):
    table = pd.DataFrame({"size": X[:, 0], "city": RNG.choice(["Bern", "Rome"], 60), "open": X[:, 1] > 0})
    model = PrivilegedClassifier(
        "het-tram",
        method_options={"factors": np.int64(2)},
        kind={"seconds": "standardized"},
        annotator=np.int64(0),
        training={"schedule": "step", "milestones": (1, 2)},
        l2=np.float64(0.01),
        **QUICK | {"hidden": [9, 7]},
    ).fit(table, Y, privileged=A)
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["size", "city", "open"]
    assert loaded.n_features_in_ == 3
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(table[["city", "size", "open"]])
    with pytest.raises(ValueError, match="Expected privileged information with columns"):
        loaded.predict_proba_given(table, A[["seconds"]])
    assert (loaded.method, loaded.l2, loaded.kind) == ("het-tram", 0.01, {"seconds": "standardized"})
    assert loaded.annotator == 0
    refitted = clone(loaded).set_params(random_state=0).fit(table, Y, privileged=A)
    np.testing.assert_array_equal(refitted.predict_proba(table), model.predict_proba(table))


@pytest.mark.filterwarnings("ignore:.*got no `privileged` information:UserWarning")
def test_a_model_without_privileged_information_comes_back(tmp_path):
    with pytest.warns(UserWarning, match="no `privileged`"):
        model = PrivilegedClassifier("tram", **QUICK).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="fitted with `privileged`"):
        loaded.predict_proba_given(X, A)


def test_a_loaded_model_is_saved_again(tmp_path):
    fitted("full-marginalization").save(tmp_path / "first")
    lupi.load(tmp_path / "first").save(tmp_path / "second")
    for name in ("weights.safetensors", "model.json"):
        one, other = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second"))
        if name == "model.json":
            one, other = ({**json.loads(text), "sha256": None} for text in (one, other))
        assert one == other


def test_model_json_says_what_the_model_is(tmp_path):
    fitted("mean-imputation").save(tmp_path / "model")
    facts = json.loads((tmp_path / "model" / "model.json").read_text())
    assert facts["format"] == 5
    assert facts["estimator"] == "PrivilegedClassifier"
    assert facts["method"] == "mean-imputation"
    assert facts["ships_privileged"] is True
    assert facts["widths"]["outputs"] == 3


def test_loading_leaves_the_random_state_alone(tmp_path):
    fitted().save(tmp_path / "model")
    before = torch.get_rng_state()
    lupi.load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


# -------------------------------------------------------------------------------- your own parts


def own_method(parts, beta=1.0):
    return methods.TRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head(), beta=beta)


@pytest.mark.parametrize("trunk", [Net(), Net], ids=["module", "callable"])
def test_a_trunk_of_your_own_is_passed_again(trunk, tmp_path):
    model = PrivilegedClassifier("tram", trunk=trunk, **QUICK).fit(IMAGES, Y, privileged=A)
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model", trunk=trunk)
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), model.predict_proba(IMAGES))
    with pytest.raises(ValueError, match=r"`trunk`.* None"):
        lupi.load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"size mismatch for trunk"):
        lupi.load(tmp_path / "model", trunk=Net(5))


def test_a_method_of_your_own_is_passed_again(tmp_path):
    model = fitted(own_method, method_options={"beta": 0.5})
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model", method=own_method)
    assert loaded.method_.beta == 0.5
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match=r"`method`.* None"):
        lupi.load(tmp_path / "model")


@pytest.mark.parametrize("part", [{"trunk": Net()}, {"method": own_method}], ids=["trunk", "method"])
def test_a_part_that_the_model_was_trained_without_is_refused(part, tmp_path):
    fitted().save(tmp_path / "model")
    (name,) = part
    with pytest.raises(ValueError, match=f"`{name}` to be None"):
        lupi.load(tmp_path / "model", **part)


def test_weights_may_be_tied(tmp_path):
    trunk = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    trunk[2].weight = trunk[0].weight
    model = fitted(trunk=trunk)
    model.save(tmp_path / "model")
    loaded = lupi.load(tmp_path / "model", trunk=trunk)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_parameters_must_be_json(tmp_path):
    model = fitted()
    model.method_options = {"beta": {1, 2}}
    with pytest.raises(TypeError, match=r"JSON.* \{1, 2\}"):
        model.save(tmp_path / "model")
    assert not any(tmp_path.iterdir())


# -------------------------------------------------------------------------------- writing


@pytest.fixture(scope="module")
def models():
    return fitted(random_state=1), fitted(random_state=2)


def same(path, model):
    return np.array_equal(lupi.load(path).predict_proba(X), model.predict_proba(X))


def test_a_model_is_replaced(models, tmp_path):
    old, new = models
    old.save(tmp_path / "deep" / "model")
    new.save(str(tmp_path / "deep" / "model"))
    assert same(tmp_path / "deep" / "model", new)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model"]
    assert (tmp_path / "deep" / "model").stat().st_mode & 0o777 == 0o755


def test_other_files_beside_a_model_are_kept(models, tmp_path):
    old, new = models
    old.save(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("mine")
    (tmp_path / "model" / "data").mkdir()
    (tmp_path / "model" / "data" / "table.csv").write_text("1")
    new.save(tmp_path / "model")
    assert (tmp_path / "model" / "README.md").read_text() == "mine"
    assert (tmp_path / "model" / "data" / "table.csv").read_text() == "1"
    assert same(tmp_path / "model", new)


def test_files_of_folders_beside_a_model_are_kept_whatever_their_names(models, tmp_path):
    models[0].save(tmp_path / "model")
    (tmp_path / "model" / "older").mkdir()
    (tmp_path / "model" / "older" / "model.json").write_text("mine")
    models[1].save(tmp_path / "model")
    assert (tmp_path / "model" / "older" / "model.json").read_text() == "mine"


def test_notes_go_with_their_model(models, tmp_path):
    """A card must not describe the model that came after."""
    path = tmp_path / "model"
    model_folder.save_model_folder(
        path, pack_model(models[0]), {"README.md": "of the first", "extra.txt": "of the first"}
    )
    assert (path / "README.md").read_text() == "of the first"
    assert same(path, models[0])
    (path / "mine.txt").write_text("mine")
    model_folder.save_model_folder(path, pack_model(models[1]), {"README.md": "of the second"})
    assert sorted(os.listdir(path)) == sorted([*FILES, "README.md", "mine.txt"])
    assert (path / "README.md").read_text() == "of the second"
    models[0].save(path)
    assert sorted(os.listdir(path)) == sorted([*FILES, "mine.txt"])
    assert same(path, models[0])


def test_an_empty_folder_and_a_link_are_written_to(models, tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("model", target_is_directory=True)
    for model in models:
        model.save(tmp_path / "link")
        assert same(tmp_path / "model", model)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    models[0].save(".")
    monkeypatch.chdir(tmp_path)
    assert same("here", models[0])


@pytest.mark.parametrize("kind", ["file", "folder", "another model.json", "broken model.json"])
def test_what_is_not_a_model_is_not_replaced(kind, models, tmp_path):
    path = tmp_path / "model"
    if kind == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        name, text = {
            "folder": ("thesis.tex", "mine"),
            "another model.json": ("model.json", '{"modelTopology": {}}'),
            "broken model.json": ("model.json", '{"format": 1'),
        }[kind]
        (path / name).write_text(text)
    before = {found: found.is_file() and found.read_text() for found in tmp_path.rglob("*")}
    with pytest.raises(FileExistsError, match=re.escape(str(path))):
        models[0].save(path)
    assert {found: found.is_file() and found.read_text() for found in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("where", ["encoding", "copying", "moving"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_save_that_fails_leaves_the_old_model(where, error, models, tmp_path, monkeypatch):
    old, new = models
    old.save(tmp_path / "model")

    def fail(*_, **__):
        raise error

    targets = {
        "encoding": (json, "dumps", fail),
        "copying": (shutil, "copytree", fail),
        "moving": (files, "swap", fail),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*targets[where])
        with pytest.raises(type(error)):
            new.save(tmp_path / "model")
    assert same(tmp_path / "model", old)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    new.save(tmp_path / "model")
    assert same(tmp_path / "model", new)


def test_death_between_two_renames_loses_no_model(models, tmp_path):
    models[0].save(tmp_path / "model")
    (tmp_path / "model").rename(files.hidden_path(tmp_path / "model", files.OLD))
    assert same(tmp_path / "model", models[0])


def test_a_model_that_is_replaced_while_it_is_read_is_one_of_both(tmp_path, monkeypatch):
    models = [
        PrivilegedClassifier("no-pi", epochs=1, random_state=seed).fit([[0.0], [1.0]], ["no", "yes"]) for seed in (0, 1)
    ]
    models[0].save(tmp_path / "model")
    read, reads = Path.read_bytes, []

    def replace_once(path):
        content = read(path)
        reads.append(path.name)
        if len(reads) == 1:
            models[1].save(tmp_path / "model")
        return content

    monkeypatch.setattr(Path, "read_bytes", replace_once)
    found = lupi.load(tmp_path / "model")
    np.testing.assert_array_equal(found.predict_proba([[0.5]]), models[1].predict_proba([[0.5]]))


# -------------------------------------------------------------------------------- bad folders


@pytest.fixture
def saved(models, tmp_path):
    models[0].save(tmp_path / "model")
    return tmp_path / "model"


def refused(path, message, kind=ValueError):
    with pytest.raises(kind) as caught:
        lupi.load(path)
    text = str(caught.value)
    assert re.match(message, text), text
    assert str(path) in text


def reseal(path):
    """Update the digests of changed files, as an attacker would."""
    facts = json.loads((path / "model.json").read_text())
    facts["sha256"] = {name: model_folder.hash_bytes((path / name).read_bytes()) for name in FILES[1:]}
    facts["sha256"]["model.json"] = model_folder.hash_bytes(model_folder.encode_facts(facts))
    (path / "model.json").write_text(json.dumps(facts))


def edit(path, **changes):
    facts = json.loads((path / "model.json").read_text()) | changes
    (path / "model.json").write_text(json.dumps(facts))


def test_a_resealed_model_loads(saved):
    reseal(saved)
    lupi.load(saved)


def test_a_missing_folder_is_refused(tmp_path):
    refused(tmp_path / "model", ".* does not exist", FileNotFoundError)


def test_an_empty_folder_is_refused(tmp_path):
    refused(tmp_path, ".* has no model.json", FileNotFoundError)


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "model").write_text("")
    refused(tmp_path / "model", ".* has no model.json", FileNotFoundError)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(name, saved):
    (saved / name).unlink()
    refused(saved, f".* has no {name}", FileNotFoundError)


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_named(name, share, saved):
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[: int(share * len(content))])
    refused(saved, rf".*{name} .*(truncated|differs)")


def test_a_flipped_bit_is_noticed(saved):
    for name in FILES:
        content = (saved / name).read_bytes()
        for place in range(0, len(content), 3 if name == "model.json" else len(content) // 20):
            changed = bytearray(content)
            changed[place] ^= 1
            (saved / name).write_bytes(changed)
            refused(saved, r"Expected \S+ to (be unchanged|describe a model|be in format)")
        (saved / name).write_bytes(content)
    lupi.load(saved)


@pytest.mark.parametrize(
    "changes", [{"method": "no-pi"}, {"own_trunk": True}, {"estimator": "Other"}, {"new": 1}], ids=str
)
def test_edited_facts_are_noticed(changes, saved):
    edit(saved, **changes)
    refused(saved, r".*model.json .*differs")


@pytest.mark.parametrize("text", ["", "[]", "3", '{"format": 1}', '{"format": 1, "sha256": []}', "[" * 100_000])
def test_facts_that_are_something_else_are_refused(text, saved):
    (saved / "model.json").write_text(text)
    refused(saved, r".*model.json .*truncated or not JSON")


def test_an_older_format_says_to_train_again(saved):
    edit(saved, format=1)
    refused(saved, ".* format 5, but it is in format 1, .* train and save the model again.$")


def test_a_newer_format_says_to_upgrade(saved):
    edit(saved, format=6)
    refused(saved, ".* format 5, but it is in format 6: upgrade lupi.$")


def test_an_unknown_estimator_is_refused(saved):
    edit(saved, estimator="Other")
    reseal(saved)
    refused(saved, ".* PrivilegedClassifier, PrivilegedRegressor, but it holds a Other")


def test_each_file_is_read_once(saved, monkeypatch):
    read, reads = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path.name) or read(path))
    lupi.load(saved)
    assert sorted(reads) == sorted(FILES)


class Payload:
    """Runs code when it is made again."""

    ran = False

    def __reduce__(self):
        return (setattr, (Payload, "ran", True))

    def __getstate__(self):
        return {"a": 1}

    def __setstate__(self, state):
        Payload.ran = True


@pytest.mark.parametrize(
    "node",
    [
        {"class": "Payload", "state": {"a": 1}},
        {"class": "system", "state": {}},
        {"class": "TableEncoder"},
        {"array": [1], "dtype": "U100000000"},
        {"array": 10**9},
        {"other": 1},
    ],
    ids=["class", "function", "no state", "large strings", "no array", "nothing"],
)
def test_what_is_not_ours_is_refused(node, saved):
    (saved / "encoders.json").write_text(json.dumps({"dict": {"input_encoder_": node, "n_features_in_": 3}}))
    refused(saved, r".*encoders.json .*differs")
    reseal(saved)
    refused(saved, "Expected .* to hold a model of lupi, but got: ")


@pytest.mark.parametrize("name", FILES[1:])
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_is_refused(kind, name, saved):
    if kind == "pickle":
        (saved / name).write_bytes(pickle.dumps(Payload()))
    else:
        torch.save({"weights": Payload()}, saved / name)
    reseal(saved)
    refused(saved, "Expected .* to hold a model of lupi")
    assert not Payload.ran


def test_weights_of_another_model_are_refused(saved, tmp_path):
    fitted(hidden=(9,)).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "weights.safetensors", saved)
    reseal(saved)
    refused(saved, "Expected .* to hold a model of lupi, but got: .*size mismatch")


def test_a_link_to_itself_is_refused(models, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=r"^Expected \S+loop to be a new folder or a model to replace, but it is a loop"):
        models[0].save(tmp_path / "loop")
