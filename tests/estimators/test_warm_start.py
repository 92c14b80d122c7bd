"""Continue from the weights of the last fit."""

import numpy as np
import pytest
import torch

from lupi import load
from tests.estimators.helpers import REAL, A, X, Y, classifier, regressor


def weights(model):
    return torch.cat([value.flatten() for value in model.method_.parameters()])


def test_another_fit_continues_where_the_last_one_ended():
    model = classifier(warm_start=True).fit(X, Y, privileged=A)
    before = weights(model)
    model.set_params(learning_rate=0.0).fit(X, Y, privileged=A)
    assert torch.equal(weights(model), before)
    assert not torch.equal(weights(classifier(learning_rate=0.0).fit(X, Y, privileged=A)), before)


def test_two_fits_of_plain_gradient_descent_are_one_of_twice_the_epochs():
    how = {"training": {"optimizer": "sgd", "momentum": 0.0}, "batch_size": 60, "learning_rate": 0.1}
    model = classifier("no-pi", warm_start=True, epochs=3, **how)
    once = classifier("no-pi", epochs=6, **how).fit(X, Y)
    assert not torch.allclose(weights(model.fit(X, Y)), weights(once))
    torch.testing.assert_close(weights(model.fit(X, Y)), weights(once))
    assert model.n_iter_ == 3


def test_encodings_and_classes_are_those_of_the_first_fit():
    model = regressor("no-pi", warm_start=True, learning_rate=0.0).fit(X, REAL)
    before = model.predict(X)
    np.testing.assert_array_equal(model.fit(10 * X[:20] + 3, 5 * REAL[:20]).predict(X), before)
    model = classifier("no-pi", warm_start=True).fit(X, Y)
    assert model.fit(X[Y < 2], Y[Y < 2]).classes_.tolist() == [0, 1, 2]


def test_a_loaded_model_can_go_on(tmp_path):
    model = classifier().fit(X, Y, privileged=A)
    model.save(tmp_path / "whole")
    model.save(tmp_path / "predictor", privileged=False)
    loaded = load(tmp_path / "whole").set_params(warm_start=True, learning_rate=0.0).fit(X, Y, privileged=A)
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match="whole network for `warm_start`, but this one was saved without"):
        load(tmp_path / "predictor").set_params(warm_start=True).fit(X, Y, privileged=A)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, (X, Y + 1, A), "`y` to hold classes of y, such as 0, but got 3"),
        ({}, (X[:, :2], Y, A), "X has 2 features, but PrivilegedClassifier is expecting 3"),
        ({}, (X, Y, None), "`privileged` in all fits or in none"),
        ({}, (X, Y, A[["annotator"]]), "seconds"),
        ({"hidden": (9,)}, (X, Y, A), "network of the last fit for `warm_start`, but parameters such as"),
        ({"method": "no-pi"}, (X, Y, A), "network of the last fit for `warm_start`"),
    ],
)
def test_what_does_not_go_on_is_explained(change, arguments, message):
    model = classifier(warm_start=True).fit(X, Y, privileged=A).set_params(**change)
    inputs, labels, privileged = arguments
    with pytest.raises(ValueError, match=message):
        model.fit(inputs, labels, privileged=privileged)
