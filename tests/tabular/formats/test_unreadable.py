"""Whatever the bytes of a file are, an error names the file."""

import gzip

import pytest

from lupi.tabular.formats import open_file, read_schema, read_table


def test_names_that_are_not_utf8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,label\n1,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"t\.csv to be a readable table.*UTF-8"):
        read_schema(open_file(path))


@pytest.mark.parametrize("damage", [lambda content: content[:-12], lambda content: content[:12] + b"xx" + content[14:]])
def test_a_damaged_gzip_file(tmp_path, damage):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(damage(gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 50 + b",2\n")))
    with pytest.raises(ValueError, match=r"t\.csv\.gz to be a readable table"):
        read_table(path, ["a", "b"])
