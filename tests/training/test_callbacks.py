"""Callbacks see every epoch, and may end a stage."""

import pytest
import torch

from lupi.settings import Settings
from lupi.training import Checkpoint, fit
from tests.training.helpers import HOW, SEED, assert_equal, interrupted, make_data, make_method, weights


def test_every_epoch_of_every_stage_is_reported():
    rows = []
    history = fit(
        make_method("two-step-tram"), make_data(), HOW, seed=SEED, callbacks=[lambda row, _: rows.append(row)]
    )
    assert rows == history
    assert {row["stage"] for row in rows} == {"transfer", "marginalize"}


def test_callbacks_do_not_change_the_history_or_the_training():
    plain, watched = make_method(), make_method()
    expected = fit(plain, make_data(), HOW, seed=SEED)
    assert fit(watched, make_data(), HOW, seed=SEED, callbacks=[lambda row, _: row.clear()]) == expected
    assert_equal(weights(watched), weights(plain))


@pytest.mark.parametrize("name", ["tram", "two-step-tram", "label-posterior"])
def test_a_callback_ends_a_stage(name):
    """Ending after two epochs is training for two, since the learning rate is constant; others are called too."""
    seen = []
    stop = [lambda row, _: row["epoch"] == 2, lambda row, _: seen.append(row["epoch"])]
    ended, short = make_method(name), make_method(name)
    history = fit(ended, make_data(), HOW, seed=SEED, callbacks=stop)
    assert {row["epoch"] for row in history} <= {1, 2}
    assert len(seen) == len(history)
    if name != "label-posterior":  # whose student has a schedule
        fit(short, make_data(), Settings(epochs=2, batch_size=8, learning_rate=0.01), seed=SEED)
        assert_equal(weights(ended), weights(short))


def test_the_best_weights_are_kept():
    data = make_data()
    how = Settings(epochs=40, batch_size=8, learning_rate=0.3, patience=40)
    method = make_method()
    history = fit(method, data, how, validation=data, seed=SEED, callbacks=[lambda row, _: row["epoch"] == 12])
    best = min(row["validation_marginal"] for row in history)
    last = fit(method, data, Settings(epochs=1, batch_size=8, learning_rate=0.0), validation=data, seed=SEED)
    assert len(history) == 12
    assert last[-1]["validation_marginal"] == pytest.approx(best)


def test_a_resumed_training_ends_where_the_callback_says(tmp_path):
    stop = {"callbacks": [lambda row, _: row["epoch"] == 3]}
    whole, resumed = make_method(), make_method()
    expected = fit(whole, make_data(), HOW, seed=SEED, **stop)
    checkpoint = Checkpoint(tmp_path / "state.pt", every=1)
    interrupted(fit, 5, make_method(), make_data(), HOW, seed=SEED, checkpoint=checkpoint, **stop)
    assert fit(resumed, make_data(), HOW, seed=SEED, checkpoint=checkpoint, **stop) == expected
    assert_equal(weights(resumed), weights(whole))


def test_an_error_in_a_callback_reaches_the_user():
    def fail(row, _):
        raise RuntimeError(f"no disk in epoch {row['epoch']}")

    with pytest.raises(RuntimeError, match="no disk in epoch 1"):
        fit(make_method(), make_data(), HOW, seed=SEED, callbacks=[fail])
    assert torch.is_grad_enabled()


def test_a_callback_sees_the_method_in_evaluation_mode():
    """What it does with the method does not disturb the training."""
    plain, watched, seen = make_method("heteroscedastic-dropout"), make_method("heteroscedastic-dropout"), []

    def look(_, method):
        seen.append((method, method.training, torch.is_grad_enabled()))
        method.predictor()(make_data().x)
        method.eval()

    fit(plain, make_data(), HOW, seed=SEED)
    fit(watched, make_data(), HOW, seed=SEED, callbacks=[look])
    assert seen == [(watched, False, False)] * 4
    assert_equal(weights(watched), weights(plain))


@pytest.mark.parametrize("name", ["two-step-tram", "label-posterior"])
def test_a_callback_sees_the_whole_method_in_every_stage(name):
    method, seen = make_method(name), set()
    fit(method, make_data(), HOW, seed=SEED, callbacks=[lambda _, own: seen.add(own)])
    assert seen == {method}
