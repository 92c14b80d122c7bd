import pickle
import subprocess

import numpy as np
import pytest

from lupi_paper.datasets import load_cifar10

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def batch(rng, images):
    data = rng.integers(256, size=(images, 3072), dtype=np.uint8)
    return {"data": data, "labels": [int(label) for label in rng.integers(10, size=images)]}


def write_cifar10(folder, images=4):
    """CIFAR-10 with few images; returns what was written, file by file."""
    rng = np.random.default_rng(0)
    inside = folder / "cifar-10-batches-py"
    inside.mkdir()
    batches = {name: batch(rng, images) for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]}
    for name, content in batches.items():
        (inside / name).write_bytes(pickle.dumps(content, protocol=2))
    (inside / "batches.meta").write_bytes(pickle.dumps({"label_names": NAMES}))
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
    with pytest.raises(ValueError, match=r"batches.*6"):
        load_cifar10(tmp_path, batches=6)


def test_the_inner_folder_will_do(tmp_path):
    write_cifar10(tmp_path)
    inner = load_cifar10(str(tmp_path / "cifar-10-batches-py"))
    np.testing.assert_array_equal(inner.X_train, load_cifar10(tmp_path).X_train)


def test_missing_files_say_what_to_download(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_batch_1, but got .*download https.*cifar-10-python\.tar\.gz"):
        load_cifar10(tmp_path)
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "test_batch").unlink()
    with pytest.raises(FileNotFoundError, match="cifar-10-batches-py/test_batch"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, r"data_batch_2.*\(1, 3072\).*\(2, 3072\)"),
        ({"data": np.zeros((1, 3072)), "labels": [1]}, r"uint8.*float64"),
        ({"data": [0], "labels": [1]}, r"uint8.*int64 of shape \(1,\)"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "data_batch_2.*without labels"),
        ([1, 2], "data_batch_2.*without data, labels"),
    ],
)
def test_other_content(tmp_path, content, message):
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_2").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path)


class Touch:
    """Pickles as a call that makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return subprocess.check_call, (["touch", self.path],)


def test_a_malicious_file_does_nothing(tmp_path):
    mark = tmp_path / "mark"
    harm = pickle.dumps({"data": Touch(mark), "labels": []})
    pickle.loads(harm)
    assert mark.exists()  # the file is harmful to a reader that trusts it
    mark.unlink()
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(harm)
    with pytest.raises(ValueError, match=r"data_batch_1 to be a pickle of .*subprocess\.check_call is not allowed"):
        load_cifar10(tmp_path)
    assert not mark.exists()


def test_keys_and_names_may_be_bytes(tmp_path):
    inside = tmp_path / "cifar-10-batches-py"
    inside.mkdir()
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1], b"batch_label": b"batch"}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (inside / name).write_bytes(pickle.dumps(batch))
    (inside / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat", b"dog"]}))
    assert load_cifar10(tmp_path).classes == ("cat", "dog")
