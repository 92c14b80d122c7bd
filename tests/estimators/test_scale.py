"""Rating scales in the estimators."""

import numpy as np
import pandas as pd
import pytest

import lupi
from lupi import PrivilegedClassifier
from lupi.likelihoods import Ordinal
from lupi.metrics import find_medians

RNG = np.random.default_rng(0)
TRUE = RNG.integers(1, 6, 60)
X = (TRUE + RNG.normal(0, 0.5, 60))[:, None]
Y = np.clip(TRUE + RNG.integers(-1, 2, 60), 1, 5)
A = pd.DataFrame({"annotator": RNG.choice(["ann", "bob"], 60)})
NAMES = np.array(["awful", "poor", "fair", "good", "great"])


def fit(y, method="no-pi", **options):
    model = PrivilegedClassifier(method, epochs=2, hidden=(8,), random_state=0, **options)
    return model.fit(X, y, privileged=A)


@pytest.mark.parametrize("method", ["no-pi", "tram", "auto"])
def test_the_median_grade_is_predicted(method):
    model = fit(Y, method, scale="ordinal")
    assert isinstance(model.target_.likelihood, Ordinal)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[find_medians(p)])
    assert (model.predict(X) != model.classes_[p.argmax(1)]).any(), "so that the test can fail"


def test_names_have_the_order_of_the_list_and_unused_grades_a_probability(tmp_path):
    numbers = fit(Y, scale=[1, 2, 3, 4, 5, 6])
    names = fit(NAMES[Y - 1], scale=[*NAMES, "unheard of"])
    assert names.classes_.tolist() == [*NAMES, "unheard of"]
    np.testing.assert_array_equal(names.predict_proba(X), numbers.predict_proba(X))
    names.save(tmp_path / "model")
    np.testing.assert_array_equal(lupi.load(tmp_path / "model").predict(X), names.predict(X))


def test_probabilities_of_grades_are_in_the_order_of_columns():
    model = fit(pd.DataFrame(np.eye(5)[Y - 1], columns=NAMES), soft=True, scale="ordinal")
    np.testing.assert_array_equal(model.predict(X), NAMES[find_medians(model.predict_proba(X))])


@pytest.mark.parametrize(
    ("y", "scale", "message"),
    [
        (Y, "cardinal", "Expected `scale` to be one of nominal, ordinal, or a list .* but got 'cardinal'"),
        (Y, [1, 1, 2], r"a list of different grades in order, but got \[1, 1, 2\]"),
        (Y, [1, 2, 3, 4], "Expected `scale` to list the grades in order, but it has no '5'"),
        (NAMES[Y - 1], "ordinal", "Expected labels to be numbers with `scale` 'ordinal', but got 'awful'"),
        (np.eye(5)[Y - 1], "ordinal", "Expected y to have one column for `scale`, but got 5"),
    ],
)
def test_bad_scales_are_refused(y, scale, message):
    with pytest.raises(ValueError, match=message):
        fit(y, scale=scale)
