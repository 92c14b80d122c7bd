import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from lupi._internal.files import claim_output, lock_output, replace_folder, write_text


@contextmanager
def other_process(path):
    """A process that is writing a folder; it is killed at the end unless it has ended by itself."""
    program = Path(__file__).parent / "programs" / "write_and_wait.py"
    process = subprocess.Popen([sys.executable, program, path], stdin=-1, stdout=-1, stderr=-1, text=True)
    try:
        assert process.stdout.readline() == "writing\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_writer_is_told_so_and_a_dead_one_is_forgotten(tmp_path):
    path = tmp_path / "run"
    with other_process(path):
        with (
            pytest.raises(BlockingIOError, match=r"^Expected `output` to have one writer at a time, but another .*run"),
            claim_output(path, folder=True),
        ):
            pass
        with pytest.raises(BlockingIOError, match="one writer"), replace_folder(path):
            pass
        with lock_output(tmp_path / "another"):
            pass
        assert sorted(os.listdir(tmp_path)) == [".run.lupi-lock", ".run.lupi-partial"]
    with claim_output(path, folder=True):
        assert os.listdir(tmp_path) == [".run.lupi-lock"]
    assert not os.listdir(tmp_path)


def test_what_dead_writers_left_is_removed_at_the_next_write_beside_it(tmp_path):
    for name in ("one", "two"):
        with other_process(tmp_path / name):
            pass
    assert len(os.listdir(tmp_path)) >= 2
    with other_process(tmp_path / "three"):
        write_text(tmp_path / "file", "content")
        assert sorted(os.listdir(tmp_path)) == [".three.lupi-lock", ".three.lupi-partial", "file"]


def test_a_writer_that_ends_by_itself_leaves_its_output_only(tmp_path):
    with other_process(tmp_path / "run") as process:
        assert process.communicate() == ("", "")
    assert os.listdir(tmp_path) == ["run"]
    assert (tmp_path / "run" / "half").read_text() == "half"


def test_a_thread_may_take_its_lock_again_and_other_threads_may_not(tmp_path):
    refused = []

    def attempt():
        try:
            with lock_output(tmp_path / "run"):
                pass
        except BlockingIOError:
            refused.append(True)

    with lock_output(tmp_path / "run"), lock_output(tmp_path / "x" / ".." / "run"):
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert refused
    assert not os.listdir(tmp_path)
    attempt()
    assert len(refused) == 1


def test_hidden_files_of_others_stay(tmp_path):
    for name in (".run.lock", ".git", ".model.partial"):
        (tmp_path / name).write_text("")
    with lock_output(tmp_path / "run"):
        pass
    assert sorted(os.listdir(tmp_path)) == [".git", ".model.partial", ".run.lock"]
