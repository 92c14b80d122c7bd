import os

import pytest

from lupi._internal.files import write_atomic, write_text


def test_a_file_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / "a"
    write_atomic(path, lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_text_is_written_whole_in_utf_8(tmp_path):
    write_text(tmp_path / "a", "ε\n")
    assert (tmp_path / "a").read_bytes() == b"\xce\xb5\n"
    write_text(tmp_path / "a", "\ud800")  # half a surrogate pair, as a table may hold
    assert (tmp_path / "a").read_bytes() == b"?"


def test_others_may_read_it_as_any_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_text(tmp_path / "whole", "")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode
