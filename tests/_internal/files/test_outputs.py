import os

import pytest

from lupi._internal.files import claim_output, explain_os_errors


def claim(path, **options):
    with claim_output(path, **options):
        pass


def test_new_outputs_need_no_permission_and_their_parents_are_made(tmp_path):
    claim(tmp_path / "a" / "b" / "file")
    claim(tmp_path / "a" / "b" / "folder", folder=True)
    assert os.listdir(tmp_path / "a" / "b") == []
    (tmp_path / "run" / "runs").mkdir(parents=True)
    claim(tmp_path / "run", folder=True, ours=lambda _: False)


def test_what_exists_is_replaced_only_when_asked_and_only_if_it_is_ours(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis").write_text("mine")
    with pytest.raises(FileExistsError, match=r"new, but .*run exists; pass `overwrite=True` to replace it\.$"):
        claim(tmp_path / "run", folder=True)
    with pytest.raises(FileExistsError, match=r"new or a model, but .*run is something else\.$"):
        claim(tmp_path / "run", folder=True, overwrite=True, ours=lambda _: False, kind="model")
    claim(tmp_path / "run", folder=True, overwrite=True)
    with pytest.raises(FileExistsError, match=r"`onnx` to be a file, but .* is a folder"):
        claim(tmp_path / "run", overwrite=True, argument="onnx")
    with pytest.raises(FileExistsError, match=r"to be a folder, but .* is a file"):
        claim(tmp_path / "run" / "thesis", folder=True, overwrite=True)


def test_places_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"`output` to be writable, but got .*: File exists\.$"):
        claim(tmp_path / "file" / "run")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=r"^Expected `output` to be "):
        claim(tmp_path / "loop" / "run")
    monkeypatch.chdir(tmp_path)
    for path in (".", "..", "/"):
        with pytest.raises(FileExistsError, match=r"folder of its own, but .* is "):
            claim(path, folder=True, overwrite=True)


def test_a_full_disk_is_one_sentence():
    message = r"^Expected `output` to be writable, but got run: No space left on device\.$"
    with pytest.raises(OSError, match=message), explain_os_errors("run"):
        raise OSError(28, "No space left on device")


def test_a_loop_of_links_is_refused_before_the_work(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for folder in (True, False):
        with pytest.raises(OSError, match=r"`output` to be writable, but got \S+loop: Too many levels"):
            claim(tmp_path / "loop", folder=folder)
    (tmp_path / "link").symlink_to("new", target_is_directory=True)
    claim(tmp_path / "link", folder=True)
