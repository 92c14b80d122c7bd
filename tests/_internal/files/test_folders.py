import os
from pathlib import Path

import pytest

from lupi._internal import files
from lupi._internal.files import current_folder, is_blank, replace_folder


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "run"
    (path / "deep").mkdir(parents=True)
    for name in ("mine", "deep/mine", "results"):
        (path / name).write_text("old")
    (path / "link").symlink_to("nowhere")
    os.mkfifo(path / "pipe")
    return path


def content(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


OLD = {"mine": "old", "deep/mine": "old", "results": "old"}


def test_a_folder_is_replaced_and_what_others_put_there_is_kept(folder):
    inode = (folder / "mine").stat().st_ino
    with replace_folder(folder, drop=["results", "more"]) as partial:
        (partial / "more").write_text("new")
        assert content(folder) == OLD
    assert content(folder) == {"mine": "old", "deep/mine": "old", "more": "new"}
    assert (folder / "mine").stat().st_ino == inode
    assert os.readlink(folder / "link") == "nowhere"
    assert os.listdir(folder.parent) == ["run"]


def test_a_disk_without_links_gets_copies(folder, monkeypatch):
    def link(*_, **__):
        raise OSError

    (folder / "pipe").unlink()
    monkeypatch.setattr(os, "link", link)
    with replace_folder(folder):
        pass
    assert content(folder) == OLD


def test_a_failure_leaves_the_old_folder(folder):
    def fail(partial):
        (partial / "mine").unlink()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replace_folder(folder) as partial:
        fail(partial)
    assert content(folder) == OLD
    assert os.listdir(folder.parent) == ["run"]


def test_a_link_is_followed(folder):
    link = folder.parent / "link"
    link.symlink_to(folder)
    with replace_folder(link, drop=["results"]) as partial:
        (partial / "results").write_text("new")
    assert link.is_symlink()
    assert (folder / "results").read_text() == "new"


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError), replace_folder(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_death_between_two_renames_loses_nothing(folder):
    """Readers find the old folder, and the next writer puts it back."""
    folder.rename(files.hidden_path(folder, files.OLD))
    files.partial_path(folder).mkdir()
    assert content(current_folder(folder)) == OLD
    with files.lock_output(folder):
        assert content(folder) == OLD
    assert current_folder(folder) == folder
    assert os.listdir(folder.parent) == ["run"]


def test_folders_with_nothing_to_lose(tmp_path):
    (tmp_path / "runs" / "empty").mkdir(parents=True)
    (tmp_path / ".writable").write_text("")
    assert is_blank(tmp_path)
    (tmp_path / ".notes").write_text("mine")
    assert not is_blank(tmp_path)


def test_the_root_of_the_disk_is_where_it_is():
    assert current_folder(Path("/")) == Path("/")
