import copy
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from torch import nn

from lupi import PrivilegedClassifier, methods, training
from lupi.data import Annotations
from lupi.estimators import base
from lupi.likelihoods import Categorical
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.tabular import TableEncoder
from tests.estimators.helpers import REAL, X_NEW, A, X, Y, classifier, crowd, regressor

# -------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("model", [classifier(), regressor()], ids=["classifier", "regressor"])
def test_arrays_and_frames_give_equal_predictions(model):
    y = Y if isinstance(model, PrivilegedClassifier) else REAL
    names = ["x0", "x1", "x2"]
    arrays = clone(model).fit(X, y, privileged=A)
    pandas = clone(model).fit(pd.DataFrame(X, columns=names), y, privileged=A)
    polars = clone(model).fit(pl.DataFrame(X, schema=names), y, privileged=pl.from_pandas(A))
    expected = arrays.predict(X_NEW)
    np.testing.assert_array_equal(pandas.predict(pd.DataFrame(X_NEW, columns=names)), expected)
    np.testing.assert_array_equal(polars.predict(pl.DataFrame(X_NEW, schema=names)), expected)
    np.testing.assert_array_equal(pandas.predict(pl.DataFrame(X_NEW, schema=names)), expected)
    assert pandas.feature_names_in_.tolist() == polars.feature_names_in_.tolist() == names


def test_the_dtype_of_arrays_does_not_matter():
    whole = np.round(3 * X)
    expected = classifier().fit(whole, Y, privileged=A).predict_proba(whole)
    for dtype in (np.float32, int, object):
        np.testing.assert_array_equal(
            classifier().fit(whole.astype(dtype), Y, privileged=A).predict_proba(whole.astype(dtype)), expected
        )


def test_inputs_may_be_categories():
    table = pd.DataFrame({"size": X[:, 0], "city": np.array(["Bern", "Rome", "Paris"])[Y], "open": X[:, 1] > 0})
    model = classifier(learning_rate=0.02, epochs=60).fit(table, Y, privileged=A)
    assert model.widths_["inputs"] == 5
    assert model.score(table, Y) > 0.95
    unseen = model.predict_proba(table.assign(city="Oslo"))
    np.testing.assert_allclose(unseen.sum(1), 1)
    other = classifier(learning_rate=0.02, epochs=60).fit(table.astype({"city": "category"}), Y, privileged=A)
    np.testing.assert_array_equal(other.predict_proba(table), model.predict_proba(table))


def test_inputs_are_standardized():
    model = classifier().fit(X, Y, privileged=A)
    moved = classifier().fit(1e4 * X + 1e6, Y, privileged=A)
    np.testing.assert_allclose(moved.predict_proba(1e4 * X + 1e6), model.predict_proba(X), atol=1e-5)


def test_inputs_are_left_alone():
    table, privileged = pd.DataFrame(X, columns=list("uvw")), A.copy()
    before = X.copy(), Y.copy(), table.copy(), privileged.copy()
    classifier().fit(table, Y, privileged=privileged, example=np.arange(60)).predict(table)
    classifier().fit(X, Y, privileged=privileged)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Y, before[1])
    pd.testing.assert_frame_equal(table, before[2])
    pd.testing.assert_frame_equal(privileged, before[3])


# -------------------------------------------------------------------------------- privileged information


@pytest.mark.parametrize("method", ["tram", "two-step-tram", "full-marginalization"])
def test_without_privileged_information_a_method_warns_and_trains(method):
    with pytest.warns(UserWarning, match=rf"no `privileged` information.* '{method}'") as warned:
        model = classifier(method).fit(X, Y)
    assert warned[0].filename == __file__
    assert model.predict_proba(X).shape == (60, 3)


@pytest.mark.parametrize("method", ["no-pi", "distillation"])
def test_without_privileged_information_others_are_silent(method):
    expected = classifier(method).fit(X, Y, privileged=A).predict_proba(X)
    np.testing.assert_array_equal(classifier(method).fit(X, Y).predict_proba(X), expected)


@pytest.mark.parametrize("method", ["dawid-skene", "auto"])
def test_methods_that_learn_from_labels_alone_are_silent_too(method):
    assert classifier(method).fit(X, Y).predict_proba(X).shape == (60, 3)


@pytest.mark.parametrize(("method", "members"), [("label-posterior", 1), ("auto", 1), ("auto", 2)])
def test_methods_that_stop_by_themselves_hold_nothing_out(method, members):
    how = {"members": members, "epochs": 2}
    expected = classifier(method, **how).fit(X, Y, privileged=A).predict_proba(X)
    model = classifier(method, patience=1, training={"validation_fraction": 0.5}, **how).fit(X, Y, privileged=A)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_several_members_are_averaged():
    model = classifier("tram", members=3).fit(X, Y, privileged=A)
    each = [torch.softmax(member.predictor()(model._encode_inputs(X)), -1) for member in model.method_.members]
    np.testing.assert_allclose(model.predict_proba(X), torch.stack(each).mean(0).detach().numpy(), atol=1e-6)
    assert not torch.equal(each[0], each[1])


@pytest.mark.parametrize("members", [0, 1.5, "two"])
def test_the_number_of_members_is_checked(members):
    with pytest.raises(ValueError, match=f"`members`.*{members}"):
        classifier(members=members).fit(X, Y, privileged=A)


def test_the_mixture_is_a_distribution_over_methods():
    mixture = classifier("auto").fit(X, Y, privileged=A).mixture_
    assert list(mixture) == ["no-pi", "mean-imputation", "pi-transition", "linear"]
    assert sum(mixture.values()) == pytest.approx(1)
    with pytest.raises(AttributeError, match=r"mixes others.*'tram'"):
        classifier("tram").fit(X, Y, privileged=A).mixture_  # noqa: B018


def test_privileged_information_may_be_in_any_container():
    expected = classifier().fit(X, Y, privileged=A).predict_proba_given(X, A)
    for table in (pl.from_pandas(A), A.to_numpy(dtype=object), A.to_numpy(dtype=object).tolist()):
        model = classifier().fit(X, Y, privileged=table)
        np.testing.assert_array_equal(model.predict_proba_given(X, table), expected)
    one = classifier().fit(X, Y, privileged=A["seconds"])
    np.testing.assert_array_equal(one.predict_proba_given(X, A["seconds"]), one.predict_proba_given(X, A[["seconds"]]))


def test_kinds_of_privileged_columns_reach_the_encoder():
    names = classifier(kind={"seconds": "standardized"}).fit(X, Y, privileged=A).privileged_encoder_
    assert names.get_feature_names_out().tolist()[-2:] == ["annotator=missing", "seconds"]
    model = classifier().fit(X, Y, privileged=A)
    assert model.widths_["privileged"] == 4 + 10


def test_equal_index_in_another_order_is_refused():
    table = pd.DataFrame(X, columns=list("uvw"))
    shuffled = A.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"`privileged`.* index.* row 0 is 0 in X"):
        classifier().fit(table, Y, privileged=shuffled)
    labels = pd.Series(Y)
    with pytest.raises(ValueError, match=r"X and `y` to have the same index, but row 0 is 0 in X and \d+ in `y`"):
        classifier().fit(table, labels.sample(frac=1, random_state=0), privileged=A)
    with pytest.raises(ValueError, match="X and `example` to have the same index"):
        classifier().fit(table, labels, privileged=A, example=labels[::-1])
    model = classifier().fit(table, Y, privileged=A)
    with pytest.raises(ValueError, match="the same index"):
        model.predict_proba_given(table, shuffled)
    missing = pd.Index([*range(59), np.nan])  # an index may have a missing value
    classifier().fit(table.set_axis(missing), Y, privileged=A.set_axis(missing))


# -------------------------------------------------------------------------------- examples


class Counting(nn.Linear):
    """A trunk that counts the rows it sees in training."""

    rows = 0

    def forward(self, x):
        Counting.rows += x.shape[0] * self.training
        return super().forward(x)


@pytest.mark.parametrize(
    ("options", "batch_size"),
    [({"draw": "examples"}, 7), ({"draw": "annotations"}, 1000)],
    ids=["by example", "one batch"],
)
@pytest.mark.parametrize("method", ["no-pi", "tram", "pi-dual", "heteroscedastic-dropout"])
def test_the_trunk_sees_an_example_once(method, options, batch_size, monkeypatch):
    monkeypatch.setattr(Counting, "rows", 0)
    X, y, privileged, ids = crowd(examples=30, each=3)
    model = classifier(method, trunk=Counting(3, 4), training=options, batch_size=batch_size, epochs=2)
    model.fit(X.astype(np.float32), y, privileged=privileged, example=ids)
    assert Counting.rows == 2 * 30
    model.fit(X.astype(np.float32), y, privileged=privileged)
    assert Counting.rows == 2 * 30 + 2 * 90


@pytest.mark.parametrize("draw", ["annotations", "examples"])
def test_fit_with_examples_is_fit_on_annotations(draw):
    X, y, privileged, ids = crowd()
    named = np.array([f"image {i}" for i in ids])
    model = classifier("tram", kind={"a0": "standardized"}, training={"draw": draw})
    model.fit(X, y, privileged=privileged, example=named)

    order = list(dict.fromkeys(named))  # as they come first
    row = torch.tensor([order.index(name) for name in named])
    x = np.stack([X[named == name][0] for name in order])
    x = (x - x.mean(0)) / x.std(0)
    a = (privileged - privileged.mean()) / privileged.std()
    seed = int(np.random.RandomState(0).randint(2**31))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        parts = Parts(
            lambda: MLP(3, (8,)), features=8, privileged=1, outputs=2, likelihood=Categorical(), tower_widths=(8, 8)
        )
        method = methods.build("tram", parts)
    data = Annotations(
        torch.from_numpy(x).float(), row, torch.from_numpy(a).float(), torch.from_numpy(y.astype(np.int64))
    )
    training.fit(method, data, Settings(epochs=2, batch_size=32, draw=draw), seed=seed)
    with torch.no_grad():
        expected = torch.softmax(method.predictor()(data.x), 1)[row]
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["ints", "strings", "pandas", "polars", "list", "column"])
def test_ids_of_examples_may_be_of_any_type(kind):
    X, y, privileged, ids = crowd()
    same = {
        "ints": 5 * ids - 40,
        "strings": np.char.add("image ", ids.astype(str)),
        "pandas": pd.Series(ids, index=ids + 7, dtype="Int64"),
        "polars": pl.Series(ids),
        "list": ids.tolist(),
        "column": ids[:, None],
    }[kind]
    expected = classifier().fit(X, y, privileged=privileged, example=ids).predict_proba(X)
    result = classifier().fit(X, y, privileged=privileged, example=same).predict_proba(X)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", ["array", "pandas", "categories", "tensor"])
def test_rows_of_an_example_must_be_equal(kind):
    X, y, privileged, ids = crowd()
    later = np.flatnonzero(ids == ids[0])[1]
    wrong = X.copy()
    wrong[later, 1] += 1e-6
    parameters = {}
    if kind == "pandas":
        wrong = pd.DataFrame(wrong, columns=list("uvw"))
    elif kind == "categories":
        wrong = pd.DataFrame({"u": X[:, 0], "v": pd.Categorical(np.where(np.arange(90) == later, "odd", "even"))})
    elif kind == "tensor":
        parameters, wrong = {"trunk": nn.Linear(3, 2)}, torch.from_numpy(wrong)
    with pytest.raises(ValueError, match=f"`example`.* rows 0 and {later} of example {ids[0]} "):
        classifier(**parameters).fit(wrong, y, privileged=privileged, example=ids)


# -------------------------------------------------------------------------------- randomness


@pytest.mark.parametrize("method", ["tram", "het-tram", "tram-plus-plus", "heteroscedastic-dropout"])
def test_fits_with_equal_seeds_are_equal(method):
    first, second, third = (classifier(method, random_state=seed).fit(X, Y, privileged=A) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.history_ == second.history_
    assert (first.predict_proba(X) != third.predict_proba(X)).any()


def test_random_state_may_be_a_numpy_generator():
    state = np.random.RandomState(0)
    first = classifier(random_state=state).fit(X, Y, privileged=A).predict_proba(X)
    second = classifier(random_state=state).fit(X, Y, privileged=A).predict_proba(X)
    assert (first != second).any()
    again = classifier(random_state=np.random.RandomState(0)).fit(X, Y, privileged=A).predict_proba(X)
    np.testing.assert_array_equal(first, again)


def test_the_global_random_state_is_left_alone():
    numpy, pytorch = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    model = classifier("het-tram", patience=1).fit(X, Y, privileged=A)
    model.predict_proba(X)
    model.predict_proba_given(X, A)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy[1])  # noqa: NPY002
    assert np.random.get_state()[2] == numpy[2]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), pytorch)


def test_the_global_random_state_does_not_matter():
    torch.manual_seed(1)
    first = classifier("het-tram").fit(X, Y, privileged=A).predict_proba(X)
    torch.manual_seed(2)
    np.testing.assert_array_equal(classifier("het-tram").fit(X, Y, privileged=A).predict_proba(X), first)


# -------------------------------------------------------------------------------- your own parts


def images(n=60):
    """Pictures of a bar, lying or standing."""
    rng = np.random.default_rng(0)
    standing = rng.integers(2, size=n)
    pictures = 0.1 * rng.normal(size=(n, 1, 8, 8))
    for picture, place, up in zip(pictures, rng.integers(8, size=n), standing, strict=True):
        picture[0, :, place] += up
        picture[0, place] += 1 - up
    return pictures, standing, rng.normal(size=(n, 2))


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten())


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, torch.float32, torch.float64], ids=str)
def test_a_trunk_of_your_own_may_take_images(dtype):
    X, y, privileged = images()
    X = torch.from_numpy(X).to(dtype) if isinstance(dtype, torch.dtype) else X.astype(dtype)
    model = classifier(trunk=Net(), epochs=40, learning_rate=0.01).fit(X, y, privileged=privileged)
    assert model.score(X, y) > 0.9
    assert model.predict_proba_given(X, privileged).shape == (60, 2)


def test_a_trunk_is_copied_and_a_callable_makes_one():
    X, y, privileged = images()
    trunk = Net()
    before = copy.deepcopy(trunk.state_dict())
    model = classifier(trunk=trunk).fit(X, y, privileged=privileged)
    assert all(torch.equal(value, before[name]) for name, value in trunk.state_dict().items())
    assert any(not torch.equal(value, before[name]) for name, value in model.method_.trunk.state_dict().items())
    made = classifier(trunk=Net).fit(X, y, privileged=privileged)
    np.testing.assert_array_equal(
        made.predict(X), classifier(trunk=lambda: Net()).fit(X, y, privileged=privileged).predict(X)
    )
    assert isinstance(made.method_.trunk, Net)


@pytest.mark.parametrize("kind", ["array", "tensor", "frame", "read-only"])
def test_a_trunk_of_your_own_may_take_tokens(kind):
    rng = np.random.default_rng(0)
    tokens = rng.integers(20, size=(80, 5))
    y = (tokens < 3).any(1).astype(int)
    if kind == "read-only":
        tokens.setflags(write=False)
    X = {"tensor": torch.tensor(tokens), "frame": pd.DataFrame(tokens)}.get(kind, tokens)
    model = classifier(trunk=nn.EmbeddingBag(20, 8), epochs=100, learning_rate=0.02)
    model.fit(X, y, privileged=rng.normal(size=80), example=np.arange(80))
    assert model.score(X, y) > 0.9


def test_a_method_may_be_your_own():
    def mine(parts, beta=1.0):
        assert parts.outputs == 3
        assert parts.tower_widths == (8, 8)
        return methods.TRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head(), beta=beta)

    model = classifier(mine, method_options={"beta": 0.5}).fit(X, Y, privileged=A)
    named = classifier("tram", method_options={"beta": 0.5}).fit(X, Y, privileged=A)
    np.testing.assert_array_equal(model.predict_proba(X), named.predict_proba(X))
    np.testing.assert_array_equal(model.predict_proba_given(X, A), named.predict_proba_given(X, A))


def test_method_options_and_widths_reach_the_network():
    model = classifier("het-tram", method_options={"factors": 2, "heads": "marginal"}, hidden=[7, 6])
    model.fit(X, Y, privileged=A)
    assert model.method_.marginal.factors == 2
    assert isinstance(model.method_.conditional, nn.Linear)
    assert model.method_.conditional.in_features == 8
    linear = classifier("no-pi", hidden=()).fit(X, Y)
    assert linear.predictor_[1].in_features == 3


# -------------------------------------------------------------------------------- training


@pytest.mark.parametrize("method", ["no-pi", "tram", "two-step-tram", "distilled-tram", "pi-dual"])
def test_patience_holds_out_examples(method, monkeypatch):
    seen = {}

    def watch(method, data, settings, *, validation, **rest):
        seen.update(data=data, validation=validation)
        return training.fit(method, data, settings, validation=validation, **rest)

    monkeypatch.setattr(base, "fit", watch)
    X, y, _, ids = crowd(examples=30, each=3)
    who = np.arange(90) % 4
    model = classifier(method, patience=2, training={"validation_fraction": 0.2}, epochs=3)
    model.fit(X, y, privileged=pd.DataFrame({"annotator": [f"w{one}" for one in who]}), example=ids)
    train, held = (set(seen[part].row.tolist()) for part in ("data", "validation"))
    assert len(held) == 6
    assert train.isdisjoint(held)
    assert train | held == set(range(30))
    assert len(seen["validation"]) == 18  # an example with all of its labels
    order = {one: number for number, one in enumerate(pd.unique(ids))}
    for part, rows in (("data", train), ("validation", held)):
        mine = [who[i] for i in range(90) if order[ids[i]] in rows]
        assert seen[part].annotator.tolist() == mine
    for row in model.history_:
        held_out = {name: loss for name, loss in row.items() if name.startswith("validation_")}
        own = {name.replace("train_", "validation_") for name in row if name.startswith("train_")}
        stops_by_consensus = method == "pi-dual" and row["stage"] == "train"
        assert set(held_out) == ({"validation_consensus"} if stops_by_consensus else own)
        assert held_out
        assert all(map(np.isfinite, held_out.values()))


def test_patience_stops_and_keeps_the_best():
    model = classifier("no-pi", patience=2, epochs=100, learning_rate=0.3, training={"validation_fraction": 0.3}).fit(
        X, Y
    )
    losses = [row["validation_marginal"] for row in model.history_]
    assert len(losses) < 100
    assert len(losses) == int(np.argmin(losses)) + 1 + 2


def test_without_patience_nothing_is_held_out():
    model = classifier().fit(X, Y, privileged=A)
    assert [row["epoch"] for row in model.history_] == [1, 2]
    assert not any(name.startswith("validation") for row in model.history_ for name in row)


def test_training_options_reach_the_loop():
    options = {"optimizer": "sgd", "schedule": "cosine", "clip": 1.0, "warmup": 0.5}
    model = classifier(training=options, learning_rate=0.05, epochs=4).fit(X, Y, privileged=A)
    rates = [row["learning_rate"] for row in model.history_]
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < rates[0] <= 0.05


def test_training_resumes_from_a_checkpoint(tmp_path):
    checkpoint = training.Checkpoint(tmp_path / "state.pt", every=1)
    first = classifier(training={"checkpoint": checkpoint}).fit(X, Y, privileged=A)
    assert (tmp_path / "state.pt").is_file()
    again = classifier(training={"checkpoint": checkpoint}).fit(X, Y, privileged=A)
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))


def test_progress_is_shown_only_if_verbose(capsys):
    classifier().fit(X, Y, privileged=A)
    assert capsys.readouterr() == ("", "")
    classifier(verbose=True).fit(X, Y, privileged=A)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(r"train epoch 2/2 train_marginal \d", printed.err)


def test_privileged_encoder_is_fitted_on_annotations():
    """Inputs are standardized over examples, privileged columns over annotations."""
    X, y, _, ids = crowd(examples=20, each=2)
    keep = np.flatnonzero((ids > 0) | (np.arange(40) == np.flatnonzero(ids == 0)[0]))
    X, y, ids, seconds = X[keep], y[keep], ids[keep], np.arange(len(keep), dtype=float)
    model = classifier().fit(X, y, privileged=seconds, example=ids)
    once = X[np.unique(ids, return_index=True)[1]]
    np.testing.assert_allclose(model.input_encoder_.transform(once).mean(0), 0, atol=1e-6)
    expected = TableEncoder(privileged=True).fit(seconds).transform(seconds).toarray()
    np.testing.assert_array_equal(model.privileged_encoder_.transform(seconds).toarray(), expected)


def test_processes_take_the_seed_of_the_first():
    class Fabric:
        def broadcast(self, value):
            raise KeyError(value)  # far enough

    seed = int(np.random.RandomState(3).randint(2**31))
    with pytest.raises(KeyError, match=str(seed)):
        PrivilegedClassifier("no-pi", training={"fabric": Fabric()}, random_state=3).fit(X, Y)
