import inspect
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from lupi.cli import app
from lupi.methods import build
from lupi.methods.tram import het_tram
from lupi_paper.experiments import cifar10h
from lupi_paper.experiments.cifar10h import (
    ABLATION,
    HET_TRAM,
    LATER,
    PAIR,
    PUBLISHED,
    Settings,
    make_case,
    make_parts,
    mean_confidence,
    read_task,
    run,
    select_change,
)

CHANGES = {"no L2": {"l2": 0.0}, "batch norm slow": {"momentum": 0.01}}
SMALL = Settings(
    seeds=2,
    epochs=1,
    batch_size=32,
    others=3,
    evaluate=10_000,
    ablation=2,
    changes=CHANGES,
    for_all="no L2",
    annotators="simulated",
)
METHODS = SMALL.methods


def write_cifar(folder, images=40):
    rng = np.random.default_rng(0)
    inside = folder / "cifar-10-batches-py"
    inside.mkdir(parents=True)
    for name in ("data_batch_1", "test_batch"):
        batch = {
            "data": rng.integers(0, 256, (images, 3072), dtype=np.uint8),
            "labels": rng.integers(0, 10, images).tolist(),
        }
        (inside / name).write_bytes(pickle.dumps(batch))
    (inside / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"class {i}" for i in range(10)]}))
    return np.array(batch["labels"])


def write_labels(folder, truth, annotators=6, each=16):
    """Every second annotator guesses half of the time."""
    rng = np.random.default_rng(1)
    rows = []
    for who in range(annotators):
        images = rng.choice(len(truth), each, replace=False)
        guess = rng.random(each) < (0.9 if who % 2 else 0.0)
        chosen = np.where(guess, (truth[images] + rng.integers(1, 10, each)) % 10, truth[images])
        for trial, (image, label) in enumerate(zip(images, chosen, strict=True)):
            time = rng.lognormal(7)
            rows.append((who, trial, 0, truth[image], label, image, time))
    columns = ["annotator_id", "trial_index", "is_attn_check", "true_label", "chosen_label"]
    table = pd.DataFrame(rows, columns=[*columns, "cifar10_test_test_idx", "reaction_time"])
    table.to_csv(folder / "cifar10h-raw.csv", index=False)


def write_weights(folder, width=0.25):
    rng = np.random.default_rng(2)
    channels, arrays = int(32 * width), {}

    def put(name, *shape):
        arrays[f"{name}/weight"] = rng.normal(size=shape).astype(np.float32) * (2 / np.prod(shape[1:])) ** 0.5
        arrays[f"{name}/bias"] = rng.normal(size=max(shape[0], shape[-1]) if shape[0] == 1 else shape[0]).astype("f4")

    put("Conv2d_0", channels, 3, 3, 3)
    for number, full in enumerate((64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024), 1):
        put(f"Conv2d_{number}_depthwise", 1, 3, 3, channels)
        put(f"Conv2d_{number}_pointwise", int(full * width), 1, 1, channels)
        channels = int(full * width)
    np.savez(folder / "mobilenet_v1_0.25_32.npz", **arrays)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_labels(folder, write_cifar(folder))
    write_weights(folder)
    return folder


@pytest.fixture(scope="module")
def found(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return run(SMALL, data=data, folder=folder, overwrite=False, progress=False), folder


def test_every_method_and_seed_is_there(found):
    table = found[0].table
    changed = {f"{method}-no-L2" for method in METHODS} | {"no-pi-batch-norm-slow", "tram-batch-norm-slow"}
    changed |= {f"het-tram-no-L2-{name.replace(' ', '-')}" for name in HET_TRAM}
    assert set(METHODS) == {*PUBLISHED, *LATER}
    assert set(table["method"]) == set(METHODS) | changed
    assert len(PUBLISHED) == 10
    assert (table.groupby("method").size() == 2).all()
    assert table["nll"].between(1, 10).all()
    assert {path.name for path in (found[1] / "runs").iterdir()} == {
        f"{row.method}-{row.seed}.npz" for row in table.itertuples()
    }


def test_finished_runs_are_not_trained_again(found, data):
    before, folder = found
    again = run(SMALL, data=data, folder=folder, overwrite=False, progress=False)
    pd.testing.assert_frame_equal(again.table, before.table, check_exact=True)  # also seconds
    assert again.text == before.text
    (folder / "runs" / "tram-1.npz").unlink()
    (folder / "runs" / "tram-0.npz").write_bytes(b"cut off")
    once_more = run(SMALL, data=data, folder=folder, overwrite=False, progress=False).table
    columns = ["method", "seed", "nll", "accuracy"]
    pd.testing.assert_frame_equal(once_more[columns], before.table[columns], check_exact=True)
    changed = once_more["seconds"] != before.table["seconds"]
    assert set(once_more["method"][changed]) == {"tram"}


def test_another_run_is_refused(found, data):
    other = replace(SMALL, epochs=2)
    with pytest.raises(FileExistsError, match="epochs 1, not 2"):
        run(other, data=data, folder=found[1], overwrite=False, progress=False)


def test_other_weights_or_labels_are_another_run(found, data, tmp_path):
    for name in ("cifar-10-batches-py", "cifar10h-raw.csv"):
        (tmp_path / name).symlink_to(data / name)
    (weights,) = data.glob("*.npz")
    with np.load(weights) as arrays:
        np.savez(tmp_path / weights.name, **{name: value / 2 for name, value in arrays.items()})
    with pytest.raises(FileExistsError, match=r"weights \w+, not \w+"):
        run(SMALL, data=tmp_path, folder=found[1], overwrite=False, progress=False)
    (tmp_path / weights.name).unlink()
    (tmp_path / weights.name).symlink_to(weights)
    (tmp_path / "cifar10h-raw.csv").unlink()
    table = pd.read_csv(data / "cifar10h-raw.csv")
    table["reaction_time"] = table["reaction_time"].to_numpy()[::-1]
    table.to_csv(tmp_path / "cifar10h-raw.csv", index=False)
    with pytest.raises(FileExistsError, match=r"data \w+, not \w+"):
        run(SMALL, data=tmp_path, folder=found[1], overwrite=False, progress=False)


def test_the_ablation_has_no_more_seeds_than_there_are():
    assert list(Settings(seed=3, seeds=4, ablation=5).ablation_seeds()) == [3, 4, 5, 6]
    assert list(Settings(seed=3, seeds=9, ablation=5).ablation_seeds()) == [3, 4, 5, 6, 7]
    assert Settings(ablation=0).ablation_settings() == {}
    assert "batch norm slow" not in Settings(trunk="some/model").ablation_settings()
    assert "float32" not in Settings(precision="float32").ablation_settings()
    assert list(Settings().ablation_settings()) == list(ABLATION)


def test_the_report_says_what_it_is(found):
    text = found[0].text
    assert "| batch norm slow | " in text
    assert "- With batch norm slow No PI changes by " in text
    assert "## All methods with no L2" in text
    assert text.count("| Pi-DUAL | ") == 2
    assert text.count("| Het-TRAM above TRAM | ") == 2
    assert "# CIFAR-10H, simulated annotators" in text
    assert "| TRAM | " in text
    assert "1.058 ± 0.050" in text
    assert "Het-TRAM above TRAM" in text
    assert "TRAM on par with Full marginalization" in text
    assert "(cifar10h-annotators.svg)" in text
    assert list(found[0].figures) == ["cifar10h-annotators"]


def test_the_task(data):
    task = read_task(data, SMALL)
    truth = np.array(pickle.loads((data / "cifar-10-batches-py" / "test_batch").read_bytes())["labels"])
    right = task.train.y.numpy() == truth[task.train.row.numpy()]
    assert len(task.train) == 96
    assert task.agreement == pytest.approx(right.mean())
    for who in range(6):
        assert task.reliability[who] == pytest.approx(right[task.annotator == who].mean())
    a = task.train.a[torch.arange(96)]
    assert a.shape[1] == 6 + 10 + 10
    assert (a.sum(1) == 3).all()  # one-hot, three times
    assert (a[:, :6].argmax(1).numpy() == task.annotator).all()


def test_confidence_is_the_mean_of_the_highest_probability(data):
    task = read_task(data, SMALL)
    parts = make_parts(task, cifar10h.read_trunk(data, SMALL, task.train.x))
    for name in PAIR:
        case = make_case(name, task, parts, SMALL)
        torch.manual_seed(0)
        method = build(name, case.parts).eval()
        batch = task.train.by_annotation(torch.arange(96))
        with torch.no_grad():
            output = method.conditional_output(batch) if name == "tram" else method.predictor()(batch.x)[batch.row]
        highest = torch.softmax(output, -1).max(-1).values.numpy()
        expected = [highest[task.annotator == who].mean() for who in range(6)]
        assert mean_confidence(method, task) == pytest.approx(expected, abs=1e-5)


def test_seeds_begin_at_the_same_trunk_and_differ_behind_it(data):
    task = read_task(data, SMALL)
    parts = make_parts(task, cifar10h.read_trunk(data, SMALL, task.train.x))
    torch.manual_seed(0)
    one, other = parts.trunk(), parts.trunk()
    assert all(torch.equal(p, q) for p, q in zip(one[0].parameters(), other[0].parameters(), strict=True))
    assert one[0] is not other[0]
    assert not torch.equal(one[1].weight, other[1].weight)


def test_the_runs_under_a_change_have_the_names_of_the_methods(found):
    table = found[0].table
    few = select_change(table, "no L2", replace(SMALL, ablation=0, seeds=20))
    assert few.empty
    few = select_change(table, "no L2", SMALL)
    assert set(few["method"]) == set(METHODS)
    own = table[table["method"] == "tram-no-L2"]
    assert few.loc[few["method"] == "tram", "nll"].tolist() == own["nll"].tolist()
    assert own["nll"].tolist() != table.loc[table["method"] == "tram", "nll"].tolist()


def test_the_table_of_het_tram_compares_with_tram(found):
    table = found[0].table.copy()
    table.loc[table["method"] == "tram-no-L2", ["nll", "accuracy"]] = 1.5, 0.5
    table.loc[table["method"] == "het-tram-no-L2", ["nll", "accuracy"]] = 1.25, 0.625
    table.loc[table["method"] == "het-tram-no-L2-temperature-1", ["nll", "accuracy"]] = 1.75, 0.375
    lines = [line.strip("| ").split(" | ") for line in cifar10h.het_tram_table(table, SMALL).splitlines()[2:]]
    assert [line[0] for line in lines] == ["as above", *HET_TRAM]
    assert [cell.split(" ")[0] for cell in lines[0][2:4]] == ["−0.250", "+12.5"]
    (cold,) = [line for line in lines if line[0] == "temperature 1"]
    assert [cell.split(" ")[0] for cell in cold[2:]] == ["+0.250", "−12.5", "+0.500", "−25.0"]
    options = {name: parameter.default for name, parameter in inspect.signature(het_tram).parameters.items()}
    assert all(options[name] != value for new in HET_TRAM.values() for name, value in new.items())
    nll = found[0].table.set_index(["method", "seed"])["nll"]
    names = ["het-tram-no-L2", *(f"het-tram-no-L2-{name.replace(' ', '-')}" for name in HET_TRAM)]
    assert len({nll[name, 0] for name in names}) == len(names)  # the options reach the training


def test_changes_of_the_ablation_are_settings():
    assert Settings().for_all in ABLATION
    for change in ABLATION.values():
        assert replace(Settings(), **change) != Settings()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 1}, "seeds.*1"),
        ({"methods": ("tram",)}, "methods.*tram"),
        ({"evaluate": 5}, "evaluate.*5"),
        ({"ablation": 1}, "ablation.*1"),
        ({"annotators": "some"}, "annotators.*some"),
        ({"precision": "some"}, "precision.*some"),
        ({"momentum": 1.5}, "momentum.*1.5"),
        ({"batch_size": 0}, "batch_size.*0"),
    ],
)
def test_settings_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        replace(Settings(), **change)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="`data` to be a folder with cifar-10-batches-py"):
        run(SMALL, data=None, folder=tmp_path / "run", overwrite=False, progress=False)
    write_labels(tmp_path, write_cifar(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"MobileNet's weights.*trunk=google/mobilenet_v1_1.0_224"):
        run(SMALL, data=tmp_path, folder=tmp_path / "run", overwrite=False, progress=False)


def write_published_archive(folder, data):
    """The labels of a folder as they are published: in a zip file, with all columns and attention checks."""
    labels = pd.read_csv(data / "cifar10h-raw.csv")
    checks = labels.groupby("annotator_id").head(2)
    checks = checks.assign(is_attn_check=1, cifar10_test_test_idx=-99999, chosen_label=(checks["true_label"] + 1) % 10)
    every = pd.concat([labels, checks.assign(trial_index=checks["trial_index"] + 100)], ignore_index=True)
    every = every.assign(true_category="cat", chosen_category="dog, maybe", correct_guess=0, time_elapsed=1.5)
    every = every.assign(image_filename="a_s_000001.png", subcategory="tabby")
    with zipfile.ZipFile(folder / "cifar10h-raw.zip", "w") as archive:
        archive.writestr("cifar10h-raw.csv", every.sample(frac=1, random_state=0).to_csv(index=False))


def test_command_line(data, tmp_path):
    """The command reads the published archive beside CIFAR-10's published folder."""
    given = tmp_path / "given"
    given.mkdir()
    for name in ("cifar-10-batches-py", "mobilenet_v1_0.25_32.npz"):
        (given / name).symlink_to(data / name)
    write_published_archive(given, data)
    small = replace(SMALL, methods=PAIR)
    np.testing.assert_array_equal(read_task(given, small).train.y, read_task(data, small).train.y)
    arguments = ["reproduce", "cifar10h", "--data", str(given), "--seeds", "2", "-o", str(tmp_path / "run")]
    changes = ["epochs=1", "batch_size=32", "others=3", "evaluate=10000", "ablation=0", "methods=no-pi,tram"]
    for change in changes:
        arguments += ["--set", change]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "cifar10h-annotators.svg").exists()
    assert "published file" in (tmp_path / "run" / "report.md").read_text()
    wrong = CliRunner().invoke(app, ["reproduce", "linear-risk", "--data", str(data)])
    assert wrong.exit_code == 2
    assert "no `--data` for linear-risk" in wrong.output
