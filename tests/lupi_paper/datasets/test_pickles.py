import contextlib
import io
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lupi_paper.datasets.pickles import unpickle

numbers = arrays.arrays(
    st.sampled_from(["u1", "<i8", ">i4", "f4", "<f8", "?"]), arrays.array_shapes(min_dims=1, max_dims=3, max_side=4)
)
text = st.text(st.characters(codec="ascii"), max_size=5)
contents = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@given(content=contents, array=numbers, fortran=st.booleans(), protocol=st.integers(2, 4))
def test_unpickle_is_pickle_for_what_it_knows(content, array, fortran, protocol):
    array = np.asfortranarray(array) if fortran else array
    file = io.BytesIO(pickle.dumps({"content": content, "array": array}, protocol=protocol) + b"more")
    got = unpickle(file)
    assert got["content"] == content
    np.testing.assert_array_equal(got["array"], array)
    assert got["array"].dtype == array.dtype
    assert got["array"].flags.writeable
    assert file.read() == b"more"


def test_python_2():
    """The published files: protocol 2, text and bytes alike as BINSTRING, numpy's old module names."""

    def string(value):
        return b"T" + struct.pack("<i", len(value)) + value

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + string(b"b") + b"\x87R"
        b"(K\x01K\x02K\x02\x86"
        b"cnumpy\ndtype\n" + string(b"u1") + b"K\x00K\x01\x87R(K\x03" + string(b"|") + b"NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89" + string(b"\x01\x02\x03\xff") + b"tb"
    )
    file = b"\x80\x02}(" + string(b"data") + array + string(b"labels") + b"]K\x06au."
    assert pickle.loads(file, encoding="bytes").keys() == {b"data", b"labels"}  # numpy agrees that it is one
    got = unpickle(io.BytesIO(file))
    np.testing.assert_array_equal(got["data"], np.array([[1, 2], [3, 255]], np.uint8))
    assert got["labels"] == [6]


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "content",
    [
        Calls(eval, "1 + 1"),
        Calls(getattr, [], "append"),
        Calls(np.load, "somewhere"),
        Calls(np.frombuffer, b"12345678"),
        [Calls(print, "hello")],
        {1: Calls(bytearray, 10)},
    ],
)
def test_other_names_are_refused(content, protocol, capsys):
    with pytest.raises(ValueError, match="is not allowed"):
        unpickle(io.BytesIO(pickle.dumps(content, protocol=protocol)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "S3", "O", "i4,f4", "f2,O"])
def test_arrays_of_other_things_are_refused(dtype):
    with pytest.raises(ValueError, match=r"array of type .* is not allowed"):
        unpickle(io.BytesIO(pickle.dumps(np.zeros(3, dtype), protocol=4)))


def test_numbers_are_never_read_as_objects():
    """An array of pointers made from a file's bytes would be the end of the process."""
    numbers = pickle.dumps(np.full(1, 0x4141414141414141), protocol=4)
    with pytest.raises(ValueError, match="array of type object is not allowed"):
        unpickle(io.BytesIO(numbers.replace(b"i8", b"O8")))


class ForgedDType:
    """Pickles as a type of objects that claims to hold none; numpy believes it and crashes."""

    def __reduce__(self):
        fields = {"a": (np.dtype("O"), 0)}
        return np.dtype, ("V8", False, True), (3, "|", None, ("a",), fields, 8, 1, 0)


class ForgedArray:
    def __reduce__(self):
        made = pickle.loads(pickle.dumps(np.zeros(1), protocol=4)).__reduce__()
        return *made[:2], (1, (1,), ForgedDType(), False, b"A" * 8)


def test_forged_pointers_are_refused():
    with pytest.raises(ValueError, match="is not allowed"):
        unpickle(io.BytesIO(pickle.dumps(ForgedArray(), protocol=4)))


@given(data=st.data())
def test_damaged_files_are_one_error(data):
    whole = pickle.dumps({"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2]}, protocol=4)
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole[: data.draw(st.integers(place, len(whole)))])
    if place < len(damaged):
        damaged[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):  # and nothing else; some damage is only another number
        unpickle(io.BytesIO(bytes(damaged)))
