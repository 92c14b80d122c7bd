import copy
import inspect
import pickle
import re
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import lupi
from lupi import PrivilegedClassifier, PrivilegedRegressor, methods, training
from lupi.data import Annotations, Batch
from lupi.estimators import base as estimators
from lupi.estimators.base import fit_together
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.nn import MLP, Parts
from lupi.tabular.encoding import PrivilegedEncoder
from lupi.training import fit
from lupi.training.replicas import Replicas

NO_PRIVILEGED = "ignore:.*got no `privileged` information:UserWarning"
QUICK = {"epochs": 2, "hidden": (8,), "tower": (8, 8), "random_state": 0}


def classifier(method="tram", **parameters):
    return PrivilegedClassifier(method, **QUICK | parameters)


def regressor(method="tram", **parameters):
    return PrivilegedRegressor(method, **QUICK | parameters)


def annotations(n=60, seed=0):
    """Inputs, labels of three classes, and privileged information with missing values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    annotator = rng.choice(["ann", "bob", "eve", None], n)
    seconds = np.where(rng.random(n) < 0.1, np.nan, rng.exponential(size=n))
    return X, y, pd.DataFrame({"annotator": pd.Series(annotator, dtype=object), "seconds": seconds})


RNG = np.random.default_rng(0)
X, Y, A = annotations()
X_NEW, _, A_NEW = annotations(25, seed=1)
REAL = X @ [1.0, -2.0, 0.5]
MULTI = np.stack([Y == 0, X[:, 2] > 0], 1).astype(int)


# -------------------------------------------------------------------------------- scikit-learn's checks


@pytest.mark.filterwarnings(NO_PRIVILEGED)
@parametrize_with_checks([PrivilegedClassifier(), PrivilegedRegressor()])
def test_scikit_learn(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------- metadata routing


class Spy(methods.NoPI):
    """Sees that the privileged information of every batch is that of its rows: a column that is linear in x."""

    uses_privileged = True
    batches = 0

    def losses(self, batch):
        pair = torch.stack([batch.x[batch.row, 0], batch.a[:, 0]])
        assert torch.corrcoef(pair)[0, 1] > 0.9999
        Spy.batches += 1
        return super().losses(batch)


def spy(parts):
    return Spy(parts.trunk(), parts.head(), likelihood=parts.likelihood)


def crowd(examples=30, each=3, classes=2):
    """A table where every example has several labels, in shuffled rows, and the privileged information is 2 x₀ + 1."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(examples), each))
    X = rng.normal(size=(examples, 3))[ids]
    y = np.where(rng.random(len(ids)) < 0.8, (X[:, 1] > 0).astype(int), rng.integers(classes, size=len(ids)))
    return X, y, 2 * X[:, :1] + 1, ids


def pipeline(**parameters):
    model = classifier(**{"method": spy, "numbers": "standardize", "epochs": 1, "batch_size": 15} | parameters)
    return Pipeline([("scale", StandardScaler()), ("model", model)])


def routed(routing, **metadata):
    return metadata if routing else {f"model__{name}": value for name, value in metadata.items()}


def grid_search(model, X, y, groups, parameters):
    search = GridSearchCV(model, {"model__learning_rate": [1e-3, 1e-2]}, cv=GroupKFold(3), error_score="raise")
    return search.fit(X, y, groups=groups, **parameters)


def grouped(groups, parameters):
    """Arguments of the functions of cross-validation, which take groups as metadata where routing is on."""
    if get_config()["enable_metadata_routing"]:
        return {"cv": GroupKFold(3), "params": {"groups": groups} | parameters}
    return {"cv": GroupKFold(3), "groups": groups, "params": parameters}


TOOLS = {
    "Pipeline": (lambda m, X, y, _, p: m.fit(X, y, **p), 1),
    "GridSearchCV": (grid_search, 7),
    "cross_validate": (lambda m, X, y, g, p: cross_validate(m, X, y, error_score="raise", **grouped(g, p)), 3),
    "cross_val_predict": (lambda m, X, y, g, p: cross_val_predict(m, X, y, **grouped(g, p)), 3),
    "CalibratedClassifierCV": (lambda m, X, y, _, p: CalibratedClassifierCV(m, cv=3).fit(X, y, **p), 3),
    "FixedThresholdClassifier": (lambda m, X, y, _, p: FixedThresholdClassifier(m).fit(X, y, **p), 1),
    "TunedThresholdClassifierCV": (lambda m, X, y, _, p: TunedThresholdClassifierCV(m, cv=3).fit(X, y, **p), 4),
}


@pytest.mark.parametrize("with_example", [False, True], ids=["rows", "examples"])
@pytest.mark.parametrize("routing", [False, True], ids=["routing off", "routing on"])
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_route_the_privileged_rows_of_each_fold(tool, routing, with_example, monkeypatch):
    monkeypatch.setattr(Spy, "batches", 0)
    X, y, privileged, ids = crowd()
    metadata = {"privileged": privileged, "example": ids} if with_example else {"privileged": privileged}
    run, fits = TOOLS[tool]
    if "Threshold" in tool and not routing:
        with pytest.raises(ValueError, match="only supported if enable_metadata_routing=True"):
            run(pipeline(), X, y, ids, routed(routing, **metadata))
        return
    with config_context(enable_metadata_routing=routing):
        run(pipeline(), X, y, ids, routed(routing, **metadata))
    assert Spy.batches >= 4 * fits  # 60 rows of a fold in batches of 15


@pytest.mark.parametrize("routing", [False, True], ids=["routing off", "routing on"])
def test_cross_validated_predictions_are_those_of_fits_on_the_folds(routing):
    X, y, privileged, ids = crowd()
    model = pipeline(method="tram")
    with config_context(enable_metadata_routing=routing):
        parameters = routed(routing, privileged=privileged, example=ids)
        result = cross_val_predict(model, X, y, **grouped(ids, parameters))
        search = grid_search(model, X, y, ids, parameters)
    for train, test in GroupKFold(3).split(X, y, ids):
        scaler = StandardScaler().fit(X[train])
        manual = clone(model["model"]).fit(
            scaler.transform(X[train]), y[train], privileged=privileged[train], example=ids[train]
        )
        np.testing.assert_array_equal(result[test], manual.predict(scaler.transform(X[test])))
    refitted = clone(model).set_params(**search.best_params_)
    refitted.fit(X, y, model__privileged=privileged, model__example=ids)
    np.testing.assert_array_equal(search.predict_proba(X), refitted.predict_proba(X))


@pytest.mark.parametrize("routing", [False, True], ids=["routing off", "routing on"])
def test_frames_keep_their_index_in_the_folds(routing):
    X, y, privileged, ids = crowd()
    index = pd.Index(RNG.permutation(len(ids)), name="annotation")
    table = pd.DataFrame(X, columns=list("uvw"), index=index)
    column = pd.DataFrame(privileged, columns=["seconds"], index=index)
    model = pipeline(method="tram").set_output(transform="pandas")
    with config_context(enable_metadata_routing=routing):
        frames = cross_val_predict(model, table, y, **grouped(ids, routed(routing, privileged=column)))
        arrays = cross_val_predict(model, X, y, **grouped(ids, routed(routing, privileged=privileged)))
        np.testing.assert_array_equal(frames, arrays)
        with pytest.raises(ValueError, match="the same index"):
            model.fit(table, y, **routed(routing, privileged=column[::-1]))


def test_a_search_may_set_numbers_of_numpy():
    search = GridSearchCV(classifier("no-pi"), {"epochs": np.arange(1, 3), "l2": np.logspace(-3, -2, 2)}, cv=2)
    assert search.fit(X, Y).best_params_["epochs"] in (1, 2)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "score"])
def test_predictions_never_take_privileged_information(name):
    assert "privileged" not in inspect.signature(getattr(PrivilegedClassifier, name)).parameters
    model = classifier().fit(X, Y, privileged=A)
    with pytest.raises(TypeError, match="privileged"):
        getattr(model, name)(X, *([Y] if name == "score" else []), privileged=A)


def test_fit_takes_metadata_by_keyword_alone():
    with pytest.raises(TypeError, match="positional"):
        classifier().fit(X, Y, A)


# -------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "so", "yes"]),
        np.array(["no", "so", "yes"], dtype=object),
        np.array([-5, 2, 70]),
        np.array([0.0, 1.0, 3.0]),
        np.array([1, 2, 200], dtype=np.uint8),
    ],
    ids=["str", "object", "int", "float", "uint8"],
)
def test_classes_are_the_labels_in_order(labels):
    model = classifier().fit(X, labels[Y], privileged=A)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype
    assert model.predict(X).dtype == labels.dtype
    coded = classifier().fit(X, Y, privileged=A)
    np.testing.assert_array_equal(model.predict_proba(X), coded.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), labels[coded.predict(X)])


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [([-5, 2, 70], object), ([-5, 2, 70], "Int64"), ([False, True, True], object), ([False, True, True], "boolean")],
)
def test_numbers_in_columns_of_pandas_are_numbers(labels, dtype):
    y = np.array(labels)[Y]
    model = classifier().fit(X, pd.Series(y.tolist(), dtype=dtype), privileged=A)
    assert model.predict(X).dtype == y.dtype
    assert model.classes_.tolist() == sorted(set(labels))


def test_boolean_labels():
    model = classifier().fit(X, Y > 0, privileged=A)
    assert model.predict(X).dtype == bool
    assert model.predict_proba(X).shape == (60, 2)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["no", "so", "yes"]),
        pd.Series(["no", "so", "yes"], dtype="category"),
        pd.Series(["no", "so", "yes"], dtype="string"),
        pl.Series(["no", "so", "yes"]),
        ["no", "so", "yes"],
    ],
    ids=["pandas", "pandas category", "pandas string", "polars", "list"],
)
def test_labels_in_any_container(labels):
    y = [labels[i] for i in Y] if isinstance(labels, list) else labels[Y]
    model = classifier().fit(X, y, privileged=A)
    assert model.classes_.tolist() == ["no", "so", "yes"]
    np.testing.assert_array_equal(model.predict_proba(X), classifier().fit(X, Y, privileged=A).predict_proba(X))


@pytest.mark.parametrize("dtype", [int, bool, float, np.float32])
def test_multi_label(dtype):
    y = MULTI.astype(dtype)
    y.setflags(write=False)
    model = classifier(epochs=40, learning_rate=0.02).fit(X, y, privileged=A)
    p = model.predict_proba(X)
    assert p.shape == (60, 2)
    np.testing.assert_array_equal(model.predict(X), p > 0.5)
    assert model.score(X, MULTI) > 0.8
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("method", methods.names())
def test_probabilities_sum_to_one(method):
    p = classifier(method).fit(X, Y, privileged=A).predict_proba(X_NEW)
    np.testing.assert_allclose(p.sum(1), 1, rtol=0, atol=1e-12)
    assert (p > 0).all()


def test_regression_follows_the_scale_of_y():
    model = regressor(epochs=5).fit(X, REAL, privileged=A)
    moved = regressor(epochs=5).fit(X, 1000 * REAL - 7000, privileged=A)
    np.testing.assert_allclose(moved.predict(X), 1000 * model.predict(X) - 7000, rtol=1e-3, atol=1)
    np.testing.assert_allclose(moved.predict_given(X, A), 1000 * model.predict_given(X, A) - 7000, rtol=1e-3, atol=1)


def test_regression_of_a_constant():
    model = regressor().fit(X, np.full(60, 5.0), privileged=A)
    assert (model.y_mean_, model.y_scale_) == (5.0, 1.0)
    assert np.isfinite(model.predict(X)).all()


def test_learning():
    """The conditional head knows what an honest annotator would say, though four in ten are not honest."""
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(600, 2)), rng.normal(size=(600, 2))
    liar = rng.random(600) < 0.4
    truth, truth_new = X[:, 0] + X[:, 1] > 0, X_new[:, 0] + X_new[:, 1] > 0
    y = np.where(liar, X[:, 0] > 0, truth)
    model = PrivilegedClassifier(epochs=20, random_state=0).fit(X, y, privileged=liar)
    assert model.score(X_new, truth_new) > 0.8
    honest = model.classes_[model.predict_proba_given(X_new, np.zeros(600, bool)).argmax(1)]
    assert (honest == truth_new).mean() > 0.95


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


def test_float32_and_integer_arrays():
    whole = np.round(3 * X)
    expected = classifier().fit(whole, Y, privileged=A).predict_proba(whole)
    for dtype in (np.float32, int, object):
        np.testing.assert_array_equal(
            classifier().fit(whole.astype(dtype), Y, privileged=A).predict_proba(whole.astype(dtype)), expected
        )


def test_categories_as_inputs():
    table = pd.DataFrame({"size": X[:, 0], "city": np.array(["Bern", "Rome", "Paris"])[Y], "open": X[:, 1] > 0})
    model = classifier(learning_rate=0.02, epochs=60).fit(table, Y, privileged=A)
    assert model.widths_["inputs"] == 5
    assert model.score(table, Y) > 0.95
    unseen = model.predict_proba(table.assign(city="Oslo"))
    np.testing.assert_allclose(unseen.sum(1), 1)
    other = classifier(learning_rate=0.02, epochs=60).fit(table.astype({"city": "category"}), Y, privileged=A)
    np.testing.assert_array_equal(other.predict_proba(table), model.predict_proba(table))


def test_inputs_are_standardised():
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


@pytest.mark.parametrize("method", [name for name in methods.names() if methods.kind(name).uses_privileged])
def test_without_privileged_information_a_method_warns_and_trains(method):
    with pytest.warns(UserWarning, match=rf"got no `privileged` information: method '{method}' trains") as warned:
        model = classifier(method).fit(X, Y)
    assert warned[0].filename == __file__
    assert model.predict_proba(X).shape == (60, 3)


@pytest.mark.parametrize("method", ["no-pi", "distillation"])
def test_without_privileged_information_others_are_silent(method):
    expected = classifier(method).fit(X, Y, privileged=A).predict_proba(X)
    np.testing.assert_array_equal(classifier(method).fit(X, Y).predict_proba(X), expected)


def test_privileged_information_in_any_container():
    expected = classifier().fit(X, Y, privileged=A).predict_proba_given(X, A)
    for table in (pl.from_pandas(A), A.to_numpy(dtype=object), A.to_numpy(dtype=object).tolist()):
        model = classifier().fit(X, Y, privileged=table)
        np.testing.assert_array_equal(model.predict_proba_given(X, table), expected)
    one = classifier().fit(X, Y, privileged=A["seconds"])
    np.testing.assert_array_equal(one.predict_proba_given(X, A["seconds"]), one.predict_proba_given(X, A[["seconds"]]))


def test_numbers_and_quantiles_reach_the_encoder():
    model = classifier(numbers={"seconds": "standardize"}).fit(X, Y, privileged=A)
    assert model.privileged_encoder_.kinds_ == {"annotator": "category", "seconds": "standardize"}
    model = classifier(quantiles=4).fit(X, Y, privileged=A)
    assert len(model.privileged_encoder_.edges_["seconds"]) == 3
    assert model.widths_["privileged"] == 4 + 4 + 1


def test_equal_index_in_another_order_is_refused():
    table = pd.DataFrame(X, columns=list("uvw"))
    shuffled = A.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"^Expected X and `privileged` to have the same index, but row 0 is 0 in X"):
        classifier().fit(table, Y, privileged=shuffled)
    model = classifier().fit(table, Y, privileged=A)
    with pytest.raises(ValueError, match="the same index"):
        model.predict_proba_given(table, shuffled)
    missing = pd.Index([*range(59), np.nan])  # an index may miss a value
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
    model = classifier("tram", numbers="standardize", training={"draw": draw})
    model.fit(X, y, privileged=privileged, example=named)

    order = list(dict.fromkeys(named))  # as they come first
    row = torch.tensor([order.index(name) for name in named])
    x = np.stack([X[named == name][0] for name in order])
    x = (x - x.mean(0)) / x.std(0)
    a = (privileged - privileged.mean()) / privileged.std()
    seed = int(np.random.RandomState(0).randint(2**31))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        method = methods.build(
            "tram",
            Parts(
                lambda: MLP(3, (8,)), features=8, privileged=1, outputs=2, likelihood=Categorical(), tower_widths=(8, 8)
            ),
        )
    data = Annotations(
        torch.from_numpy(x).float(), row, torch.from_numpy(a).float(), torch.from_numpy(y.astype(np.int64))
    )
    training.fit(method, data, training.Settings(epochs=2, batch_size=32, draw=draw), seed=seed)
    with torch.no_grad():
        expected = torch.softmax(method.predictor()(data.x), 1)[row]
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["ints", "strings", "pandas", "polars", "list", "column"])
def test_examples_by_any_ids(kind):
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
    message = (
        f"Expected rows with equal `example` ids to have equal X, but rows 0 and {later}, "
        f"both of example {ids[0]}, differ."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        classifier(**parameters).fit(wrong, y, privileged=privileged, example=ids)


# -------------------------------------------------------------------------------- randomness


@pytest.mark.parametrize("method", ["tram", "het-tram", "tram-plus-plus", "heteroscedastic-dropout"])
def test_random_state(method):
    first, second, third = (classifier(method, random_state=seed).fit(X, Y, privileged=A) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.history_ == second.history_
    assert (first.predict_proba(X) != third.predict_proba(X)).any()


def test_random_state_may_be_a_generator_of_numpy():
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
def test_images_with_a_network_of_your_own(dtype):
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
def test_tokens_with_a_network_of_your_own(kind):
    rng = np.random.default_rng(0)
    tokens = rng.integers(20, size=(80, 5))
    y = (tokens < 3).any(1).astype(int)
    if kind == "read-only":
        tokens.setflags(write=False)
    X = {"tensor": torch.tensor(tokens), "frame": pd.DataFrame(tokens)}.get(kind, tokens)
    model = classifier(trunk=nn.EmbeddingBag(20, 8), epochs=100, learning_rate=0.02)
    model.fit(X, y, privileged=rng.normal(size=80), example=np.arange(80))
    assert model.score(X, y) > 0.9


def test_a_method_of_your_own():
    def mine(parts, beta=1.0):
        assert parts.outputs == 3
        assert parts.tower_widths == (8, 8)
        return methods.TRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head(), beta=beta)

    model = classifier(mine, method_options={"beta": 0.5}).fit(X, Y, privileged=A)
    named = classifier("tram", method_options={"beta": 0.5}).fit(X, Y, privileged=A)
    np.testing.assert_array_equal(model.predict_proba(X), named.predict_proba(X))
    np.testing.assert_array_equal(model.predict_proba_given(X, A), named.predict_proba_given(X, A))


def test_method_options_and_widths():
    model = classifier("het-tram", method_options={"factors": 2, "heads": "marginal"}, tower_skip=True, hidden=[7, 6])
    model.fit(X, Y, privileged=A)
    assert model.method_.marginal.factors == 2
    assert isinstance(model.method_.conditional, nn.Linear)
    assert model.method_.conditional.in_features == 8 + 6
    linear = classifier("no-pi", hidden=()).fit(X, Y)
    assert linear.predictor_[1].in_features == 3


# -------------------------------------------------------------------------------- estimator's life


def test_clone_and_parameters():
    model = classifier("tram", trunk=Net(), training={"optimizer": "sgd"})
    copied = clone(model)
    assert copied.get_params().keys() == model.get_params().keys()
    assert copied.training == model.training
    assert copied.set_params(method="no-pi", epochs=3).get_params()["method"] == "no-pi"
    assert model.get_params()["method"] == "tram"
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


@pytest.mark.parametrize("method", methods.names())
def test_pickle_and_deepcopy(method):
    model = classifier(method).fit(X, Y, privileged=A)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(copied.predict_proba(X_NEW), model.predict_proba(X_NEW))


def test_refitting_forgets():
    model = classifier(method="no-pi").fit(pd.DataFrame(X, columns=list("uvw")), Y)
    model.fit(X[:, :2], Y > 0)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X[:, :2]).dtype == bool


def test_a_fit_that_failed_is_no_fit():
    model = classifier()
    with pytest.raises(ValueError, match="options"):
        model.set_params(method_options={"gamma": 1}).fit(X, Y, privileged=A)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("call", ["predict", "predict_proba", "predict_proba_given", "save", "export_onnx"])
def test_before_fit(call, tmp_path):
    arguments = {"predict_proba_given": (X, A), "save": (tmp_path / "m",), "export_onnx": (tmp_path / "m",)}
    with pytest.raises(NotFittedError):
        getattr(PrivilegedClassifier(), call)(*arguments.get(call, (X,)))


def test_lazy_names():
    assert lupi.PrivilegedClassifier is PrivilegedClassifier
    with pytest.raises(AttributeError, match="no attribute 'Tram'"):
        lupi.Tram  # noqa: B018


# -------------------------------------------------------------------------------- training


@pytest.mark.parametrize("method", ["no-pi", "tram", "two-step-tram", "distilled-tram", "pi-dual"])
def test_patience_holds_out_examples(method, monkeypatch):
    seen = {}

    def watch(method, data, settings, *, validation, **rest):
        seen.update(data=data, validation=validation)
        return training.fit(method, data, settings, validation=validation, **rest)

    monkeypatch.setattr(estimators, "fit", watch)
    X, y, privileged, ids = crowd(examples=30, each=3)
    model = classifier(method, patience=2, validation_fraction=0.2, epochs=3)
    model.fit(X, y, privileged=privileged, example=ids)
    train, held = (set(seen[part].row.tolist()) for part in ("data", "validation"))
    assert len(held) == 6
    assert train.isdisjoint(held)
    assert train | held == set(range(30))
    assert len(seen["validation"]) == 18  # an example with all of its labels
    for row in model.history_:
        losses = [name.removeprefix("train_") for name in row if name.startswith("train_")]
        assert losses
        assert all(np.isfinite(row[f"validation_{name}"]) for name in losses)


def test_patience_stops_and_keeps_the_best():
    model = classifier("no-pi", patience=2, epochs=100, learning_rate=0.3, validation_fraction=0.3).fit(X, Y)
    losses = [row["validation_marginal"] for row in model.history_]
    assert len(losses) < 100
    assert len(losses) == int(np.argmin(losses)) + 1 + 2


def test_without_patience_nothing_is_held_out():
    model = classifier().fit(X, Y, privileged=A)
    assert [row["epoch"] for row in model.history_] == [1, 2]
    assert not any(name.startswith("validation") for row in model.history_ for name in row)


def test_training_options():
    options = {"optimizer": "sgd", "schedule": "cosine", "clip": 1.0, "momentum": 0.5, "warmup": 0.5}
    model = classifier(training=options, learning_rate=0.05, epochs=4).fit(X, Y, privileged=A)
    rates = [row["learning_rate"] for row in model.history_]
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < rates[0] <= 0.05


def test_a_checkpoint_is_gone_on_from(tmp_path):
    checkpoint = training.Checkpoint(tmp_path / "state.pt", every=1)
    first = classifier(checkpoint=checkpoint).fit(X, Y, privileged=A)
    assert (tmp_path / "state.pt").is_file()
    again = classifier(checkpoint=checkpoint).fit(X, Y, privileged=A)
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))


def test_verbose(capsys):
    classifier().fit(X, Y, privileged=A)
    assert capsys.readouterr() == ("", "")
    classifier(verbose=True).fit(X, Y, privileged=A)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(r"train epoch 2/2 train_marginal \d", printed.err)


# -------------------------------------------------------------------------------- many models at once


def sets_of_seeds(target, count=4):
    sets = []
    for seed in range(count):
        X, y, privileged = annotations(seed=seed)
        y = y if target == "classes" else X @ [1.0, -2.0, 0.5]
        sets.append({"X": X, "y": y, "privileged": privileged[["annotator"]].fillna("nobody")})
    return sets


@pytest.mark.parametrize("patience", [None, 1])
@pytest.mark.parametrize("target", ["classes", "real"])
@pytest.mark.parametrize("method", ["no-pi", "tram", "full-marginalization", "distilled-tram"])
def test_models_fitted_together_are_models_fitted_alone(method, target, patience, monkeypatch):
    make = partial(classifier if target == "classes" else regressor, method, epochs=4, patience=patience)
    make = partial(make, learning_rate=0.01, validation_fraction=0.2)
    sets = sets_of_seeds(target)
    models, alone = ([make(random_state=seed) for seed in range(4)] for _ in range(2))
    trained = []
    monkeypatch.setattr(
        training, "fit", lambda method, *rest, **more: trained.append(method) or fit(method, *rest, **more)
    )
    fit_together(models, sets)
    assert [type(method) for method in trained] == [Replicas]
    for model, other, one in zip(models, alone, sets, strict=True):
        other.fit(**one)
        assert len(model.history_) == len(other.history_)
        for row, expected in zip(model.history_, other.history_, strict=True):
            assert row.pop("stage") == expected.pop("stage")
            assert row == pytest.approx(expected, rel=1e-4, abs=1e-5)
        predict = "predict_proba" if target == "classes" else "predict"
        np.testing.assert_allclose(getattr(model, predict)(X_NEW), getattr(other, predict)(X_NEW), rtol=0, atol=1e-4)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_NEW), model.predict(X_NEW))


def test_examples_of_models_fitted_together():
    """Batches of examples, some of which are held out."""
    X, y, privileged, ids = crowd(examples=30, each=3)
    one = {"X": X, "y": y, "privileged": privileged, "example": ids}
    make = partial(
        classifier, epochs=3, patience=2, validation_fraction=0.2, training={"draw": "examples"}, batch_size=5
    )
    models = [make(random_state=seed) for seed in range(4)]
    fit_together(models, [one] * 4)
    for seed, model in enumerate(models):
        alone = make(random_state=seed).fit(**one)
        np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), rtol=0, atol=1e-4)


def test_models_that_cannot_train_together_warn_and_train():
    sets, make = sets_of_seeds("classes"), partial(classifier, training={"clip": 0.1})
    models = [make(random_state=seed) for seed in range(4)]
    with pytest.warns(
        UserWarning, match=r"^4 seeds train one after the other, not together: Expected `clip` to be None"
    ):
        fit_together(models, sets)
    for seed, (model, one) in enumerate(zip(models, sets, strict=True)):
        alone = make(random_state=seed).fit(**one)
        np.testing.assert_array_equal(model.predict_proba(X_NEW), alone.predict_proba(X_NEW))


@pytest.mark.parametrize(("name", "value"), [("fabric", object()), ("checkpoint", training.Checkpoint("here"))])
def test_models_fitted_together_keep_no_checkpoint_and_have_one_device(name, value):
    models = [classifier(**{name: value}) for _ in range(4)]
    message = f"^Expected `{name}` to be None for models that train together.$"
    with pytest.raises(ValueError, match=message):
        fit_together(models, sets_of_seeds("classes"))


# -------------------------------------------------------------------------------- the conditional head


CONDITIONAL = [name for name in methods.names() if issubclass(methods.kind(name), methods.Conditional)]


@pytest.mark.parametrize(
    ("method", "labels"),
    [
        (method, labels)
        for method in CONDITIONAL
        for labels, likelihood in (("classes", Categorical), ("multi-label", Bernoulli), ("real", Gaussian))
        if likelihood in methods.kind(method).likelihoods
    ],
)
def test_given_is_the_conditional_head(method, labels):
    make, y = {"classes": (classifier, Y), "multi-label": (classifier, MULTI), "real": (regressor, REAL)}[labels]
    model = make(method).fit(X, y, privileged=A)
    encoded = torch.from_numpy(model.privileged_encoder_.transform(A_NEW).toarray())
    random = {"tram-plus-plus": 16, "pi-dual": 16}.get(method, 0)
    a = torch.cat([encoded, torch.zeros(25, random)], 1)  # random features of new labels are zero
    x = torch.from_numpy(((X_NEW - X.mean(0)) / X.std(0)).astype(np.float32))
    with torch.no_grad():
        output = model.method_.given(Batch(x, torch.arange(25), a, torch.zeros(25)))
    if labels == "real":
        expected = output[:, 0].numpy() * REAL.std() + REAL.mean()
        result = model.predict_given(X_NEW, A_NEW)
    else:
        expected = torch.softmax(output, 1) if labels == "classes" else torch.sigmoid(output)
        result = model.predict_proba_given(X_NEW, A_NEW)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_the_transition_by_hand():
    model = classifier("pi-transition").fit(X, Y, privileged=A)
    a = torch.from_numpy(model.privileged_encoder_.transform(A_NEW).toarray())
    with torch.no_grad():
        logits = model.method_.transition(a).numpy().reshape(25, 3, 3)
    matrix = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = np.stack([t @ p for t, p in zip(matrix, model.predict_proba(X_NEW), strict=True)])
    np.testing.assert_allclose(model.predict_proba_given(X_NEW, A_NEW), expected, atol=1e-5)


def test_an_annotator_that_training_did_not_see_is_zeros():
    annotator = A[["annotator"]].fillna("ann")
    model = classifier("zero-imputation", epochs=10).fit(X, Y, privileged=annotator)
    strange = annotator.assign(annotator=["zoe", None] * 30)
    np.testing.assert_allclose(model.predict_proba_given(X, strange), model.predict_proba(X), atol=1e-6)
    assert np.abs(model.predict_proba_given(X, annotator) - model.predict_proba(X)).max() > 1e-4


def test_missing_values_at_prediction():
    model = classifier().fit(X, Y, privileged=A)
    nothing = pd.DataFrame({"annotator": [None] * 60, "seconds": np.nan})
    np.testing.assert_allclose(model.predict_proba_given(X, nothing).sum(1), 1)


@pytest.mark.parametrize("method", [name for name in methods.names() if name not in CONDITIONAL])
def test_methods_without_a_conditional_head_say_so(method):
    message = f"^Expected a method with a conditional head, but '{method}' has none.$"
    with pytest.raises(ValueError, match=message):
        classifier(method).fit(X, Y, privileged=A).predict_proba_given(X, A)
    with pytest.raises(ValueError, match=message):
        regressor(method).fit(X, REAL, privileged=A).predict_given(X, A)


@pytest.mark.filterwarnings(NO_PRIVILEGED)
def test_given_needs_a_fit_with_privileged_information():
    with pytest.raises(
        ValueError, match=r"^Expected a model that was fitted with `privileged`, but this one was not\.$"
    ):
        classifier().fit(X, Y).predict_proba_given(X, A)


# -------------------------------------------------------------------------------- bad input


def changed(array, place, value):
    array = np.array(array, dtype=None if isinstance(value, int) else type(value))
    array[place] = value
    return array


def frame(place, value):
    table = pd.DataFrame(X, columns=["age", "height", "weight"]).astype({place[1]: object})
    table.loc[place] = value
    return table


IDS = np.arange(60) // 2
FIT = {
    # what is passed instead of X, y, privileged and example; and the whole message or how it begins
    "y is short": ({"y": Y[:50]}, "Expected `y` to have 60 rows as X has, but got 50."),
    "privileged is short": ({"privileged": A[:50]}, "Expected `privileged` to have 60 rows as X has, but got 50."),
    "example is short": ({"example": np.arange(50)}, "Expected `example` to have 60 rows as X has, but got 50."),
    "no y": ({"y": None}, "This PrivilegedClassifier estimator requires y to be passed, but the target y is None."),
    "NaN in X": ({"X": changed(X, (7, 2), np.nan)}, "Input X contains NaN in column 2, row 7."),
    "infinity in X": ({"X": changed(X, (7, 2), -np.inf)}, "Input X contains infinity in column 2, row 7."),
    "NaN in a frame": ({"X": frame((5, "height"), np.nan)}, "Input X contains NaN in column 'height', row 5."),
    "None in a frame": ({"X": frame((5, "height"), None)}, "Input X contains NaN in column 'height', row 5."),
    "infinity in a frame": ({"X": frame((5, "age"), np.inf)}, "Input X contains infinity in column 'age', row 5."),
    "NaN in X with examples": (
        {"X": changed(np.repeat(X[:30], 2, 0), (7, 2), np.nan), "example": IDS},
        "Input X contains NaN in column 2, row 7.",
    ),
    "None in a frame with examples": (
        {"X": frame((5, "height"), None), "example": np.arange(60)},
        "Input X contains NaN in column 'height', row 5.",
    ),
    "NaN in y": ({"y": changed(Y, 3, np.nan)}, "Input y contains NaN in row 3."),
    "infinity in y": ({"y": changed(Y, 3, np.inf)}, "Input y contains infinity in row 3."),
    "None in y": ({"y": pd.Series(["a", None, *"ab" * 29])}, "Input y contains NaN in row 1."),
    "NA in y": ({"y": pd.Series([1, pd.NA, *[0, 1] * 29], dtype="Int64")}, "Input y contains NaN in row 1."),
    "NaN in multi-label y": ({"y": changed(MULTI, (4, 1), np.nan)}, "Input y contains NaN in row 4."),
    "one class": ({"y": np.ones(60)}, "Expected y to have at least two classes, but all labels are one class, 1.0."),
    "one class, a string": (
        {"y": ["yes"] * 60},
        "Expected y to have at least two classes, but all labels are one class, 'yes'.",
    ),
    "real y": ({"y": REAL}, "Unknown label type: continuous."),
    "two kinds of labels": (
        {"y": np.array(["a", 1] * 30, dtype=object)},
        "Expected y to be labels of one kind, but got int and str.",
    ),
    "a 2 among labels": (
        {"y": changed(MULTI, (4, 1), 2)},
        "Expected a y with several columns to be 0 or 1, one column per label, but got 2 in row 4, column 1.",
    ),
    "labels 1 and 2": (
        {"y": MULTI + 1},
        "Expected a y with several columns to be 0 or 1, one column per label, but got 2 in row",
    ),
    "strings as labels": (
        {"y": np.where(MULTI, "on", "off")},
        "Expected a y with several columns to be 0 or 1, one column per label, but got 'o",
    ),
    "no rows": ({"X": X[:0], "y": Y[:0]}, "Found array with 0 sample(s) (shape=(0, 3))"),
    "an empty frame": ({"X": pd.DataFrame({"u": []}), "y": []}, "Expected X to have rows and columns, but got 0"),
    "no columns": ({"X": X[:, :0]}, "Found array with 0 feature(s) (shape=(60, 0))"),
    "no privileged columns": (
        {"privileged": A[[]]},
        "Expected privileged information to have rows and columns, but got 0 feature(s)",
    ),
    "infinity in privileged": (
        {"privileged": A.assign(seconds=np.where(np.arange(60) == 9, np.inf, 1.0))},
        "Expected column 'seconds' to be finite numbers, but got inf in row 9.",
    ),
    "missing id": (
        {"example": [None if i == 8 else f"image {i}" for i in range(60)]},
        "Expected `example` to have an id in every row, but row 8 has none.",
    ),
    "missing number as id": (
        {"example": changed(np.arange(60), 8, np.nan)},
        "Expected `example` to have an id in every row, but row 8 has none.",
    ),
    "ids in two columns": (
        {"example": np.zeros((60, 2))},
        "Expected `example` to be one column of ids, but got shape [60, 2].",
    ),
}


@pytest.mark.parametrize("case", FIT)
def test_bad_data(case):
    passed, message = FIT[case]
    data = {"X": X, "y": Y, "privileged": A, "example": None} | passed
    if message.endswith("."):
        message = f"{re.escape(message)}$" if "Unknown" not in message else re.escape(message)
    else:
        message = re.escape(message)
    with pytest.raises(ValueError, match=f"^{message}"):
        classifier().fit(data["X"], data["y"], privileged=data["privileged"], example=data["example"])


OPTIONS = {
    "method": ({"method": "trap"}, r"Expected `method` to be one of no-pi, .*, pi-transition, but got 'trap'\."),
    "kind of method": ({"method": 3}, r"Expected `method` to be a name or a callable, but got 3\."),
    "what a method makes": (
        {"method": lambda parts: parts.trunk()},
        r"Expected `method` to make a lupi\.methods\.Method, but got MLP\.",
    ),
    "method option": (
        {"method_options": {"gamma": 1}},
        r"Expected 'tram' to take the options beta, but got 'gamma'\.",
    ),
    "method option of none": (
        {"method": "no-pi", "method_options": {"beta": 1}},
        r"Expected no options for 'no-pi', but got 'beta'\.",
    ),
    "training option": (
        {"training": {"dropout": 0.1}},
        r"Expected `training` to have options among draw, optimizer, .*, but got 'dropout'\.",
    ),
    "training option that is a parameter": (
        {"training": {"epochs": 3}},
        r"Expected `training` to have options among draw, optimizer, .*, but got 'epochs'\.",
    ),
    "value of a training option": (
        {"training": {"optimizer": "adagrad"}},
        r"Expected `optimizer` to be one of adam, adamw, sgd, but got 'adagrad'\.",
    ),
    "kind of training": ({"training": "fast"}, r"Expected `training` to be a dict of options, but got 'fast'\."),
    "kind of method options": (
        {"method_options": ["beta"]},
        r"Expected `method_options` to be a dict of options, but got \['beta'\]\.",
    ),
    "epochs": ({"epochs": 0}, r"Expected `epochs` to be an integer of at least 1, but got 0\."),
    "validation_fraction of 1": (
        {"validation_fraction": 1.0},
        r"Expected `validation_fraction` to be a number between 0 and 1, but got 1\.0\.",
    ),
    "validation_fraction in words": (
        {"validation_fraction": "half"},
        r"Expected `validation_fraction` to be a number between 0 and 1, but got 'half'\.",
    ),
    "validation_fraction too small": (
        {"validation_fraction": 0.001, "patience": 1},
        r"Expected `validation_fraction` to hold out some of 60 examples, but 0\.001 of them is 0\.",
    ),
    "hidden": (
        {"hidden": 64},
        r"Expected `hidden` to be a sequence of whole numbers of at least 1, but got 64\.",
    ),
    "hidden of 0": (
        {"hidden": (8, 0)},
        r"Expected `hidden` to be a sequence of whole numbers of at least 1, but got \(8, 0\)\.",
    ),
    "hidden in words": (
        {"hidden": "64"},
        r"Expected `hidden` to be a sequence of whole numbers of at least 1, but got '64'\.",
    ),
    "tower of one": ({"tower": (8,)}, r"Expected `tower` to be 2 whole numbers of at least 1, but got \(8,\)\."),
    "tower": ({"tower": None}, r"Expected `tower` to be 2 whole numbers of at least 1, but got None\."),
    "trunk": (
        {"trunk": "resnet"},
        r"Expected `trunk` to be a module or a callable that makes one, but got 'resnet'\.",
    ),
    "quantiles": ({"quantiles": 1}, r"Expected `quantiles` to be an integer of at least 2, but got 1\."),
    "numbers": ({"numbers": "rank"}, r"Expected `numbers` to be or map columns to one of .*, but got 'rank'\."),
    "column of numbers": (
        {"numbers": {"time": "quantile"}},
        r"Expected `numbers` to name columns of \['annotator', 'seconds'\], but got 'time'\.",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_bad_options(case):
    parameters, message = OPTIONS[case]
    with pytest.raises(ValueError, match=f"^{message}$"):
        classifier(**parameters).fit(X, Y, privileged=A)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["a", "b"] * 30), r"Expected y to be numbers, but got 'a' in row 0\."),
        (pd.Series([1.5, "high", *range(58)], dtype=object), r"Expected y to be numbers, but got 'high' in row 1\."),
        (["1", "2"] * 30, r"Expected y to be numbers, but got '1' in row 0\."),
        (changed(REAL, 3, np.nan), r"Input y contains NaN in row 3\."),
        (changed(REAL, 3, np.inf), r"Input y contains infinity in row 3\."),
        (REAL[:10], r"Expected `y` to have 60 rows as X has, but got 10\."),
        (np.stack([REAL, REAL], 1), r"y should be a 1d array, got an array of shape \(60, 2\) instead\."),
    ],
)
def test_bad_real_numbers(y, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        regressor().fit(X, y, privileged=A)


def test_a_transition_between_real_numbers():
    message = r"^Expected y to be .* for 'pi-transition', but it is a real number\.$"
    with pytest.raises(ValueError, match=message):
        regressor("pi-transition").fit(X, REAL, privileged=A)


def test_bad_data_at_prediction():
    table = pd.DataFrame(X, columns=["age", "height", "weight"])
    model = classifier().fit(table, Y, privileged=A)
    for passed, message in [
        (table[["age", "weight"]], "The feature names should match those that were passed during fit"),
        (frame((5, "height"), np.nan), "Input X contains NaN in column 'height', row 5."),
        (table.assign(height="tall"), "Expected column 'height' to be numbers, but got 'tall' in row 0."),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            model.predict(passed)
    plain = classifier().fit(X, Y, privileged=A)
    with pytest.raises(ValueError, match=r"^Input X contains NaN in column 1, row 0\.$"):
        plain.predict(changed(X, (0, 1), np.nan))
    with pytest.raises(ValueError, match=r"^X has 2 features, but PrivilegedClassifier is expecting 3 features"):
        plain.predict(X[:, :2])


def test_bad_privileged_information_at_prediction():
    model = classifier().fit(X, Y, privileged=A)
    for passed, message in [
        (A.assign(age=3), r"with columns ['annotator', 'seconds'], but got ['annotator', 'seconds', 'age']."),
        (
            A.rename(columns={"seconds": "time"}),
            r"with columns ['annotator', 'seconds'], but got ['annotator', 'time'].",
        ),
        (A[["seconds", "annotator"]], r"with columns ['annotator', 'seconds'], but got ['seconds', 'annotator']."),
        (np.zeros((60, 3)), "with 2 columns, but got 3."),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape('Expected privileged information ' + message)}$"):
            model.predict_proba_given(X, passed)
    with pytest.raises(ValueError, match=r"^Expected `privileged` to have 60 rows as X has, but got 50\.$"):
        model.predict_proba_given(X, A[:50])
    with pytest.raises(ValueError, match=r"^Expected column 'seconds' to be numbers, but got 'soon' in row 0\.$"):
        model.predict_proba_given(X, A.assign(seconds="soon"))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((60, 3), "a"), r"Expected X to be numbers for a trunk of your own, but got <U1\."),
        (np.zeros(60), r"Expected X to have at least two dimensions, but got 1\. Reshape your data\."),
        (np.zeros((0, 3)), r"Expected X to have rows, but it is empty\."),
        (changed(np.zeros((60, 3)), (4, 1), np.nan), r"Input X contains NaN or infinity in row 4\."),
        (
            np.zeros((60, 3, 2)),
            r"Expected `trunk` to map a row of X to features \[1, width\], but got shape \[1, 3, 4\]\.",
        ),
    ],
)
def test_bad_inputs_of_a_trunk_of_your_own(X, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        classifier(trunk=nn.Linear(2 if X.ndim == 3 else 3, 4)).fit(X, Y, privileged=A)


def test_other_inputs_of_a_trunk_of_your_own():
    model = classifier(trunk=nn.Linear(3, 4)).fit(X, Y, privileged=A)
    with pytest.raises(ValueError, match=r"^X has 2 features, but the model was fitted with 3\.$"):
        model.predict(X[:, :2])


def test_privileged_encoder_is_fitted_on_annotations():
    """Inputs are standardised over examples, privileged columns over annotations."""
    X, y, _, ids = crowd(examples=20, each=2)
    keep = np.flatnonzero((ids > 0) | (np.arange(40) == np.flatnonzero(ids == 0)[0]))
    X, y, ids, seconds = X[keep], y[keep], ids[keep], np.arange(len(keep), dtype=float)
    model = classifier().fit(X, y, privileged=seconds, example=ids)
    once = X[np.unique(ids, return_index=True)[1]]
    np.testing.assert_allclose(model.input_encoder_.mean_, once.mean(0))
    expected = PrivilegedEncoder().fit(seconds).transform(seconds).toarray()
    np.testing.assert_array_equal(model.privileged_encoder_.transform(seconds).toarray(), expected)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "^Expected `device` to be a torch device such as 'cpu' or 'cuda', but got 'gpu'.$"),
        (1.5, "^Expected `device` to be a torch device such as 'cpu' or 'cuda', but got 1.5.$"),
        pytest.param(
            "cuda",
            "^Expected `device` to be a device of this machine, but got 'cuda' and torch sees no GPU.$",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_a_device_that_is_not_there(device, message):
    with pytest.raises(ValueError, match=message):
        PrivilegedClassifier("no-pi", device=device).fit(X, REAL > 0)


def test_a_fit_that_fails_leaves_no_model():
    model = PrivilegedClassifier("no-pi", epochs=1).fit(X, REAL > 0)
    with pytest.raises(ValueError, match=r"^Expected `privileged` to have"):
        model.fit(X, np.where(REAL > 0, "a", "z"), privileged=[[1], [2]])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_processes_take_the_seed_of_the_first():
    class Fabric:
        def broadcast(self, value):
            raise KeyError(value)  # far enough

    seed = int(np.random.RandomState(3).randint(2**31))
    with pytest.raises(KeyError, match=str(seed)):
        PrivilegedClassifier("no-pi", fabric=Fabric(), random_state=3).fit(X, REAL > 0)


def test_a_trunk_that_cannot_take_x():
    images = np.zeros((len(X), 1, 8, 8), dtype=np.uint8)
    message = r"(?s)^Expected `trunk` to take a row of X of shape \[1, 1, 8, 8\] and torch.uint8, but it says: "
    with pytest.raises(ValueError, match=message):
        PrivilegedClassifier("no-pi", trunk=nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten())).fit(images, REAL > 0)
