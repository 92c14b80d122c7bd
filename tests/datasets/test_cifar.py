import contextlib
import io
import pickle
import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lupi.datasets import load_cifar10, load_cifar100
from lupi.datasets.cifar import unpickle

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def batch(rng, images, key="labels", classes=10):
    data = rng.integers(256, size=(images, 3072), dtype=np.uint8)
    return {"data": data, key: [int(label) for label in rng.integers(classes, size=images)]}


def write_cifar10(folder, images=4):
    """CIFAR-10 with few images; returns what was written, file by file."""
    rng = np.random.default_rng(0)
    inside = folder / "cifar-10-batches-py"
    inside.mkdir()
    batches = {name: batch(rng, images) for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]}
    for name, content in batches.items():
        (inside / name).write_bytes(pickle.dumps(content))
    (inside / "batches.meta").write_bytes(pickle.dumps({b"label_names": [name.encode() for name in NAMES]}))
    return batches


def test_cifar10(tmp_path):
    batches = write_cifar10(tmp_path)
    cifar = load_cifar10(tmp_path)
    assert cifar.X_train.shape == (20, 3, 32, 32)
    assert cifar.X_train.dtype == np.uint8
    assert cifar.X_test.shape == (4, 3, 32, 32)
    assert cifar.classes == tuple(NAMES)
    third = batches["data_batch_3"]
    np.testing.assert_array_equal(cifar.y_train[8:12], third["labels"])
    # A row is the red plane, the green and the blue, each row by row.
    assert cifar.X_train[9, 2, 5, 7] == third["data"][1, 2 * 1024 + 5 * 32 + 7]
    np.testing.assert_array_equal(cifar.y_test, batches["test_batch"]["labels"])
    np.testing.assert_array_equal(cifar.X_test.reshape(4, 3072), batches["test_batch"]["data"])


def test_some_of_the_batches(tmp_path):
    write_cifar10(tmp_path)
    every = load_cifar10(tmp_path)
    for number in range(3, 6):
        (tmp_path / "cifar-10-batches-py" / f"data_batch_{number}").unlink()
    some = load_cifar10(tmp_path, batches=2)
    assert np.array_equal(some.X_train, every.X_train[:8])
    assert np.array_equal(some.y_train, every.y_train[:8])
    with pytest.raises(FileNotFoundError, match="data_batch_3"):
        load_cifar10(tmp_path, batches=3)
    with pytest.raises(ValueError, match="`batches` to be 1 to 5, but got 6"):
        load_cifar10(tmp_path, batches=6)


def test_the_inner_folder_will_do(tmp_path):
    write_cifar10(tmp_path)
    inner = load_cifar10(str(tmp_path / "cifar-10-batches-py"))
    np.testing.assert_array_equal(inner.X_train, load_cifar10(tmp_path).X_train)


def test_cifar100(tmp_path):
    rng = np.random.default_rng(1)
    inside = tmp_path / "cifar-100-python"
    inside.mkdir()
    train, test = batch(rng, 5, "fine_labels", 100), batch(rng, 3, "fine_labels", 100)
    names = [f"class {number}" for number in range(100)]
    for name, content in {"train": train, "test": test, "meta": {"fine_label_names": names}}.items():
        (inside / name).write_bytes(pickle.dumps(content | {"coarse_labels": [0] * 5}))
    cifar = load_cifar100(tmp_path)
    np.testing.assert_array_equal(cifar.y_train, train["fine_labels"])
    np.testing.assert_array_equal(cifar.X_test.reshape(3, 3072), test["data"])
    assert cifar.classes == tuple(names)


def test_missing_files_say_what_to_download(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_batch_1, but got .*download https.*cifar-10-python\.tar\.gz"):
        load_cifar10(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"cifar-100-python/train, .*download https.*cifar-100-python\.tar\.gz"):
        load_cifar100(tmp_path)
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "test_batch").unlink()
    with pytest.raises(FileNotFoundError, match="to hold cifar-10-batches-py/test_batch, but"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, r"shape \(1, 3072\).*but got uint8 \(2, 3072\)"),
        ({"data": np.zeros((1, 3072)), "labels": [1]}, r"to be uint8 .*but got float64 \(1, 3072\)"),
        ({"data": [0], "labels": [1]}, "to be uint8 .*but got list"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "a dictionary with data and labels, but got one with data"),
        ([1, 2], "a dictionary with data and labels, but got list"),
    ],
)
def test_other_content(tmp_path, content, message):
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_2").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path)


numbers = arrays.arrays(
    st.sampled_from(["u1", "<i8", ">i4", "f4", "<f8", "?"]), arrays.array_shapes(min_dims=1, max_dims=3, max_side=4)
)
text = st.text(st.characters(codec="ascii"), max_size=5)
contents = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@given(content=contents, array=numbers, fortran=st.booleans(), protocol=st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_unpickle_is_pickle_for_what_it_knows(content, array, fortran, protocol):
    array = np.asfortranarray(array) if fortran else array
    file = io.BytesIO(pickle.dumps({"content": content, "array": array}, protocol=protocol) + b"more")
    got = unpickle(file)
    assert got["content"] == content
    np.testing.assert_array_equal(got["array"], array)
    assert got["array"].dtype == array.dtype
    assert got["array"].flags.writeable
    assert file.read() == b"more"


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_an_array_without_axes_is_what_it_holds(protocol):
    """So is a dictionary in a `.npy` file."""
    wrapped = np.array({"labels": np.arange(3)}, dtype=object)
    got = unpickle(io.BytesIO(pickle.dumps(wrapped, protocol=protocol)))
    np.testing.assert_array_equal(got["labels"], [0, 1, 2])


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


def test_a_malicious_file_does_nothing(tmp_path):
    mark = tmp_path / "mark"
    harm = pickle.dumps({"data": Calls(subprocess.check_call, ["touch", str(mark)]), "labels": []})
    pickle.loads(harm)
    assert mark.exists()  # the file is harmful to a reader that trusts it
    mark.unlink()
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(harm)
    with pytest.raises(ValueError, match=r"data_batch_1 to be a pickle of .*that names subprocess\.check_call"):
        load_cifar10(tmp_path)
    assert not mark.exists()


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
    with pytest.raises(ValueError, match="to be a pickle of numbers, text and arrays, but got one that names"):
        unpickle(io.BytesIO(pickle.dumps(content, protocol=protocol)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "S3", "i4,f4", "f2,O"])
def test_arrays_of_other_things_are_refused(dtype):
    with pytest.raises(ValueError, match="has an array of"):
        unpickle(io.BytesIO(pickle.dumps(np.zeros(3, dtype), protocol=4)))


def test_numbers_are_never_read_as_objects():
    """An array of pointers made from a file's bytes would be the end of the process."""
    numbers = pickle.dumps(np.full(1, 0x4141414141414141), protocol=4)
    with pytest.raises(ValueError, match=r"has an array of <O8"):
        unpickle(io.BytesIO(numbers.replace(b"i8", b"O8")))


@given(data=st.data())
def test_damaged_files_are_one_error(data):
    whole = pickle.dumps({"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2]}, protocol=4)
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole[: data.draw(st.integers(place, len(whole)))])
    if place < len(damaged):
        damaged[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):  # and nothing else; some damage is only another number
        unpickle(io.BytesIO(bytes(damaged)))
