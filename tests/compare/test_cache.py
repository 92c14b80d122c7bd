import json
import os

import numpy as np
import pytest

from lupi.compare.cache import DIGEST, RunFolder, open_run_folder

ABOUT = {"seeds": 5, "methods": ["no-pi", "tram"]}


def opened(folder, about=ABOUT, **options):
    with open_run_folder(folder, about, **options) as runs:
        return runs


def test_a_folder_goes_on_with_the_same_and_refuses_other_options(tmp_path):
    folder = tmp_path / "a" / "run"
    opened(folder).save("tram", 0, {"nll": np.array([1.0])})
    assert opened(folder, {**ABOUT, "methods": ("no-pi", "tram")}).load("tram", 0)["nll"] == [1.0]
    with pytest.raises(FileExistsError, match=r"seeds 5, not 6, epochs none, not 3.*overwrite=True"):
        opened(folder, {**ABOUT, "seeds": 6, "epochs": 3})
    assert opened(folder).file("tram", 0).exists()


def test_options_that_do_not_change_a_run_leave_finished_runs_and_results(tmp_path):
    same = {"same_runs": ["seeds"]}
    opened(tmp_path, **same).save("tram", 0, {"nll": np.array([1.0])})
    (tmp_path / "results.json").write_text("old")
    runs = opened(tmp_path, {**ABOUT, "seeds": 9}, **same)
    assert runs.load("tram", 0)["nll"] == [1.0]
    assert json.loads((tmp_path / "comparison.json").read_text()) == {**ABOUT, "seeds": 9}
    assert (tmp_path / "results.json").read_text() == "old"
    with pytest.raises(FileExistsError, match=r" has epochs none, not 3; pass"):
        opened(tmp_path, {**ABOUT, "seeds": 5, "epochs": 3}, **same)
    assert json.loads((tmp_path / "comparison.json").read_text())["seeds"] == 9
    opened(tmp_path, {**ABOUT, "seeds": 9}, overwrite=True, **same)
    assert not (tmp_path / "results.json").exists()
    assert os.listdir(tmp_path / "runs") == []


@pytest.mark.parametrize("about", [ABOUT, {"seeds": 6}])
def test_overwriting_removes_what_comparisons_write_and_nothing_else(about, tmp_path):
    opened(tmp_path)
    for name in ("runs/x-0.npz", "runs/x-1.pt", "results.json", "results.csv", "summary.csv", "own.txt", "runs/own"):
        (tmp_path / name).write_text("old")
    opened(tmp_path, about, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["comparison.json", "own.txt", "runs"]
    assert os.listdir(tmp_path / "runs") == ["own"]
    assert json.loads((tmp_path / "comparison.json").read_text()) == about


def test_overwriting_removes_the_report_of_an_experiment(tmp_path):
    opened(tmp_path, {"experiment": "cifar10h"})
    for name in ("report.md", "cifar10h-annotators.svg", "own.svg"):
        (tmp_path / name).write_text("old")
    opened(tmp_path, {"experiment": "civil-comments"}, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["comparison.json", "own.svg", "runs"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_something_else_is_left_alone(overwrite, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"new or a comparison, but .* is something else"):
        opened(tmp_path, overwrite=overwrite)
    with pytest.raises(FileExistsError, match=r"to be a folder, but .*thesis.tex is a file"):
        opened(tmp_path / "thesis.tex", overwrite=overwrite)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_what_a_crash_or_a_full_disk_leaves_can_be_used(tmp_path):
    (tmp_path / "run" / "runs").mkdir(parents=True)
    (tmp_path / "run" / ".writable").write_text("")
    opened(tmp_path / "run")
    for content in ("", '{"seeds": 5', "[1]", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        (tmp_path / "run" / "comparison.json").write_text(content)
        with pytest.raises(FileExistsError, match=r"has a damaged comparison.json; pass `overwrite=True` to start"):
            opened(tmp_path / "run")
        opened(tmp_path / "run", overwrite=True)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"something else"])
def test_a_damaged_file_is_not_a_finished_run(content, tmp_path):
    runs = opened(tmp_path)
    runs.file("tram", 0).write_bytes(content)
    assert runs.load("tram", 0) is None


def test_a_damaged_byte_never_raises(tmp_path):
    runs = opened(tmp_path)
    runs.save("tram", 0, {"nll": np.arange(3.0)})
    path = runs.file("tram", 0)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        found = runs.load("tram", 0)
        assert found is None or found["nll"].tolist() == [0, 1, 2]


def test_no_object_is_unpickled(tmp_path):
    runs = opened(tmp_path)
    np.savez(runs.file("tram", 0), a=np.array([{}], dtype=object), **{DIGEST: runs.digest})
    assert runs.load("tram", 0) is None


def test_a_run_of_another_comparison_is_not_loaded(tmp_path):
    """Even if its file is in the folder under the right name."""
    runs = opened(tmp_path)
    RunFolder(tmp_path, {"seeds": 6}).save("tram", 0, {"nll": 1.0})
    assert runs.load("tram", 0) is None
    np.savez(runs.file("tram", 1), nll=1.0)
    assert runs.load("tram", 1) is None
    runs.save("tram", 0, {"nll": 2.0})
    assert runs.load("tram", 0) == {"nll": 2.0}


def test_a_run_of_another_group_is_not_loaded(tmp_path):
    runs = opened(tmp_path)
    runs.save("tram", 0, {"nll": 1.0}, group=range(2))
    assert runs.load("tram", 0, group=[0, 1]) == {"nll": 1.0}
    assert runs.load("tram", 0, group=[0]) is None
    assert runs.load("tram", 0) is None
    runs.save("tram", 0, {"nll": 2.0}, group=range(1))
    assert runs.load("tram", 0, group=range(2)) == {"nll": 1.0}
