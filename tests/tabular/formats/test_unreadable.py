"""Whatever the bytes of a file are, an error names the file, and the column where it has a name."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lupi.tabular.reading import open_table, read_batches, read_schema, read_table


def not_text(*values):
    """Strings that are not UTF-8, as careless writers of Parquet leave them."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


def test_text_that_is_not_utf8_is_refused_with_its_column(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3], "note": not_text(b"fine", b"fine", b"caf\xe9")}), path)
    assert read_table(path, ["age"]).num_rows == 3
    with pytest.raises(ValueError, match=r"'note' of .*t\.parquet.*UTF-8.*row 2"):
        read_table(path, ["age", "note"])
    with pytest.raises(ValueError, match=r"'note' of .*t\.parquet.*UTF-8"):
        list(read_batches(open_table(path), ["note"]))


def test_rows_of_text_that_is_not_utf8_are_counted_across_batches(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"note": not_text(*[b"fine"] * 9, b"\xff")}), path, row_group_size=4)
    with pytest.raises(ValueError, match="row 9"):
        list(read_batches(open_table(path), ["note"]))


def test_names_that_are_not_utf8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,label\n1,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"t\.csv to be a readable table.*UTF-8"):
        read_schema(open_table(path))


@pytest.mark.parametrize("damage", [lambda content: content[:-12], lambda content: content[:12] + b"xx" + content[14:]])
def test_a_damaged_gzip_file(tmp_path, damage):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(damage(gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 50 + b",2\n")))
    with pytest.raises(ValueError, match=r"t\.csv\.gz to be a readable table"):
        read_table(path, ["a", "b"])
