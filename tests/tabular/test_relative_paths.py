"""A table names files by paths relative to its folder, and reaches no others."""

from pathlib import Path

import pandas as pd
import pytest

from lupi.tabular.kinds.image import find_files, folder_of, resolve_beside_table


@pytest.mark.parametrize("name", ["", "..", "../a", "a/../../b", "/etc/passwd", "a\0b", "./../x"])
def test_tables_reach_only_what_lies_beside_them(name):
    assert resolve_beside_table(Path("data"), name) is None


@pytest.mark.parametrize("name", ["a", "b/../a", "./a"])
def test_names_inside(name):
    assert resolve_beside_table(Path("data"), name) == Path("data/a")


def test_the_folder_of_a_table(tmp_path):
    assert folder_of(tmp_path) == tmp_path
    assert folder_of(tmp_path / "t.csv") == tmp_path


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "a.png").touch()
    column = pd.Series(["a.png", "a.png", "b.png"], name="photo")
    with pytest.raises(
        ValueError, match=r"^Expected column 'photo' to name files in \S+, but 'b.png' in row 9 does not"
    ):
        find_files(column, tmp_path, [7, 8, 9])
    with pytest.raises(ValueError, match=r"'\.\./a.png' in row 0 leads out of the folder\.$"):
        find_files(pd.Series(["../a.png"], name="photo"), tmp_path, [0])
    with pytest.raises(ValueError, match=r"does not exist\.$"):
        find_files(pd.Series(["."], name="photo"), tmp_path, [0])
