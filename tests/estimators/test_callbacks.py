import pytest

from lupi import load
from lupi.estimators import fit_together
from tests.estimators.helpers import A, X, Y, classifier


def test_rows_of_the_history_are_reported_and_training_ends_early(tmp_path):
    seen = []
    note, stop = lambda *given: seen.append(given), lambda row, _: row["epoch"] == 3
    model = classifier("no-pi", epochs=50, training={"callbacks": [note, stop]})
    assert model.fit(X, Y).n_iter_ == 3
    assert seen == [(row, model.method_) for row in model.history_]
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").training == {}


@pytest.mark.parametrize("callbacks", [print, [print, "print"], 3])
def test_callbacks_are_callables(callbacks):
    with pytest.raises(ValueError, match="Expected `callbacks` to be a list of callables"):
        classifier(training={"callbacks": callbacks}).fit(X, Y, privileged=A)


def test_models_that_train_together_have_none():
    with pytest.raises(ValueError, match="Expected `callbacks` to be None"):
        fit_together([classifier("no-pi", training={"callbacks": [print]})], [{"X": X, "y": Y}])
