import json
import os

import numpy as np
import pytest

from lupi.compare import cache as kept

ABOUT = {"seeds": 5, "methods": ["no-pi", "tram"]}


def test_a_folder_goes_on_with_the_same_and_refuses_other_options(tmp_path):
    folder = tmp_path / "a" / "run"
    kept.open_folder(folder, ABOUT)
    kept.keep(folder / "runs" / "x.npz", {"nll": np.array([1.0])})
    kept.open_folder(folder, {**ABOUT, "methods": ("no-pi", "tram")})
    assert kept.kept(folder / "runs" / "x.npz")["nll"] == [1.0]
    with pytest.raises(FileExistsError, match=r"but .* has seeds 5, now 6; epochs none, now 3: `--overwrite` begins"):
        kept.open_folder(folder, {**ABOUT, "seeds": 6, "epochs": 3})
    assert (folder / "runs" / "x.npz").exists()


@pytest.mark.parametrize("about", [ABOUT, {"seeds": 6}])
def test_overwriting_removes_what_comparisons_write_and_nothing_else(about, tmp_path):
    kept.open_folder(tmp_path, ABOUT)
    for name in ("runs/x.npz", "results.json", "results.csv", "summary.csv", "own.txt"):
        (tmp_path / name).write_text("old")
    kept.open_folder(tmp_path, about, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["comparison.json", "own.txt", "runs"]
    assert not os.listdir(tmp_path / "runs")
    assert json.loads((tmp_path / "comparison.json").read_text()) == about


def test_overwriting_removes_the_report_of_an_experiment(tmp_path):
    kept.open_folder(tmp_path, {"experiment": "cifar10h"})
    for name in ("report.md", "cifar10h-annotators.svg", "own.svg"):
        (tmp_path / name).write_text("old")
    kept.open_folder(tmp_path, {"experiment": "civil-comments"}, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["comparison.json", "own.svg", "runs"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_something_else_is_left_alone(overwrite, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"new or a comparison, but .* is something else"):
        kept.open_folder(tmp_path, ABOUT, overwrite=overwrite)
    with pytest.raises(FileExistsError, match=r"to be a folder, but .*thesis.tex is a file"):
        kept.open_folder(tmp_path / "thesis.tex", ABOUT, overwrite=overwrite)
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"something else"])
def test_what_cannot_be_read_has_not_finished(content, tmp_path):
    (tmp_path / "x.npz").write_bytes(content)
    assert kept.kept(tmp_path / "x.npz") is None


def test_no_object_is_read(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.array([{}], dtype=object))
    assert kept.kept(tmp_path / "x.npz") is None
