import pickle
from functools import partial

import numpy as np
import pytest

from lupi.estimators import fit_together
from lupi.training import Checkpoint, Replicas, fit, fitting
from tests.estimators.helpers import X_NEW, classifier, crowd, regressor


def sets_of_seeds(target, count=4):
    sets = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 3))
        y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5) if target == "classes" else X @ [1.0, -2.0, 0.5]
        sets.append({"X": X, "y": y, "privileged": rng.choice(["ann", "bob", "eve"], 60)})
    return sets


@pytest.mark.parametrize("patience", [None, 1])
@pytest.mark.parametrize("target", ["classes", "real"])
@pytest.mark.parametrize("method", ["no-pi", "tram", "distilled-tram"])
def test_models_fitted_together_are_models_fitted_alone(method, target, patience, monkeypatch):
    make = partial(classifier if target == "classes" else regressor, method, epochs=4, patience=patience)
    make = partial(make, learning_rate=0.01, training={"validation_fraction": 0.2})
    sets = sets_of_seeds(target)
    models, alone = ([make(random_state=seed) for seed in range(4)] for _ in range(2))
    trained = []
    monkeypatch.setattr(
        fitting, "fit", lambda method, *rest, **more: trained.append(method) or fit(method, *rest, **more)
    )
    fit_together(models, sets)
    assert [type(method) for method in trained] == [Replicas]
    for model, other, one in zip(models, alone, sets, strict=True):
        other.fit(**one)
        assert len(model.history_) == len(other.history_)
        for row, expected in zip(model.history_, other.history_, strict=True):
            for name in ("stage", "device", "execution"):
                assert row.pop(name) == expected.pop(name)
            assert row == pytest.approx(expected, rel=1e-4, abs=1e-5)
        predict = "predict_proba" if target == "classes" else "predict"
        np.testing.assert_allclose(getattr(model, predict)(X_NEW), getattr(other, predict)(X_NEW), rtol=0, atol=1e-4)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_NEW), model.predict(X_NEW))


def test_models_fitted_together_may_draw_examples():
    """Batches of examples, some of which are held out."""
    X, y, privileged, ids = crowd(examples=30, each=3)
    one = {"X": X, "y": y, "privileged": privileged, "example": ids}
    make = partial(
        classifier, epochs=3, patience=2, training={"draw": "examples", "validation_fraction": 0.2}, batch_size=5
    )
    models = [make(random_state=seed) for seed in range(4)]
    fit_together(models, [one] * 4)
    for seed, model in enumerate(models):
        alone = make(random_state=seed).fit(**one)
        np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), rtol=0, atol=1e-4)


def test_models_that_cannot_train_together_warn_and_train():
    sets, make = sets_of_seeds("classes"), partial(classifier, training={"draw": "examples"})
    for one in sets:
        one["example"] = np.minimum(np.arange(60), 57)  # the last has three labels
        one["X"] = one["X"][one["example"]]
    models = [make(random_state=seed) for seed in range(4)]
    with pytest.warns(UserWarning, match="annotations for every example"):
        fit_together(models, sets)
    for seed, (model, one) in enumerate(zip(models, sets, strict=True)):
        alone = make(random_state=seed).fit(**one)
        np.testing.assert_array_equal(model.predict_proba(X_NEW), alone.predict_proba(X_NEW))


@pytest.mark.parametrize(("name", "value"), [("fabric", object()), ("checkpoint", Checkpoint("here"))])
def test_models_fitted_together_keep_no_checkpoint_and_have_one_device(name, value):
    models = [classifier(training={name: value}) for _ in range(4)]
    with pytest.raises(ValueError, match=f"`{name}`"):
        fit_together(models, sets_of_seeds("classes"))
