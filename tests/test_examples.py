"""Examples and a benchmark that need pretrained models, with tiny ones of random weights; others are doctests."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import fine_tuning as benchmark
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
    start = fine_tuning.fine_tune("tram", trunk, x, Y, SECONDS, epochs=1).method_  # its one step has the rate 0
    model = fine_tuning.fine_tune("tram", trunk, x, Y, SECONDS, epochs=3)
    assert 1e-6 < largest_change(model.method_.trunk, trunk) < 1e-4  # three steps of 1e-5 at most, and weight decay
    assert 1e-3 < largest_change(model.method_.marginal, start.marginal) < 1e-2
    assert model.predict_proba(x).shape == (24, 2)


@ITSELF
def test_it_makes_its_own_models(capsys):
    pytest.importorskip("transformers", reason="needs the extras `text` and `vision`")
    fine_tuning.main(epochs=1)
    for line in capsys.readouterr().out.splitlines():
        assert re.fullmatch(r"(tram|auto), p\((bad|bright)\) of .*: \[[\d. ]+\]", line)


def write_judgements(folder, comments=48):
    """Write comments whose words tell the truth, six judges of whom the last one is always right, and a test set."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    gold, example = rng.integers(2, size=comments), np.arange(comments)
    texts = np.array(["a good cast", "a bad cast"])
    tables = [
        pd.DataFrame({"example": example, "annotator": f"judge {number}", "gold": gold}).assign(
            label=np.where(rng.random(comments) < right, gold, 1 - gold), score=5.0
        )
        for number, right in enumerate((0.7, 0.7, 0.7, 0.7, 0.7, 1.0))
    ]
    pd.concat(tables).to_parquet(folder / "judgements.parquet")
    pd.DataFrame({"example": example, "text": texts[gold]}).to_parquet(folder / "comments.parquet")
    pd.DataFrame({"text": texts[gold[:20]], "label": gold[:20]}).to_parquet(folder / "test.parquet")


@ITSELF
def test_the_benchmark_of_fine_tuning_prints_its_table(tmp_path, capsys, monkeypatch):
    pytest.importorskip("transformers", reason="needs the extra `text`")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_judgements(tmp_path / "civil_judges")
    encoder = fine_tuning.save_tiny_text_model(tmp_path / "text")
    benchmark.main([str(tmp_path), "--encoder", encoder, "--seeds", "2", "--epochs", "1", "--comments", "40"])
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    rows = {name: cells for name, *cells in lines[2:]}
    kinds = [f"{method}, {kind}" for kind in ("frozen", "fine-tuned") for method in ("No PI", "TRAM", "auto")]
    assert list(rows) == ["majority of 5 judges, all called", "best judge by agreement, called", *kinds]
    for name, (accuracy, nll, seconds) in rows.items():
        assert 0 <= float(accuracy.split()[0]) <= 100
        assert float(nll.split()[0]) > 0
        assert (seconds == "–") == name.endswith("called")


def test_the_best_judge_is_found_without_gold():
    truth = np.arange(60) % 2
    errors = [np.arange(60) % 5 == number for number in range(4)]  # of one judge at a time
    verdicts = np.stack([*(np.where(wrong, 1 - truth, truth) for wrong in errors), truth], 1)
    found = dict(benchmark.ask_judges(verdicts))
    assert ((found["majority of 5 judges, all called"] > 0.5) == truth).all()
    best = found["best judge by agreement, called"]
    assert ((best > 0.5) == truth).all()
    assert set(best.round(6)) == {round(61 / 62, 6), round(1 / 62, 6)}  # decided by the others, with one of each more
