import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from lupi.cli import app
from lupi.compare.cache import open_run_folder
from lupi.compare.engine import to_frame
from lupi.datasets import relabel
from lupi.methods import build
from lupi.training import fit
from lupi_paper.augmentation import RandomCrop, RandomFlip, RandomResizedCrop
from lupi_paper.cases import make_score, train_cases
from lupi_paper.datasets.imagenet_pi import CLASSES
from lupi_paper.experiments import relabelled_data
from lupi_paper.experiments.annotators import Labels
from lupi_paper.experiments.relabelled_images import Settings, make_cases, run
from lupi_paper.experiments.relabelled_report import LATER, MAIN, PAPER, PUBLISHED, SHORT, count_parameters, report
from lupi_paper.settings import change_settings

SMALL = Settings(
    seeds=4,  # enough to train together
    methods=(*PAPER, "no-pi-short", "tram-short", "het-tram-short"),
    images=48,
    annotators_images=32,
    annotators_epochs=2,
    annotators_size=32,
    trunk="mobilenet",
    width=0.1,
    annotators_width=0.1,
    size=32,
    epochs=1,
    batch_size=24,
    het_longer=1,
    device="cpu",
    workers=0,
)
CPU = torch.device("cpu")


def write_cifar(folder, images=20):
    """CIFAR-10 with few images, whose colour tells the class."""
    rng = np.random.default_rng(0)
    inside = folder / "cifar-10-batches-py"
    inside.mkdir(parents=True)
    for name in [*(f"data_batch_{number}" for number in range(1, 5)), "test_batch"]:
        labels = rng.integers(10, size=images)
        data = np.clip(rng.normal(25 * labels[:, None], 20, (images, 3072)), 0, 255).astype(np.uint8)
        (inside / name).write_bytes(pickle.dumps({"data": data, "labels": labels.tolist()}))
    (inside / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))


@pytest.fixture(scope="module")
def cifar(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifar")
    write_cifar(folder)
    return folder


@pytest.fixture(scope="module")
def found(cifar, tmp_path_factory):
    folder = tmp_path_factory.mktemp("found")
    return run(SMALL, data=cifar, folder=folder, overwrite=False, progress=False), folder


def read_images(folder, settings=SMALL):
    names = ("size", "images", "annotators_images", "noise", "seed")
    return relabelled_data.read_images(folder, **{name: getattr(settings, name) for name in names})


def test_every_case_and_seed_is_there(found, cifar):
    findings, folder = found
    cases = list(make_cases(*relabelled(cifar), SMALL))
    assert cases[: len(MAIN)] == list(MAIN)
    assert set(PAPER) == set(PUBLISHED)
    assert set(cases) == {*PAPER, *(f"{name}-short" for name in SHORT)}
    assert findings.table[["method", "seed"]].to_numpy().tolist() == [
        [name, seed] for name in cases for seed in range(4)
    ]
    assert np.isfinite(findings.table[["nll", "accuracy"]].to_numpy()).all()
    assert len(list(folder.glob("runs/*.npz"))) == 16 + 4 * len(cases)
    for title in ("## One step against two", "## A quarter of the capacity", "## Less privileged information"):
        assert title in findings.text
    assert all(f"({name}.svg)" in findings.text for name in findings.figures)
    assert "9 factors" in findings.text


def relabelled(cifar, settings=SMALL):
    images = read_images(cifar, settings)
    rng = np.random.default_rng(0)
    given = relabel(rng.dirichlet(np.ones(images.classes), (16, len(images.true))).astype(np.float32))
    return images, given


def test_a_second_run_trains_nothing_and_is_the_same(found, cifar):
    findings, folder = found
    times = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*")}
    again = run(SMALL, data=cifar, folder=folder, overwrite=False, progress=False)
    assert again.text == findings.text
    pd.testing.assert_frame_equal(again.table, findings.table, check_exact=True)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("runs/*")} == times
    with pytest.raises(FileExistsError, match="epochs 1, not 2"):
        run(replace(SMALL, epochs=2), data=cifar, folder=folder, overwrite=False, progress=False)


def test_an_interrupted_run_is_resumed(found, cifar, tmp_path):
    """Some annotators and some cases are missing; what is trained again is the same."""
    findings, first = found
    shutil.copytree(first, tmp_path / "run")
    runs = tmp_path / "run" / "runs"
    missing = [f"annotator-{number}.npz" for number in (9, 15)]
    missing += [f"{name}-{seed}.npz" for name in ("no-pi", "mean-imputation", "het-tram") for seed in range(4)]
    for name in missing:
        (runs / name).unlink()
    resumed = run(SMALL, data=cifar, folder=tmp_path / "run", overwrite=False, progress=False)
    pd.testing.assert_frame_equal(
        resumed.table.drop(columns="seconds"), findings.table.drop(columns="seconds"), check_exact=True
    )
    assert resumed.text == findings.text
    for number in (9, 15):
        one, other = (np.load(folder / f"annotator-{number}.npz") for folder in (runs, first / "runs"))
        np.testing.assert_array_equal(one["probabilities"], other["probabilities"])


def test_the_tower_sees_annotator_and_probability(cifar):
    cases = make_cases(*relabelled(cifar), SMALL)
    assert cases["tram"].data.a.shape[1] == cases["tram-reduced"].data.a.shape[1] + 1
    probability = cases["tram"].data.a[:, -1]
    assert probability.mean().item() == pytest.approx(0, abs=1e-5)
    assert probability.std(correction=0).item() == pytest.approx(1, abs=1e-4)
    assert torch.equal(cases["tram-reduced"].data.a, cases["tram"].data.a[:, :-1])


def test_no_pi_in_two_steps_freezes_the_trunk_and_sees_no_pi(cifar):
    cases = make_cases(*relabelled(cifar), SMALL)
    method = build(cases["two-step-no-pi"].method, cases["two-step-no-pi"].parts)
    plain = build("no-pi", cases["no-pi"].parts)
    stage = next(method.stages(cases["no-pi"].data))
    plain.trunk.load_state_dict(method.trunk.state_dict())
    plain.marginal.load_state_dict(method.conditional.state_dict())
    batch = cases["no-pi"].data.by_annotation(torch.arange(9))
    loss, expected = stage.method(batch), plain(batch)
    assert torch.equal(loss, expected)
    shuffled = batch._replace(a=torch.randn_like(batch.a))
    assert torch.equal(stage.method(shuffled), plain(batch))

    seen, stages = [], method.stages

    def watched(data):
        for stage in stages(data):
            seen.append({name: value.clone() for name, value in method.trunk.state_dict().items()})
            yield stage

    method.stages = watched
    history = fit(method, cases["no-pi"].data, cases["no-pi"].training, seed=0)
    assert [row["stage"] for row in history] == ["transfer", "marginalize"]
    assert not torch.equal(seen[0]["layers.0.convolution.weight"], seen[1]["layers.0.convolution.weight"])
    for name, value in method.trunk.state_dict().items():
        assert torch.equal(value, seen[1][name]), name
    assert not torch.equal(method.marginal.weight, method.conditional.weight)


def test_a_quarter_of_the_capacity(cifar):
    cases = make_cases(*relabelled(cifar), replace(SMALL, width=1.0))
    for one, other in (("tram", "tram-quarter"), ("no-pi", "no-pi-quarter")):
        assert count_parameters(cases[other]) / count_parameters(cases[one]) == pytest.approx(0.25, abs=0.02)


def test_training_is_the_papers():
    how = Settings(batch_size=256).training(90)
    assert [how.rate(epoch) for epoch in (29, 31, 61, 81)] == pytest.approx([1, 0.1, 0.01, 0.001])
    assert (how.optimizer, how.learning_rate, how.l2) == ("sgd", 0.1, 1e-4)


def test_training_images_are_augmented(cifar, imagenet):
    for folder, kinds in ((cifar, [RandomCrop, RandomFlip]), (imagenet, [RandomResizedCrop, RandomFlip])):
        settings = replace(SMALL, noise="low")
        images = read_images(folder, settings)
        labels = relabelled(cifar)[1] if images.published is None else images.published
        augment = make_cases(images, labels, settings)["no-pi"].training.augment
        assert [type(part) for part in augment] == kinds
        assert augment(images.x[0][None]).shape == (1, 3, 32, 32)


def test_a_control_trains_for_a_third_of_the_epochs(cifar):
    cases = make_cases(*relabelled(cifar), replace(SMALL, epochs=30))
    assert cases["tram-short"].training.milestones == (10 / 3, 20 / 3, 80 / 9)
    for name in SHORT:
        one, short = cases[name], cases[f"{name}-short"]
        assert 3 * short.training.epochs == one.training.epochs
        assert (short.method, short.parts, short.options) == (one.method, one.parts, one.options)


def test_rows_that_differ_in_prediction_alone_share_their_networks(cifar):
    cases = make_cases(*relabelled(cifar), SMALL)
    assert cases["mean-imputation"].shares_network(cases["zero-imputation"])
    assert cases["full-marginalization"].shares_network(cases["zero-imputation"])
    assert not cases["tram"].shares_network(cases["zero-imputation"])


def test_het_tram_trains_longer(cifar):
    cases = make_cases(*relabelled(cifar), replace(SMALL, het_longer=3))
    assert cases["het-tram"].training.epochs == 3 * cases["tram"].training.epochs
    assert cases["het-tram"].training.milestones == (1, 2, 8 / 3)


def test_the_report_compares_rows(found, cifar):
    table = found[0].table.copy()
    for name, row in PUBLISHED.items():
        table.loc[table["method"] == name, ["nll", "accuracy"]] = row.nll, row.accuracy / 100
    for name in SHORT:
        nll, accuracy = {"no-pi": (1.2, 0.72), "tram": (1.1, 0.73)}.get(name, (1.3, 0.72))
        table.loc[table["method"] == f"{name}-short", ["nll", "accuracy"]] = nll, accuracy
    table["nll"] += 1e-5 * table["seed"] * np.random.default_rng(0).random(len(table))  # without variation, no error
    table["accuracy"] += 1e-6 * table["seed"] * np.random.default_rng(1).random(len(table))
    images, given = relabelled(cifar)

    def write(settings):
        labels = Labels(given, [0.7] * 16, 0.5)
        return " ".join(report(table, make_cases(images, given, settings), images, labels, settings).split())

    text = write(SMALL)
    assert "TRAM compared with No PI: −0.039 [−0.039, −0.039] in NLL, +0.8 [+0.8, +0.8] points" in text
    assert "At a quarter of the capacity TRAM compared with No PI: +0.003 " in text
    assert "A third of the epochs changes No PI by −0.064 [−0.064, −0.064] in NLL, +0.3 [+0.3, +0.3] points" in text
    assert "TRAM with all epochs compared with No PI with a third: +0.025 [+0.025, +0.025] in NLL, +0.5 " in text
    assert "uniform guess" not in text
    worse = table.assign(nll=table["nll"].where(table["method"] != "no-pi", 2.4))
    labels = Labels(given, [0.7] * 16, 0.5)
    assert "NLL of ln 10 = 2.303" in report(worse, make_cases(images, given, SMALL), images, labels, SMALL)
    assert "trains as long as TRAM" not in text
    assert write(replace(SMALL, epochs=30, het_longer=3)).endswith(
        "trains as long as TRAM does with all of them. Compared with TRAM: +0.075 "
        "[+0.075, +0.075] in NLL, −0.5 [−0.5, −0.5] points of accuracy."
    )


def test_a_trunk_that_cannot_be_made_fails_before_anything_is_trained(cifar, tmp_path):
    with pytest.raises((ImportError, OSError, ValueError)):
        run(
            replace(SMALL, trunk=str(tmp_path / "nothing")),
            data=cifar,
            folder=tmp_path / "run",
            overwrite=False,
            progress=False,
        )
    assert not (tmp_path / "run").exists()


def test_the_command(found, cifar):
    folder = found[1]
    names = ("images", "annotators_images", "annotators_epochs", "annotators_size", "width", "epochs", "batch_size")
    names = (*names, "annotators_width", "het_longer", "device", "workers", "trunk", "size")
    changes = [f"--set={name}={getattr(SMALL, name)}" for name in names]
    changes.append(f"--set=methods={','.join(SMALL.methods)}")
    options = ["--data", str(cifar), "--seeds", "4", *changes, "-o", str(folder)]
    result = CliRunner().invoke(app, ["reproduce", "relabelled-images", *options])
    assert result.exit_code == 0, result.output
    assert "# Relabelled images" in result.stdout
    assert json.loads((folder / "results.json").read_text())["settings"]["images"] == 48
    assert (folder / "relabelled-images-methods.svg").exists()
    result = CliRunner().invoke(app, ["reproduce", "relabelled-images", "-o", str(folder)])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 1}, "seeds.*1"),
        ({"annotators_size": 48}, "annotators_size.*48"),
        ({"right": -0.1}, "right.*-0.1"),
        ({"methods": ("tram", "pram")}, "methods.*no-pi.*pram"),
        ({"precision": "float8"}, "precision.*float8"),
        ({"malicious": 1.5}, "malicious.*1.5"),
        ({"width": 0.0}, "width.*0.0"),
        ({"depths": (1.5,)}, "depths.*1.5"),
        ({"annotators_epochs": 0}, "annotators_epochs.*0"),
        ({"noise": "some"}, "noise.*some"),
    ],
)
def test_other_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(Settings(), **changes)


def test_fewer_images_where_there_are_fewer(cifar):
    images = read_images(cifar, replace(SMALL, images=1000, annotators_images=1000))
    assert len(images.true) == len(images.x) == images.learned == 80
    np.testing.assert_array_equal(images.lesson(32).new, images.x)
    some = read_images(cifar, SMALL)
    np.testing.assert_array_equal(some.x, images.x[-48:])
    np.testing.assert_array_equal(some.lesson(64).x[:, :, ::2, ::2], images.x[:32])


def test_settings_depend_on_the_data(cifar, imagenet):
    small, large = (Settings().complete(folder) for folder in (cifar, imagenet))
    assert (small.trunk, small.size, small.epochs) == ("mobilenet", 32, 30)
    assert set(small.methods) == {*PAPER, *LATER, *(f"{name}-short" for name in SHORT)}
    assert (large.trunk, large.size, large.epochs, large.methods) == ("resnet", 224, 90, PAPER)
    assert Settings(epochs=3).complete(imagenet).epochs == 3
    with pytest.raises(ValueError, match=r"size.*multiple of 32.*48"):
        Settings(size=48).complete(cifar)


# ImageNet -----------------------------------------------------------------------------------------------------------


def write_imagenet(folder, train=12):
    """ImageNet-PI and ImageNet in the published layout, tiny: an image of each class for validation."""
    rng = np.random.default_rng(0)
    names = {
        "train": [f"n{number % 7:08d}_{number}.JPEG" for number in range(train)],
        "validation": [f"ILSVRC2012_val_{number + 1:08d}.JPEG" for number in range(CLASSES)],
    }
    for split, own in names.items():
        inside = folder / "imagenet_pi" / "low_noise"
        labels = rng.integers(CLASSES, size=(len(own), 16))
        for what, numbers in {"labels": labels, "confidences": rng.random((len(own), 16)).round(4)}.items():
            (inside / what).mkdir(parents=True, exist_ok=True)
            pd.DataFrame(numbers, index=own).to_csv(inside / what / f"{split}.csv", header=False)
        features = pd.DataFrame({"accuracy": np.linspace(-1, 1, 16), "size": np.linspace(14, 18, 16)})
        features.to_csv(inside / "annotator_features.csv", header=False, index=False)
        for number, name in enumerate(own):
            place = folder / split / f"n{number % (7 if split == 'train' else CLASSES):08d}"
            place.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (2, 2), tuple(map(int, rng.integers(256, size=3)))).save(place / name, format="PNG")


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imagenet")
    write_imagenet(folder)
    return folder


ON_IMAGENET = replace(SMALL, noise="low", batch_size=6)


def test_imagenet(imagenet, tmp_path):
    images = read_images(imagenet, ON_IMAGENET)
    assert images.classes == 1000
    np.testing.assert_array_equal(images.y_test, np.arange(CLASSES))
    assert images.x[2].shape == (3, 64, 64)  # for random crops of 32 × 32
    assert images.x_test[2].shape == (3, 32, 32)
    np.testing.assert_array_equal(images.true, np.array([0, 7, 1, 8, 2, 9, 3, 10, 4, 11, 5, 6]) % 7)
    cases = make_cases(images, images.published, ON_IMAGENET)
    assert cases["tram"].parts.outputs == 1000
    assert cases["het-tram"].options["factors"] == 15

    chosen, score = [cases["no-pi"], cases["tram"]], make_score(images.x_test, images.y_test)
    with open_run_folder(tmp_path, {}) as kept:
        runs = to_frame(train_cases(chosen, range(2), kept, score, device=CPU))
    assert np.isfinite(runs["nll"]).all()
    every = pd.DataFrame(
        {"method": list(cases) * 2, "seed": np.repeat([0, 1], len(cases)), "nll": 1.0, "accuracy": 0.5}
    )
    text = report(every, cases, images, Labels(images.published, [], 1.0), ON_IMAGENET)
    assert "12 images of ImageNet with labels of ImageNet-PI (low noise)." in text


def test_validation_images_need_their_classes(imagenet, tmp_path):
    for name in ("imagenet_pi", "train"):
        (tmp_path / name).symlink_to(imagenet / name)
    (tmp_path / "validation").mkdir()
    (tmp_path / "validation" / "n00000000").symlink_to(imagenet / "validation" / "n00000000")
    with pytest.raises(ValueError, match="validation to hold a folder for each of 1000 classes, but got 1"):
        read_images(tmp_path, ON_IMAGENET)


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """JPEG files of three classes, which their colours tell apart."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    for split, each in (("train", 10), ("validation", 4)):
        for number in range(3):
            (folder / split / f"n0000000{number}").mkdir(parents=True)
            for image in range(each):
                shape = tuple(rng.integers(36, 48, 2))
                pixels = np.clip(rng.normal(60 + 70 * number, 40, (*shape, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / split / f"n0000000{number}" / f"{image}.JPEG")
    return folder


ON_FILES = {
    "methods": "no-pi,tram,het-tram",
    "size": 32,
    "epochs": 2,
    "batch_size": 8,
    "het_longer": 1,
    "annotators_images": 24,
    "annotators_epochs": 1,
    "annotators_width": 0.1,
    "annotators_size": 32,
    "width": 0.1,
    "device": "cpu",
    "workers": 1,
    "checkpoint": 2,
}


def test_images_in_files(files, tmp_path):
    """ResNet learns from files; training sees random crops, and testing the centres of images."""
    settings = change_settings(Settings(seeds=2), [f"{name}={value}" for name, value in ON_FILES.items()])
    settings = replace(settings, methods=("no-pi", "tram-quarter"), depths=(1, 1), annotators_epochs=2)
    images = read_images(files, settings.complete(files))
    assert (len(images.x), len(images.x_test), images.classes) == (30, 12, 3)
    assert (images.x[0].shape, images.x_test[0].shape) == ((3, 64, 64), (3, 32, 32))
    found = run(settings, data=files, folder=tmp_path / "run", overwrite=False, progress=False)
    assert found.table[["method", "seed"]].to_numpy().tolist() == [
        [name, seed] for name in settings.methods for seed in (0, 1)
    ]
    assert "30 images\nof the same training set" in found.text
    assert "a ResNet of 1-1 blocks" in found.text
    assert sorted(path.suffix for path in (tmp_path / "run" / "runs").iterdir()) == [".npz"] * 20
    again = run(settings, data=files, folder=tmp_path / "run", overwrite=False, progress=False)
    pd.testing.assert_frame_equal(found.table, again.table)


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-py.*train and validation, but got .*neither"):
        read_images(tmp_path)
    (tmp_path / "train" / "n01").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "train" / "n01" / "a.JPEG")
    with pytest.raises(FileNotFoundError, match=r"folder of images, but got .*validation, which does not exist"):
        read_images(tmp_path)


def test_classes_must_be_the_same(files, tmp_path):
    (tmp_path / "train").symlink_to(files / "train")
    (tmp_path / "val").mkdir()
    for number in (0, 2):
        (tmp_path / "val" / f"n0000000{number}").symlink_to(files / "validation" / f"n0000000{number}")
    with pytest.raises(ValueError, match=r"train and .*val to have the same classes, but got n00000001"):
        read_images(tmp_path, Settings(size=32))


def list_options(data, folder):
    """List the arguments of `lupi` for an experiment on two devices."""
    settings = {**ON_FILES, "trunk": "mobilenet", "devices": 2, "workers": 0}
    changes = [f"--set={name}={value}" for name, value in settings.items()]
    return ["reproduce", "relabelled-images", "--data", str(data), "--seeds", "2", *changes, "-o", str(folder)]


def make_variables():
    """Return environment variables with which two processes find each other."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    own = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    return {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **own}


@pytest.fixture
def program(files, tmp_path):
    """The running program that trains in two forks of itself, into the folder `killed`."""
    started = subprocess.Popen(
        [
            sys.executable,
            Path(__file__).parent / "programs" / "killed_while_training.py",
            *list_options(files, tmp_path / "killed"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    yield started
    started.communicate()


def train_in_forks(program, die_after=None):
    """Run the command, and return the exit code of its first process and what it said."""
    program.stdin.write(json.dumps([make_variables(), die_after]) + "\n")
    program.stdin.flush()
    return json.loads(program.stdout.readline())


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("lightning") is None, reason="needs the extra `distributed`")
def test_two_devices_killed_and_resumed(files, program, tmp_path):
    """Killed with SIGKILL inside the third training, a run resumes there and has the results of one that was not."""
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-m", "lupi", *list_options(files, whole)],
        capture_output=True,
        text=True,
        env={**os.environ, **make_variables()},
        timeout=600,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("# Relabelled images") == 1  # one process reports
    names = ("no-pi", "tram", "het-tram")
    finished = {f"{name}-{seed}.npz" for name in names for seed in (0, 1)}
    assert {path.name for path in (whole / "runs").iterdir()} == finished | {f"annotator-{n}.npz" for n in range(16)}

    per_training = 4  # eight steps, of which every second one is saved
    code, said = train_in_forks(program, die_after=2 * per_training + 2)
    assert code == -signal.SIGKILL, said
    kept = {path.name for path in (folder / "runs").iterdir()}
    assert kept & finished == {"no-pi-0.npz", "tram-0.npz"}
    assert "het-tram-0.pt" in kept
    before = (folder / "runs" / "no-pi-0.npz").stat().st_mtime_ns

    code, said = train_in_forks(program)
    assert code == 0, said
    assert (folder / "runs" / "no-pi-0.npz").stat().st_mtime_ns == before
    assert {path.suffix for path in (folder / "runs").iterdir()} == {".npz"}
    tables = [pd.read_csv(place / "results.csv").drop(columns="seconds") for place in (whole, folder)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
