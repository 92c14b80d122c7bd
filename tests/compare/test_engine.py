import pandas as pd
import pytest

from lupi.compare.cache import open_run_folder
from lupi.compare.engine import Arm, Run, run_arms, to_frame


class Recorder:
    """An arm whose scores tell which seeds trained together."""

    def __init__(self, name):
        self.name, self.groups = name, []

    def train(self, seeds):
        self.groups.append(list(seeds))
        return [{"nll": 100.0 * seed + len(seeds), "kept": [seed]} for seed in seeds]


def run(recorders, seeds, **options):
    arms = [Arm(name=one.name, train=one.train) for one in recorders]
    return run_arms(arms, seeds, **options)


def test_arms_train_groups_of_seeds_and_results_are_ordered_by_arm():
    one, other = Recorder("one"), Recorder("other")
    found = run([one, other], [3, 5, 8], seeds_at_once=2)
    assert one.groups == other.groups == [[3, 5], [8]]
    assert [(r.arm, r.seed) for r in found] == [(name, seed) for name in ("one", "other") for seed in (3, 5, 8)]
    assert [r.values["nll"] for r in found] == [302, 502, 801] * 2


def test_every_arm_has_trained_some_seeds_before_one_has_trained_all():
    order = []
    arms = [Arm(name=name, train=lambda s, n=name: order.append((n, *s)) or [{}] * len(s)) for name in "ab"]
    run_arms(arms, range(3), seeds_at_once=2)
    assert order == [("a", 0, 1), ("b", 0, 1), ("a", 2), ("b", 2)]


def test_jobs_do_not_change_results():
    one, two = (run([Recorder("a"), Recorder("b")], range(5), seeds_at_once=2, jobs=jobs) for jobs in (1, 2))
    pd.testing.assert_frame_equal(to_frame(one), to_frame(two), check_exact=True)
    with pytest.raises(ValueError, match=r"jobs.*0"):
        run([], [0], seeds_at_once=1, jobs=0)


@pytest.fixture
def folder(tmp_path):
    with open_run_folder(tmp_path / "run", {}) as runs:
        yield runs


def test_finished_runs_are_kept_and_missing_seeds_form_new_groups(folder):
    first = Recorder("tram")
    run([first], range(3), seeds_at_once=20, folder=folder)
    assert folder.load("tram", 2)["kept"].tolist() == [2]
    folder.file("tram", 1).write_bytes(b"cut off")
    again, said = Recorder("tram"), []
    found = run([again], range(5), seeds_at_once=2, folder=folder, notify=said.append)
    assert again.groups == [[1, 3], [4]]
    assert [float(r.values["nll"]) for r in found] == [3, 102, 203, 302, 401]
    assert said == ["Resuming: 2 of 5 runs are already finished."]


def test_a_group_that_misses_a_run_can_be_trained_as_a_whole(folder):
    options = {"seeds_at_once": 2, "keep_groups": True, "folder": folder}
    found = to_frame(run([Recorder("tram")], range(5), **options))
    folder.file("tram", 3, [2, 3]).unlink()
    again = Recorder("tram")
    pd.testing.assert_frame_equal(to_frame(run([again], range(5), **options)), found)
    assert again.groups == [[2, 3]]


def test_kept_groups_give_the_results_of_a_new_folder_whatever_was_trained_before(folder):
    options = {"seeds_at_once": 2, "keep_groups": True}
    for seeds, trained in ((3, [[0, 1], [2]]), (5, [[2, 3], [4]]), (4, []), (3, []), (2, [])):
        again = Recorder("tram")
        found = to_frame(run([again], range(seeds), folder=folder, **options))
        pd.testing.assert_frame_equal(found, to_frame(run([Recorder("tram")], range(seeds), **options)))
        assert again.groups == trained


def test_only_the_process_that_saves_writes_runs(folder):
    run([Recorder("tram")], range(2), seeds_at_once=1, folder=folder, save=False)
    assert not list((folder.path / "runs").iterdir())


def test_the_table_holds_numbers_only():
    table = to_frame([Run("a", 0, {"nll": 1, "rows": [1, 2]}), Run("b", 0, {"nll": 2.0, "more": 3})])
    assert list(table) == ["method", "seed", "nll", "more"]
    assert table["nll"].tolist() == [1.0, 2.0]


def test_progress_counts_runs(folder, capsys):
    run([Recorder("no-pi")], range(2), seeds_at_once=1, folder=folder)
    run([Recorder("no-pi")], range(4), seeds_at_once=2, folder=folder, progress=True)
    assert "train no-pi (4/4)" in capsys.readouterr().err
