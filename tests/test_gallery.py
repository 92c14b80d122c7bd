"""Every script of the gallery runs in less than a minute on one core; `make gallery` shows its output on the site."""

import runpy
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
QUICK = ("gradient_boosting", "onnx_export", "torch_loop")
"""Scripts that every run of the tests executes; others are for the night."""
NEEDS = {"hugging_face_trainer": ("transformers", "accelerate"), "lightning_module": ("lightning",)}


def in_turn(script):
    return pytest.param(script, marks=() if script.stem in QUICK else pytest.mark.nightly, id=script.stem)


@pytest.mark.filterwarnings("ignore")  # what Lightning and transformers say of themselves
@pytest.mark.parametrize("script", [in_turn(script) for script in sorted(GALLERY.glob("*.py"))])
def test_a_script_runs(script, capsys, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    for name in NEEDS.get(script.stem, ()):
        pytest.importorskip(name)
    runpy.run_path(str(script), run_name="__main__")
    shown = capsys.readouterr().out
    assert "accuracy" in shown or script.stem in ("onnx_export", "regression", "reward_model")


def test_there_are_eight_to_twelve_scripts_with_a_title():
    scripts = sorted(GALLERY.glob("*.py"))
    assert 8 <= len(scripts) <= 12
    for script in scripts:
        _, title, line, *_ = script.read_text(encoding="utf-8").splitlines()
        assert set(line) == {"="}, script.name
        assert len(line) == len(title), script.name
