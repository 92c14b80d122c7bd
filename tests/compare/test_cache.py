import json
import os

import numpy as np
import pytest

from lupi.compare.cache import load_run, open_run_folder, run_path, save_run

ABOUT = {"seeds": 5, "methods": ["no-pi", "tram"]}


def test_a_folder_goes_on_with_the_same_and_refuses_other_options(tmp_path):
    folder = tmp_path / "a" / "run"
    open_run_folder(folder, ABOUT)
    save_run(folder, "tram", 0, {"nll": np.array([1.0])})
    open_run_folder(folder, {**ABOUT, "methods": ("no-pi", "tram")})
    assert load_run(folder, "tram", 0)["nll"] == [1.0]
    with pytest.raises(FileExistsError, match=r"seeds 5, not 6, epochs none, not 3.*overwrite=True"):
        open_run_folder(folder, {**ABOUT, "seeds": 6, "epochs": 3})
    assert run_path(folder, "tram", 0).exists()


@pytest.mark.parametrize("about", [ABOUT, {"seeds": 6}])
def test_overwriting_removes_what_comparisons_write_and_nothing_else(about, tmp_path):
    open_run_folder(tmp_path, ABOUT)
    for name in ("runs/x-0.npz", "runs/x-1.pt", "results.json", "results.csv", "summary.csv", "own.txt"):
        (tmp_path / name).write_text("old")
    open_run_folder(tmp_path, about, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["comparison.json", "own.txt", "runs"]
    assert not os.listdir(tmp_path / "runs")
    assert json.loads((tmp_path / "comparison.json").read_text()) == about


def test_overwriting_removes_the_report_of_an_experiment(tmp_path):
    open_run_folder(tmp_path, {"experiment": "cifar10h"})
    for name in ("report.md", "cifar10h-annotators.svg", "own.svg"):
        (tmp_path / name).write_text("old")
    open_run_folder(tmp_path, {"experiment": "civil-comments"}, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["comparison.json", "own.svg", "runs"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_something_else_is_left_alone(overwrite, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"new or a comparison, but .* is something else"):
        open_run_folder(tmp_path, ABOUT, overwrite=overwrite)
    with pytest.raises(FileExistsError, match=r"to be a folder, but .*thesis.tex is a file"):
        open_run_folder(tmp_path / "thesis.tex", ABOUT, overwrite=overwrite)
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"something else"])
def test_a_damaged_file_is_not_a_finished_run(content, tmp_path):
    open_run_folder(tmp_path, ABOUT)
    run_path(tmp_path, "tram", 0).write_bytes(content)
    assert load_run(tmp_path, "tram", 0) is None


def test_no_object_is_unpickled(tmp_path):
    open_run_folder(tmp_path, ABOUT)
    np.savez(run_path(tmp_path, "tram", 0), a=np.array([{}], dtype=object))
    assert load_run(tmp_path, "tram", 0) is None
