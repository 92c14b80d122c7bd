import zipfile

import numpy as np
import pandas as pd
import pytest

from lupi.tabular import TableEncoder
from lupi_paper.datasets import load_cifar10h

ANNOTATORS, TRIALS, CHECKS, BAD = 30, 40, 5, 6


def published(index="cifar10_test_test_idx", seed=0):
    """A small table with the published columns; the first `BAD` annotators are right half of the time."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(10, size=10_000)
    frames = []
    for who in range(ANNOTATORS):
        order = rng.permutation(TRIALS + CHECKS)
        images = rng.choice(10_000, TRIALS, replace=False)
        right = np.arange(TRIALS) < (TRIALS // 2 if who < BAD else TRIALS - who % 3)
        check = np.arange(TRIALS + CHECKS) >= TRIALS
        true = np.append(truth[images], rng.integers(10, size=CHECKS))
        # Attention checks are answered wrongly: counted as labels, they would make everyone bad.
        chosen = np.append(np.where(right, truth[images], (truth[images] + 1) % 10), (true[TRIALS:] + 1) % 10)
        frame = pd.DataFrame(
            {
                "annotator_id": who,
                "trial_index": np.argsort(order),
                "is_attn_check": check.astype(int),
                "true_category": "cat",
                "chosen_category": "dog",
                "true_label": true,
                "chosen_label": chosen,
                "correct_guess": (true == chosen).astype(int),
                index: np.append(images, np.full(CHECKS, -99999)),
                "image_filename": "a,b.png",
                "subcategory": "tabby",
                "reaction_time": rng.exponential(1000, TRIALS + CHECKS).round(1),
                "time_elapsed": 0.0,
            }
        )
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


@pytest.fixture
def path(tmp_path):
    published().sample(frac=1, random_state=0).to_csv(tmp_path / "cifar10h-raw.csv", index=False)
    return tmp_path / "cifar10h-raw.csv"


def test_every_label_once_and_no_attention_check(path):
    labels = load_cifar10h(path)
    table = published().query("is_attn_check == 0")
    assert len(labels.y) == ANNOTATORS * TRIALS == len(table)
    got = pd.DataFrame(
        {
            "annotator_id": labels.privileged["annotator"].astype(int),
            "image": labels.example,
            "chosen_label": labels.y,
            "true_label": labels.gold,
            "reaction_time": labels.privileged["reaction_time"],
        }
    )
    expected = table.rename(columns={"cifar10_test_test_idx": "image"})[list(got)]
    key = ["annotator_id", "image"]
    pd.testing.assert_frame_equal(
        got.sort_values(key, ignore_index=True), expected.sort_values(key, ignore_index=True), check_dtype=False
    )


def test_earlier_counts_the_labels_before(path):
    labels = load_cifar10h(path)
    table = published()
    for row in range(0, len(labels.y), 17):
        who, image = int(labels.privileged["annotator"][row]), labels.example[row]
        own = table[(table["annotator_id"] == who) & (table["is_attn_check"] == 0)]
        trial = own["trial_index"][own["cifar10_test_test_idx"] == image].item()
        assert labels.privileged["earlier"][row] == (own["trial_index"] < trial).sum()
    assert set(labels.privileged["earlier"]) == set(range(TRIALS))


def test_subsample(path):
    labels = load_cifar10h(path)
    agreement = labels.agreement()
    assert list(agreement.index[agreement < 0.85]) == [str(who) for who in range(BAD)]
    some = labels.subsample(others=4)
    assert len(some.y) == (BAD + 4) * TRIALS
    assert list(some.privileged.index) == list(range(len(some.y)))
    assert list(some.privileged["annotator"].cat.categories) == list(some.privileged["annotator"].unique())
    assert {str(who) for who in range(BAD)} < set(some.privileged["annotator"])
    pd.testing.assert_series_equal(some.agreement(), agreement[some.agreement().index], check_index_type=False)
    assert (some.y == some.gold).mean() == pytest.approx(agreement[some.agreement().index].mean())
    assert (some.y == some.gold).mean() < (labels.y == labels.gold).mean()


def test_the_seed_draws_the_others(path):
    labels = load_cifar10h(path)
    everyone = set()
    for seed in range(40):
        some = labels.subsample(others=5, random_state=seed)
        np.testing.assert_array_equal(some.example, labels.subsample(others=5, random_state=seed).example)
        others = set(some.privileged["annotator"]) - {str(who) for who in range(BAD)}
        assert len(others) == 5
        everyone |= others
    assert len(everyone) == ANNOTATORS - BAD


def test_ready_for_the_encoder(path):
    privileged = load_cifar10h(path).subsample(others=4).privileged
    encoder = TableEncoder(privileged=True).fit(privileged)
    assert [one.kind.name for one in encoder.encodings_] == ["category", "number", "number"]
    assert encoder.transform(privileged).shape == ((BAD + 4) * TRIALS, BAD + 4 + 10 + 10)


def test_archive_folder_and_the_described_name(path, tmp_path):
    expected = load_cifar10h(path)
    published("cifar10_test_set_idx").to_csv(tmp_path / "other.csv", index=False)
    (tmp_path / "zipped").mkdir()
    with zipfile.ZipFile(tmp_path / "zipped" / "cifar10h-raw.zip", "w") as archive:
        archive.write(path, "cifar10h-raw.csv")
        archive.writestr("__MACOSX/._cifar10h-raw.csv", "")
    for place in (str(tmp_path), tmp_path / "zipped", tmp_path / "zipped" / "cifar10h-raw.zip", tmp_path / "other.csv"):
        got = load_cifar10h(place)
        np.testing.assert_array_equal(got.example, expected.example)
        pd.testing.assert_frame_equal(got.privileged, expected.privileged)


def test_missing_files_say_what_to_download(tmp_path):
    for place in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(FileNotFoundError, match=r"path.*download https.*cifar10h-raw\.zip"):
            load_cifar10h(place)


def test_other_tables(path):
    table = published()
    table.drop(columns=["reaction_time", "cifar10_test_test_idx"]).to_csv(path, index=False)
    with pytest.raises(ValueError, match="cifar10_test_test_idx, reaction_time"):
        load_cifar10h(path)
    table.loc[table["is_attn_check"] == 0, "cifar10_test_test_idx"] += 9_990
    table.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"image.*1\d\d\d\d"):
        load_cifar10h(path)


def test_more_others_than_there_are(path):
    with pytest.raises(ValueError, match=r"others.*24.*85%.*25"):
        load_cifar10h(path).subsample(others=25)
