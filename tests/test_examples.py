"""Examples that need pretrained models, with tiny ones of random weights; the others are doctests."""

import re

import pytest
import torch

from examples import fine_tuning
from lupi.nn import pretrained, token_ids

ITSELF = pytest.mark.filterwarnings("ignore")  # what transformers says of itself
Y, SECONDS = torch.arange(24) % 2, torch.rand(24, 1)


def largest_change(module, before):
    after = dict(module.named_parameters())
    return max((value - after[name]).abs().max().item() for name, value in before.named_parameters())


@ITSELF
@pytest.mark.parametrize("kind", ["text", "image"])
def test_the_trunk_is_fine_tuned_slowly(kind, tmp_path):
    pytest.importorskip("transformers", reason="needs the extras `text` and `vision`")
    if kind == "text":
        name = fine_tuning.save_tiny_text_model(tmp_path / "text")
        x = token_ids(name, [("a good cast", "a bad cast")[label] for label in Y.tolist()])
    else:
        name = fine_tuning.save_tiny_image_model(tmp_path / "image")
        x = torch.randint(255, (24, 3, 32, 32))
    trunk = pretrained(name)
    start = fine_tuning.fine_tune(trunk, x, Y, SECONDS, epochs=1).method_  # its one step has the rate 0
    model = fine_tuning.fine_tune(trunk, x, Y, SECONDS, epochs=3)
    assert 1e-6 < largest_change(model.method_.trunk, trunk) < 1e-4  # three steps of 1e-5 at most, and weight decay
    assert 1e-3 < largest_change(model.method_.marginal, start.marginal) < 1e-2
    assert model.predict_proba(x).shape == (24, 2)


@ITSELF
def test_it_makes_its_own_models(capsys):
    pytest.importorskip("transformers", reason="needs the extras `text` and `vision`")
    fine_tuning.main(epochs=1)
    for line in capsys.readouterr().out.splitlines():
        assert re.fullmatch(r"p\((bad|bright)\) of .*: \[[\d. ]+\]", line)
