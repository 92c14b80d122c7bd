from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lupi import metrics
from lupi.cli import app
from lupi.tabular.text_encoders import make_text_encoder
from lupi_paper.datasets.civil_comments import IDENTITIES, LABELS
from lupi_paper.experiments.civil_comments import (
    CLAIMS,
    METHODS,
    PUBLISHED,
    Settings,
    make_cases,
    make_task,
    read_texts,
    reference_levels,
    report,
    run,
    shuffle_cases,
)
from lupi_paper.experiments.civil_stand_in import (
    ADDS,
    ATTRIBUTES,
    BY_TOPIC,
    KINDS,
    ON_LABELS,
    RATES,
    REMOVES,
    StandIn,
    report_probability,
)

SMALL = Settings(seeds=2, epochs=1, shuffled=False, device="cpu")
WORDS = ["film", "plot", "cast", "good", "bad", "slow", "funny", "dull", "war", "love", "city", "song", "actor", "end"]


def sentences(n, seed):
    generator = np.random.default_rng(seed)
    return [f"{' '.join(generator.choice(WORDS, 6))} {seed}x{i}" for i in range(n)]


@pytest.fixture
def stand_in_folder(tmp_path):
    """A folder for the stand-in: two annotations of each sentence, and test sentences of which one is known."""
    folder = tmp_path / "sentences"
    folder.mkdir()
    train = sentences(120, 0)
    twice = pd.DataFrame({"text": train * 2, "annotator": 1, "label": 0})
    twice.to_parquet(folder / "annotations.parquet")
    pd.DataFrame({"text": [*sentences(40, 1), train[0]], "label": 1}).to_parquet(folder / "test.parquet")
    return folder


def write_comments(path, n, seed, toxicity):
    """Comments in the published columns; the identities of the last are not known."""
    generator = np.random.default_rng(seed)
    columns = {"id": range(n), toxicity: generator.random(n), "comment_text": sentences(n, seed)}
    columns |= {name: generator.random(n) for name in LABELS[1:]}
    columns |= {name: np.where(np.arange(n) < n - 1, generator.integers(0, 3, n) / 2, np.nan) for name in IDENTITIES}
    pd.DataFrame(columns).to_csv(path, index=False)


@pytest.fixture
def published(tmp_path):
    folder = tmp_path / "comments"
    folder.mkdir()
    write_comments(folder / "train.csv", 81, 0, "target")
    write_comments(folder / "test_public_expanded.csv", 31, 1, "toxicity")
    return folder


def go(data, folder, settings=SMALL, *, overwrite=False):
    return run(settings, data=data, folder=folder, overwrite=overwrite, progress=False)


# -------------------------------------------------------------------------------- the two paths


def test_the_stand_in_is_trained_kept_and_named(stand_in_folder, tmp_path):
    found = go(stand_in_folder, tmp_path / "run")
    assert found.table.groupby("method").size().to_dict() == dict.fromkeys(METHODS, 2)
    assert np.isfinite(found.table[["nll", "accuracy", "clean_nll", "clean_accuracy"]].to_numpy()).all()
    assert "120 sentences to train on and 40 others" in found.text
    of_tram = found.table["method"] == "tram"
    for name in ("given_train_nll", "given_test_nll"):
        assert (found.table[name].notna() == of_tram).all()
    tables_in_text = found.text.count("\n|---|")
    assert tables_in_text == 3
    assert found.text.count("Stand-in: real sentences, synthetic labels and attributes.") == 1 + tables_in_text
    assert list(found.figures) == ["civil-comments-nll"]
    assert "](civil-comments-nll.svg)" in found.text
    assert len(found.figures["civil-comments-nll"].axes) == 2

    again = go(stand_in_folder, tmp_path / "run", replace(SMALL, device="auto"))
    pd.testing.assert_frame_equal(again.table, found.table, check_exact=True)  # also seconds: nothing was trained
    assert again.text == found.text
    with pytest.raises(FileExistsError, match=r"epochs 1, not 2.*overwrite"):
        go(stand_in_folder, tmp_path / "run", replace(SMALL, epochs=2))


def test_the_published_comments_are_trained_on_where_they_are_there(published, tmp_path):
    found = go(published, tmp_path / "run")
    assert set(found.table) == {"method", "seed", "nll", "accuracy", "seconds"}
    assert "80 to train on and 30 to test on" in found.text
    assert "tand-in" not in found.text
    assert len(found.figures["civil-comments-nll"].axes) == 1
    fewer = go(published, tmp_path / "fewer", replace(SMALL, comments=50))
    assert "50 to train on and 30 to test on" in fewer.text


def test_shares_and_labels_reach_the_methods_as_they_are(published):
    texts = read_texts(published, SMALL)
    table = pd.read_csv(published / "train.csv").iloc[:80]
    a, y, test = texts.known
    assert a == pytest.approx(table[IDENTITIES].to_numpy())
    assert (y == (table[["target", *LABELS[1:]]].to_numpy() >= 0.5)).all()
    assert len(test) == len(texts.test) == 30
    some = read_texts(published, replace(SMALL, comments=50))
    assert set(some.train) < set(texts.train)
    write_comments(published / "test_private_expanded.csv", 11, 2, "toxicity")
    assert len(read_texts(published, SMALL).test) == 10  # the paper's test set comes first


def test_an_interrupted_experiment_is_resumed(stand_in_folder, tmp_path):
    """Only missing runs are trained: other methods, more seeds, or the controls."""
    whole = go(stand_in_folder, tmp_path / "run").table
    runs = tmp_path / "run" / "runs"
    for name in METHODS[3:]:
        for seed in (0, 1):
            (runs / f"{name}-{seed}.npz").unlink()
    resumed = go(stand_in_folder, tmp_path / "run").table
    columns = ["method", "seed", "nll", "accuracy", "clean_nll"]
    pd.testing.assert_frame_equal(resumed[columns], whole[columns], check_exact=True)
    kept = resumed["seconds"] == whole["seconds"]
    assert set(resumed["method"][kept]) == set(METHODS[:3])

    more = go(stand_in_folder, tmp_path / "run", replace(SMALL, seeds=3)).table
    old = more[more["seed"] < 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(old, resumed, check_exact=True)

    controlled = go(stand_in_folder, tmp_path / "run", replace(SMALL, shuffled=True))
    pd.testing.assert_frame_equal(controlled.table[: len(resumed)], resumed, check_exact=True)
    using = [name for name in METHODS if name not in ("no-pi", "distillation")]
    assert set(controlled.table["method"]) - set(METHODS) == {f"{name}-shuffled" for name in using}
    assert "## Is it the privileged information?\nStand-in: real sentences" in controlled.text


def test_the_command_line_runs_it(stand_in_folder, tmp_path):
    options = ["--data", str(stand_in_folder), "--seeds", "2", "--set", "epochs=1", "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(app, ["reproduce", "civil-comments", *options])
    assert result.exit_code == 0, result.output
    assert "# Civil Comments, a stand-in" in result.stdout
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *("comparison.json", "runs", "results.json", "results.csv", "report.md", "civil-comments-nll.svg")
    }


def write_kaggle(path, n, seed, toxicity):
    """Comments with all columns of the published files, in their order, and texts of several lines."""
    write_comments(path, n, seed, toxicity)
    table = pd.read_csv(path)
    table["comment_text"] = [f'{text}\n\nHe said: "{text}, no."' for text in table["comment_text"]]
    before, after = (["target"], []) if toxicity == "target" else ([], ["toxicity"])
    unused = {
        "created_date": "2016-05-15 05:50:17.713188+00",
        "publication_id": 21,
        "parent_id": np.nan,
        "rating": "approved",
    }
    unused |= dict.fromkeys(("article_id", "funny", "wow", "sad", "likes", "disagree"), 0)
    order = ["id", *before, "comment_text", *after, *LABELS[1:-1], *sorted(IDENTITIES), *unused, LABELS[-1]]
    counts = {"identity_annotator_count": 4, "toxicity_annotator_count": 4}
    table.assign(**unused)[order].assign(**counts).to_csv(path, index=False)


def test_the_command_reads_the_published_files(tmp_path):
    folder = tmp_path / "kaggle"
    folder.mkdir()
    write_kaggle(folder / "train.csv", 61, 0, "target")
    write_kaggle(folder / "test_public_expanded.csv", 21, 1, "toxicity")
    write_kaggle(folder / "test_private_expanded.csv", 31, 2, "toxicity")
    (folder / "test.csv").write_text("id,comment_text\n1,no labels\n")
    (folder / "sample_submission.csv").write_text("id,prediction\n1,0.0\n")
    options = ["--data", str(folder), "--seeds", "2", "-o", str(tmp_path / "run")]
    changes = ["--set", "epochs=1", "--set", "shuffled=False", "--set", "device=cpu"]
    result = CliRunner().invoke(app, ["reproduce", "civil-comments", *options, *changes])
    assert result.exit_code == 0, result.output
    assert "60 to train on and 30 to test on" in result.stdout
    assert "tand-in" not in result.stdout


def test_shuffled_information_belongs_to_other_texts(published):
    texts = read_texts(published, SMALL)
    cases = make_cases(make_task(texts, make_text_encoder(None).fit(texts.train), SMALL), SMALL)
    controls = shuffle_cases(cases)
    assert {case.method for case in controls} == set(METHODS) - {"no-pi", "distillation"}
    a, other = cases[0].data, controls[0].data
    assert other.x is a.x
    assert other.y is a.y
    assert (other.a != a.a).any(1).float().mean() > 0.9
    assert (other.a.sort(0).values == a.a.sort(0).values).all()


# -------------------------------------------------------------------------------- errors


def test_without_data_it_says_what_to_download(tmp_path):
    for data in (None, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"`data` to be .*kaggle.*24 identities.*text, but got "):
            read_texts(data, SMALL)
    result = CliRunner().invoke(app, ["reproduce", "civil-comments", "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `")
    assert result.output.count("\n") == 1


def test_what_cannot_be_read_is_one_sentence(published, stand_in_folder):
    (published / "test_public_expanded.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"^Expected .* to have test_private_.* or .* beside train.csv"):
        read_texts(published, SMALL)
    write_comments(published / "test_private_expanded.csv", 1, 1, "toxicity")
    with pytest.raises(ValueError, match=r"^Expected .*test_private_expanded.csv to have comments whose identities"):
        read_texts(published, SMALL)
    pd.read_parquet(stand_in_folder / "annotations.parquet").to_parquet(stand_in_folder / "test.parquet")
    with pytest.raises(ValueError, match=r"^Expected .*sentences to train and to test on, but got 120 and 0\.$"):
        read_texts(stand_in_folder, SMALL)
    pd.DataFrame({"words": ["a"]}).to_parquet(stand_in_folder / "test.parquet")
    with pytest.raises(ValueError, match=r"^Expected .*test.parquet to have sentences in a column text"):
        read_texts(stand_in_folder, SMALL)


@pytest.mark.parametrize(
    ("name", "value"), [("seeds", 1), ("seed", -1), ("comments", -1), ("task", -1), ("epochs", 0), ("l2", -1.0)]
)
def test_other_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^Expected `{name}` to be "):
        Settings(**{name: value})


# -------------------------------------------------------------------------------- the stand-in


@pytest.fixture(scope="module")
def drawn():
    """Many made-up embeddings, so that rates are close to probabilities."""
    generator = np.random.default_rng(7)
    x = generator.normal(size=(30_000, 30))
    made = StandIn.fit(x, generator)
    return x, made, made.draw(x, generator)


def test_clean_labels_have_their_rates_and_go_together(drawn):
    _, _, sample = drawn
    assert sample.clean.mean(0) == pytest.approx(RATES, abs=1e-3)
    together = np.corrcoef(sample.clean.T)[np.triu_indices(KINDS, 1)]
    assert together.mean() > 0.1


def test_half_of_the_attributes_depend_on_the_sentence(drawn):
    """Correlation of each attribute with its own direction; p(a|x) ≠ p(a) for half of them."""
    x, made, sample = drawn
    topic = x @ made.topic
    own = np.array([np.corrcoef(topic[:, j], sample.a[:, j])[0, 1] for j in range(ATTRIBUTES)])
    assert (own[BY_TOPIC] > 0.2).all()
    assert (np.abs(own[~BY_TOPIC]) < 0.02).all()


def test_noise_depends_on_the_attributes(drawn):
    """The first label, the most frequent: put on where an attribute adds, taken off where one removes, else alone."""
    _, _, sample = drawn
    y, on = sample.y[:, 0], sample.clean[:, 0] == 1
    for j in range(ATTRIBUTES):
        seen = sample.a[:, j] > 0.4
        added = y[~on & seen].mean() - y[~on & ~seen].mean()
        removed = y[on & ~seen].mean() - y[on & seen].mean()
        assert (added > 0.1) == (ADDS[j] and ON_LABELS[j, 0])
        assert (removed > 0.1) == (REMOVES[j] and ON_LABELS[j, 0])
    assert ADDS.sum() == REMOVES.sum() == ATTRIBUTES / 3
    assert not (ADDS & REMOVES).any()
    assert (ON_LABELS.sum(1) == 3).all()


def test_labels_have_the_probabilities_that_are_told(drawn):
    """p(y|x,a) and p(y|x) are calibrated, and the first is the better; no noise without attributes."""
    _, _, sample = drawn
    for p in (sample.given_both, sample.given_x):
        cells = np.digitize(p, np.linspace(0, 1, 11))
        for cell in np.unique(cells):
            inside = cells == cell
            if inside.sum() > 1000:
                assert sample.y[inside].mean() == pytest.approx(p[inside].mean(), abs=4 / np.sqrt(inside.sum()))
    both, x_only = (metrics.nll(sample.y, p).mean() for p in (sample.given_both, sample.given_x))
    assert both < x_only - 0.01
    assert (report_probability(sample.clean, np.zeros_like(sample.a)) == sample.clean).all()


def test_the_marginal_is_the_mean_over_attributes():
    """The closed form against many draws of the attributes of one sentence."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(200, 20))
    made = StandIn.fit(x, generator)
    many = made.draw(np.repeat(x[:1], 20_000, 0), generator)
    assert many.given_both.mean(0) == pytest.approx(many.given_x[0], abs=0.01)


def test_the_stand_in_does_not_depend_on_the_seed_of_training(stand_in_folder):
    texts = read_texts(stand_in_folder, SMALL)
    encoder = make_text_encoder(None).fit(texts.train)
    one, same, other = (make_task(texts, encoder, replace(SMALL, **new)) for new in ({}, {"seed": 5}, {"task": 1}))
    assert (one.data.y == same.data.y).all()
    assert (one.y == same.y).all()
    assert not (one.data.y == other.data.y).all()


# -------------------------------------------------------------------------------- the report


def test_every_statement_is_of_rows_that_the_paper_has():
    assert set(PUBLISHED) < set(METHODS)
    assert {name for claim in CLAIMS for name in (claim.method, claim.other)} <= set(PUBLISHED)


def test_the_report_says_what_the_runs_hold(stand_in_folder):
    """In made-up runs TRAM is significantly better than No PI, and all others are equal to No PI."""
    texts = read_texts(stand_in_folder, SMALL)
    task = make_task(texts, make_text_encoder(None).fit(texts.train), SMALL)
    cases = make_cases(task, SMALL)
    runs = pd.DataFrame({"method": np.repeat(METHODS, 3), "seed": [0, 1, 2] * len(METHODS)})
    runs = runs.assign(nll=0.3 + 0.01 * runs["seed"], accuracy=0.9, clean_nll=0.2, clean_accuracy=0.95)
    of_tram = runs["method"] == "tram"
    runs.loc[of_tram, ["given_train_nll", "given_test_nll"]] = [0.1, 0.35]
    runs.loc[of_tram, ["nll", "accuracy"]] += [-0.1, 0.02]
    runs.loc[of_tram, ["nll", "accuracy"]] += np.outer([0, 1e-5, -1e-5], [1, 0.1])
    text = report(runs, cases, task, SMALL)
    assert "- TRAM compared with No PI: −0.100 [−0.100, −0.100] in NLL, +2.00 [+2.00, +2.00] points" in text
    assert "NLL of 0.100 on training labels and\n  0.350 on test labels (the true p(y|x,a) " in text
    assert "is no better than No PI" in text
    assert "shuffled" not in text
    assert "| TRAM | 0.210 ± 0.010 | 92.00 ± 0.00 | 0.064 ± 0.002 | 98.19 ± 0.01 |" in text
    assert "| TRAM | 0.200 ± 0.000 | 95.00 ± 0.00 |" in text
    runs.loc[of_tram, "given_test_nll"] = 0.25
    assert "is no better than No PI" not in report(runs, cases, task, SMALL)


def test_levels_are_scores_of_known_probabilities(stand_in_folder):
    texts = read_texts(stand_in_folder, SMALL)
    task = make_task(texts, make_text_encoder(None).fit(texts.train), SMALL)
    (nll, accuracy), (given_x, _), (given_both, _) = reference_levels(task).values()
    p, y = task.data.y.numpy().mean(0), task.y.numpy().astype(float)
    assert nll == pytest.approx(-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean(), abs=1e-5)
    assert accuracy == pytest.approx(1 - y.mean(), abs=1e-9)
    assert given_both < given_x < nll
