import copy
import json
import sqlite3
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from lupi.nn import pretrained
from lupi.tabular import pretrained_encoders, text_encoders
from lupi.tabular.kinds.embedded import embed
from tests.estimators.helpers import through_json

RNG = np.random.default_rng(0)
WORDS = [f"word{i}" for i in range(400)]
TEXTS = [" ".join(RNG.choice(WORDS, 12)) for _ in range(300)]


# -------------------------------------------------------------------------------- TF-IDF


def test_it_is_what_scikit_learn_computes():
    features = text_encoders.TfidfEncoder().fit(TEXTS).transform(TEXTS)
    weights = TfidfVectorizer(sublinear_tf=True, dtype=np.float32).fit_transform(TEXTS)
    expected = normalize(TruncatedSVD(256, random_state=0).fit(weights).transform(weights))
    assert features.shape == (300, 256)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, atol=1e-5)


@pytest.mark.parametrize(("name", "value"), [("idf_", np.nan), ("idf_", np.inf), ("axes_", 1e38)])
def test_words_of_absurd_weight_are_refused_when_they_are_loaded(name, value):
    encoder = text_encoders.TfidfEncoder().fit(["good cast", "bad cast"])
    getattr(encoder, name)[-1] = value
    with pytest.raises(ValueError, match=rf"^Expected `{name}` of words to be small numbers, but"):
        through_json(encoder)


def test_few_words_or_texts_give_few_features():
    assert text_encoders.TfidfEncoder().fit(["good cast", "bad cast"]).transform(["good"]).shape == (1, 2)
    features = text_encoders.TfidfEncoder().fit(["aa bb cc"] * 5).transform(["aa bb", "zz"])
    np.testing.assert_allclose(features, [[0.5**0.5, 0.5**0.5, 0], [0, 0, 0]], atol=1e-6)
    assert text_encoders.TfidfEncoder(words=3).fit(TEXTS).words_.count("\n") == 2


def test_one_text_causes_no_warning():
    with warnings.catch_warnings(action="error"):
        encoder = text_encoders.TfidfEncoder().fit(["good cast and plot"])
    np.testing.assert_allclose(encoder.transform(["good cast and plot", ""]), [[1], [0]], rtol=1e-6)


def test_texts_without_words():
    with pytest.raises(ValueError, match=r"^Expected texts to have words of two letters or more, but got none\.$"):
        text_encoders.TfidfEncoder().fit(["!", "a"])


def test_it_comes_back():
    encoder = text_encoders.TfidfEncoder(width=8).fit(TEXTS)
    np.testing.assert_array_equal(through_json(encoder).transform(TEXTS), encoder.transform(TEXTS))


# -------------------------------------------------------------------------------- Hugging Face


class Counting(text_encoders.TransformerEncoder):
    """An encoder whose model counts letters, and which notes what it was asked."""

    def _load(self):
        return None, None, self.version

    def _embed(self, texts):
        self.seen += texts
        return np.array([[len(t), t.count("a"), 1] for t in texts], dtype=np.float32)


def counting(version="1"):
    encoder = Counting("fake")
    encoder.version, encoder.seen = version, []
    return encoder.fit([])


def test_embeddings_are_kept_by_content(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = counting()
    np.testing.assert_array_equal(first.transform(["aa", "b", "aa"]), [[2, 2, 1], [1, 0, 1], [2, 2, 1]])
    assert sorted(first.seen) == ["aa", "b"]
    second = counting()
    np.testing.assert_array_equal(second.transform(["b", "ccc"]), [[1, 0, 1], [3, 0, 1]])
    assert second.seen == ["ccc"]
    other = counting("2")
    other.transform(["b"])
    assert other.seen == ["b"]
    with sqlite3.connect(tmp_path / "lupi" / "embeddings.sqlite") as connection:
        assert connection.execute("SELECT COUNT(*) FROM embeddings").fetchone() == (4,)
    connection.close()


def test_a_broken_cache_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pretrained_encoders.cache_folder().joinpath("embeddings.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(OSError, match=r"lupi.*file is not a database"):
        counting().transform(["a"])


def test_the_extra_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"^Expected the extra `text` \(pip install 'lupi\[text\]'\), but "):
        text_encoders.make_text_encoder("some/model").fit([])


def test_a_folder_is_known_by_its_content(tmp_path):
    (tmp_path / "a").write_text("1")
    before = pretrained_encoders.hash_folder(tmp_path)
    (tmp_path / "a").write_text("2")
    changed = pretrained_encoders.hash_folder(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({before, changed, pretrained_encoders.hash_folder(tmp_path)}) == 3


@pytest.mark.parametrize("others", [[], ["aa", "b"]])
def test_a_missing_text_is_an_empty_text(others, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for encoder in (text_encoders.TfidfEncoder().fit(["good cast", "bad cast"]), counting()):
        missing, empty = (pd.Series([*others, value, *others, value], dtype=object) for value in (None, ""))
        np.testing.assert_array_equal(embed(encoder, missing), embed(encoder, empty))
    assert "" in encoder.seen
    assert embed(encoder, missing[:0]).shape == (0, 3)


@pytest.fixture
def folder(tmp_path):
    """A Bert of a few weights, with its words."""
    transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
    (tmp_path / "bert").mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "cast"]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "bert" / "vocab.txt")).save_pretrained(tmp_path / "bert")
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.mark.filterwarnings("ignore")  # what transformers says of itself
def test_a_transformer(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    encoder = text_encoders.make_text_encoder(str(folder)).fit([])
    rows = encoder.transform(["good cast", "bad", "good cast and more words than the others"])
    assert rows.shape == (3, 8)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    np.testing.assert_allclose(encoder.transform(["bad"]), rows[1:2], atol=1e-6)  # padding does not count
    loaded = through_json(encoder)
    np.testing.assert_allclose(loaded.transform(["bad", "cast"])[:1], rows[1:2], atol=1e-6)
    (folder / "more").write_text("")
    monkeypatch.setattr(
        text_encoders.TransformerEncoder, "_load", None
    )  # the version is checked before anything is loaded
    changed = through_json(encoder)
    with pytest.raises(ValueError, match=r"^Expected text encoder \S+bert to be unchanged since training, "):
        changed.transform(["new"])


@pytest.mark.filterwarnings("ignore")
def test_code_in_the_folder_of_an_encoder_is_not_run(folder, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"^Expected `text_encoder` to be a pretrained text model, .*nothing': "):
        text_encoders.make_text_encoder(str(tmp_path / "nothing")).fit([])
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "code.HostileConfig", "AutoModel": "code.HostileModel"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "hostile", "auto_map": names}))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    for load in (lambda: text_encoders.make_text_encoder(str(folder)).fit([]), lambda: pretrained(folder)):
        with pytest.raises(ValueError, match="trust_remote_code"):
            load()
    assert not (tmp_path / "ran").exists()


def test_other_weights_of_the_same_name_are_another_version():
    first, other = (torch.nn.Linear(2, 2) for _ in range(2))
    encoder = text_encoders.TransformerEncoder("hub/name")
    assert encoder._find_version(first) == encoder._find_version(copy.deepcopy(first))
    assert len({encoder._find_version(first), encoder._find_version(other), encoder._find_version(first, "word")}) == 3


@pytest.mark.filterwarnings("ignore")
def test_long_texts_are_truncated(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # its tokenizer declares no maximum
    long, longer = text_encoders.make_text_encoder(str(folder)).fit([]).transform(["bad " * 600, "bad " * 700])
    np.testing.assert_allclose(long, longer, atol=1e-6)
