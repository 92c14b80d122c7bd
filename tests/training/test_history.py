"""The history of a training, and its progress on standard error."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F

from lupi.likelihoods import Categorical
from lupi.settings import Settings
from lupi.training import fit
from tests.training.helpers import assert_equal, make_data, make_method, rate_by_hand, tram_losses, weights


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_history_has_the_rate_of_the_last_step(optimizer):
    how = Settings(epochs=5, batch_size=6, learning_rate=0.3, optimizer=optimizer, schedule="cosine", warmup=1, l2=0.0)
    history = fit(make_method(), make_data(), how)
    expected = [0.3 * rate_by_hand(how, epoch + 3 / 4) for epoch in range(5)]  # ceil(23 / 6) = 4 steps
    assert [row["learning_rate"] for row in history] == pytest.approx(expected)


def test_history_of_both_heads():
    data, tram = make_data(), make_method(beta=1.0)
    expected = [loss.item() for loss in tram_losses(tram, data, torch.arange(len(data)))]
    whole = fit(copy.deepcopy(tram), data, Settings(epochs=2, batch_size=99))
    losses = ["train_marginal", "train_conditional"]
    assert list(whole[0]) == ["stage", "epoch", "learning_rate", "device", "execution", *losses]
    assert [whole[0]["train_marginal"], whole[0]["train_conditional"]] == pytest.approx(expected, rel=1e-5)
    assert whole[1]["train_conditional"] < whole[0]["train_conditional"]
    for draw in ("annotations", "examples"):  # unequal batches weigh by their annotations
        how = Settings(epochs=2, batch_size=5, learning_rate=0, draw=draw)
        for row in fit(copy.deepcopy(tram), data, how):
            assert [row["train_marginal"], row["train_conditional"]] == pytest.approx(expected, rel=1e-5)


def test_losses_are_summed_in_full_precision():
    """The penalty is a bfloat16 number, three hundred of which do not add up in bfloat16."""
    data, method = make_data(200, 600), make_method("heteroscedastic-dropout")
    penalty = -0.1 * F.logsigmoid(method.scale(data.a)).mean()
    history = fit(method, data, Settings(epochs=1, batch_size=2, learning_rate=0, precision="bfloat16"))
    assert history[0]["train_penalty"] == pytest.approx(penalty.item(), rel=5e-3)


def test_validation_without_patience_only_adds_to_the_history():
    data, held_out = make_data(), make_data(examples=1100, annotations=1500, seed=7)  # more than one part
    alone, watched = make_method("heteroscedastic-dropout"), make_method("heteroscedastic-dropout")
    how = Settings(epochs=3, learning_rate=0.05, batch_size=8)
    plain, history = fit(alone, data, how), fit(watched, data, how, validation=held_out)
    assert_equal(weights(alone), weights(watched))
    assert [{k: v for k, v in row.items() if not k.startswith("validation_")} for row in history] == plain
    loss = F.cross_entropy(watched.predictor()(held_out.x)[held_out.row], held_out.y)
    penalty = -0.1 * F.logsigmoid(watched.scale(held_out.a)).mean()
    assert history[-1]["validation_marginal"] == pytest.approx(loss.item(), rel=1e-5)
    assert history[-1]["validation_penalty"] == pytest.approx(penalty.item(), rel=1e-5)


def test_the_held_out_loss_of_a_student_is_on_the_labels():
    data, held_out = make_data(), make_data(seed=1)
    method = make_method("generalized-distillation", weight=1.0)
    history = fit(method, data, Settings(epochs=2), validation=held_out)
    output = method.predictor()(held_out.inputs(held_out.row)).detach()
    assert history[-1]["validation_marginal"] == pytest.approx(Categorical().loss(output, held_out.y).item(), rel=1e-5)


def test_divergence_raises_an_error():
    with pytest.raises(FloatingPointError, match=r"marginal loss .*epoch \d+ of stage 'train': .*`learning_rate`"):
        fit(make_method("no-pi"), make_data(), Settings(epochs=50, learning_rate=1e30, optimizer="sgd"))


@pytest.mark.parametrize("rate", [1e2, 1e6])
def test_a_finite_loss_that_explodes_is_an_error(rate):
    message = r"loss to fall, but training diverged: it was [\d.]+ in the first step and is .* in epoch 2 of stage"
    with pytest.raises(FloatingPointError, match=message):
        fit(make_method("no-pi"), make_data(), Settings(epochs=50, learning_rate=rate))


def test_with_patience_the_weights_that_are_kept_count():
    data, how = make_data(), Settings(epochs=9, learning_rate=1e6, patience=1)
    with pytest.raises(FloatingPointError, match="Expected the held-out loss to fall, but training diverged"):
        fit(make_method("no-pi"), data, how, validation=make_data(seed=1))


def test_a_bad_start_is_no_divergence():
    """The first epoch may be bad, and a loss that is large from the start is no divergence either."""
    data = make_data()
    large = dataclasses.replace(data, x=1e6 * data.x)
    history = fit(make_method("no-pi"), large, Settings(epochs=3, batch_size=8, learning_rate=1e-9))
    assert history[-1]["train_marginal"] > 1e4


def test_weights_that_the_last_step_makes_infinite_are_an_error():
    data, method = make_data(), make_method("no-pi")
    how = Settings(epochs=1, batch_size=len(data), optimizer="sgd", learning_rate=3e38)
    method.marginal.weight.data *= 1e4  # so that the gradient of the trunk is large
    with pytest.raises(FloatingPointError, match=r"Expected finite weights, but 'trunk.0.weight' is not"):
        fit(method, data, how)


def test_progress(capsys):
    data, how = make_data(), Settings(epochs=3, batch_size=8)
    fit(make_method("distillation"), data, how)
    assert capsys.readouterr() == ("", "")
    history = fit(make_method("distillation"), data, how, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{stage} epoch 3/3 train_marginal {row['train_marginal']:.4f} (9/9)"
        for stage, row in (("teacher", history[2]), ("student", history[5]))
    ]
