import pickle
import subprocess

import numpy as np
import pandas as pd
import pytest
import torch

from lupi_paper.datasets import load_cifar10n, load_cifar100n
from lupi_paper.datasets.cifar_n import URL

IMAGES = 60
KEYS = ["clean_label", "aggre_label", "worse_label", "random_label1", "random_label2", "random_label3"]


def labels10(seed=0):
    rng = np.random.default_rng(seed)
    return {key: rng.integers(10, size=IMAGES) for key in KEYS}


def side10():
    rng = np.random.default_rng(1)
    table = {"Image-batch": [f"{first}--{first + 9}" for first in range(0, IMAGES, 10)]}
    for number in (1, 2, 3):
        table[f"Worker{number}-id"] = rng.integers(9, size=IMAGES // 10)
        table[f"Work-time-in-seconds-{number}"] = rng.integers(1, 99, size=IMAGES // 10)
    return pd.DataFrame(table)


def write10(folder, content=None, side=None):
    """The repository's layout: labels in `data`, the workers beside it."""
    (folder / "data").mkdir(exist_ok=True)
    torch.save(labels10() if content is None else content, folder / "data" / "CIFAR-10_human.pt")
    (side10() if side is None else side).to_csv(folder / "side_info_cifar10N.csv", index=False)


def test_cifar10n(tmp_path):
    write10(tmp_path)
    got, labels, side = load_cifar10n(tmp_path), labels10(), side10()
    assert got.y.shape == (3 * IMAGES,)
    np.testing.assert_array_equal(got.combined["aggregate"], labels["aggre_label"])
    np.testing.assert_array_equal(got.combined["worst"], labels["worse_label"])
    for row in range(3 * IMAGES):
        image, number = row // 3, row % 3 + 1
        assert got.example[row] == image
        assert got.y[row] == labels[f"random_label{number}"][image]
        assert got.gold[row] == labels["clean_label"][image]
        assert got.privileged["annotator"][row] == str(side[f"Worker{number}-id"][image // 10])
        assert got.privileged["seconds"][row] == side[f"Work-time-in-seconds-{number}"][image // 10]
    assert got.privileged["annotator"].dtype == "category"


def test_cifar100n(tmp_path):
    truth, noisy = np.arange(20) % 7, np.arange(20) % 11
    torch.save({"clean_label": truth, "noisy_label": noisy}, tmp_path / "CIFAR-100_human.pt")
    ranges = [f"{first}--{first + 4}" for first in range(0, 20, 5)]
    side = pd.DataFrame({"Image-batch": ranges, "Worker-id": [5, 3, 5, 12], "Work-time-in-seconds": [60, 50, 40, 30]})
    side.to_csv(tmp_path / "side_info_cifar100N.csv", index=False)
    got = load_cifar100n(tmp_path)
    np.testing.assert_array_equal(got.example, np.arange(20))
    np.testing.assert_array_equal(got.y, noisy)
    np.testing.assert_array_equal(got.gold, truth)
    assert list(got.privileged["annotator"]) == ["5"] * 5 + ["3"] * 5 + ["5"] * 5 + ["12"] * 5
    assert got.privileged["seconds"][19] == 30
    assert got.combined.shape == (20, 0)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("convert", [torch.tensor, np.int32, np.ndarray.tolist, lambda label: label[:, None]])
def test_labels_may_be_tensors_or_arrays(tmp_path, convert, zipped):
    write10(tmp_path)
    expected = load_cifar10n(tmp_path)
    content = {key: convert(label) for key, label in labels10().items()}
    torch.save(content, tmp_path / "data" / "CIFAR-10_human.pt", _use_new_zipfile_serialization=zipped)
    np.testing.assert_array_equal(load_cifar10n(tmp_path).y, expected.y)


def test_tensorflows_order_is_turned_into_pythons(tmp_path):
    write10(tmp_path)
    expected = load_cifar10n(tmp_path)
    (tmp_path / "data" / "CIFAR-10_human.pt").unlink()
    order = np.random.default_rng(2).permutation(IMAGES)  # image i of TensorFlow is image order[i] of Python
    ordered = {key: label[order] for key, label in labels10().items()}
    np.save(tmp_path / "data" / "CIFAR-10_human_ordered.npy", np.array(ordered, dtype=object), allow_pickle=True)
    np.save(tmp_path / "image_order_c10.npy", order)
    got = load_cifar10n(tmp_path)
    np.testing.assert_array_equal(got.y, expected.y)
    np.testing.assert_array_equal(got.gold, expected.gold)
    pd.testing.assert_frame_equal(got.privileged, expected.privileged)
    np.save(tmp_path / "image_order_c10.npy", order[1:])
    with pytest.raises(ValueError, match="image_order_c10"):
        load_cifar10n(tmp_path)


def test_cifar100n_in_tensorflows_order(tmp_path):
    content = {"clean_label": np.arange(5), "noise_label": np.arange(5) + 10}  # the name in these files
    np.save(tmp_path / "CIFAR-100_human_ordered.npy", np.array(content, dtype=object), allow_pickle=True)
    np.save(tmp_path / "image_order_c100.npy", np.array([2, 0, 1, 4, 3]))
    (tmp_path / "side_info_cifar100N.csv").write_text("Image-batch,Worker-id,Work-time-in-seconds\n0--4,7,9\n")
    np.testing.assert_array_equal(load_cifar100n(tmp_path).y, [11, 12, 10, 14, 13])


def test_batches_in_any_order(tmp_path):
    write10(tmp_path)
    expected = load_cifar10n(tmp_path)
    write10(tmp_path, side=side10().sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(load_cifar10n(tmp_path).privileged, expected.privileged)


@pytest.mark.parametrize("ranges", [["0--9"] * 6, ["0-9"] * 6, [f"{first}--{first + 8}" for first in range(0, 60, 10)]])
def test_batches_must_hold_every_image_once(tmp_path, ranges):
    write10(tmp_path, side=side10().assign(**{"Image-batch": ranges}))
    with pytest.raises(ValueError, match=r"Image-batch.*60 images"):
        load_cifar10n(tmp_path)


class Harm:
    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return subprocess.check_call, (["touch", self.mark],)


def test_malicious_files_do_nothing(tmp_path):
    mark = tmp_path / "mark"
    write10(tmp_path, content=labels10() | {"more": Harm(mark)})
    with pytest.raises(ValueError, match=r"CIFAR-10_human\.pt to be a torch file .*Unpickling"):
        load_cifar10n(tmp_path)
    (tmp_path / "data" / "CIFAR-10_human.pt").unlink()
    path = tmp_path / "data" / "CIFAR-10_human_ordered.npy"
    np.save(path, np.array({"clean_label": Harm(mark)}, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"_ordered\.npy to be a pickle of .*subprocess.check_call is not allowed"):
        load_cifar10n(tmp_path)
    assert not mark.exists()
    np.load(path, allow_pickle=True)
    assert mark.exists()  # the file is harmful to a reader that trusts it


def test_missing_files_say_what_to_download(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"CIFAR-10_human\.pt, .*clone {URL}"):
        load_cifar10n(tmp_path)
    write10(tmp_path)
    (tmp_path / "side_info_cifar10N.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"side_info_cifar10N\.csv, "):
        load_cifar10n(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"CIFAR-100_human\.pt, "):
        load_cifar100n(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"clean_label": np.arange(3)}, r"human\.pt.*without random_label1.*worse_label"),
        (labels10() | {"worse_label": np.arange(3)}, "'worse_label': 3"),
        (np.arange(3), r"human\.pt.*without clean_label"),
    ],
)
def test_other_content(tmp_path, content, message):
    write10(tmp_path, content=content)
    with pytest.raises(ValueError, match=message):
        load_cifar10n(tmp_path)


def test_other_tables(tmp_path):
    write10(tmp_path, side=side10().drop(columns="Worker2-id"))
    with pytest.raises(ValueError, match=r"side_info_cifar10N\.csv.*without Worker2-id"):
        load_cifar10n(tmp_path)


def test_a_file_that_is_no_torch_file(tmp_path):
    write10(tmp_path)
    (tmp_path / "data" / "CIFAR-10_human.pt").write_bytes(pickle.dumps(labels10()))
    with pytest.raises(ValueError, match="torch file"):
        load_cifar10n(tmp_path)
