"""Encode texts: by TF-IDF, which needs no download, or by a Hugging Face model."""

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from lupi._internal.progress import Steps
from lupi._internal.tokens import limit_tokens

TRUSTED = ("lupi.tabular.text.TfidfEncoder", "lupi.tabular.text.TransformerEncoder")
TEXTS_AT_ONCE = 32


class TfidfEncoder:
    """Encode texts by TF-IDF, reduced by a truncated singular value decomposition and L2-normalized.

    Parameters
    ----------
    width : int
        Number of features; fewer where there are fewer words or texts.
    words : int
        Size of the vocabulary: the most frequent words are kept.

    Attributes
    ----------
    words_ : str
        The vocabulary, one word per line; one string is faster to store than a list.
    idf_ : ndarray
        Inverse document frequency of each word.
    axes_ : ndarray
        Axes of the decomposition, one row per feature.

    Examples
    --------
    >>> texts = ["the cast is good", "the plot is bad", "the plot is good"]
    >>> encoder = TfidfEncoder(width=2).fit(texts)
    >>> encoder.transform(["a good cast", "nothing known"]).shape
    (2, 2)
    """

    def __init__(self, width: int = 256, words: int = 20_000) -> None:
        self.width, self.words = width, words

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn the vocabulary and the axes from distinct texts."""
        vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=self.words, dtype=np.float32)
        try:
            counts = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise ValueError("Expected texts to have words of two letters or more, but got none.") from error
        self.words_ = "\n".join(vectorizer.get_feature_names_out())
        self.idf_ = vectorizer.idf_
        width = min(self.width, *counts.shape)
        if width < counts.shape[1]:
            self.axes_ = TruncatedSVD(width, random_state=0).fit(counts).components_.astype(np.float32)
        else:
            self.axes_ = np.eye(width, dtype=np.float32)
        return self

    def transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per text; a text without known words becomes zeros."""
        vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=self.words_.split("\n"), dtype=np.float32)
        vectorizer.idf_ = self.idf_
        features: NDArray[np.float32] = normalize(vectorizer.transform(texts) @ self.axes_.T)
        return features


class TransformerEncoder:
    """Encode texts by the last layer of a Hugging Face model, averaged over tokens and L2-normalized.

    Embeddings are cached on disk (folder ``lupi`` in ``$XDG_CACHE_HOME`` or ``~/.cache``), by model and text.
    Needs the extra `text`.

    Parameters
    ----------
    name : str
        Folder of a model and its tokenizer, or a name on the Hugging Face hub.
    device : str
        Where to run the model.

    Attributes
    ----------
    version_ : str
        Hash of the files in the folder, or the commit on the hub. A model refuses an encoder that has changed.
    """

    def __init__(self, name: str, device: str = "cpu") -> None:
        self.name, self.device = name, device

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("device", "_parts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, device="cpu")

    def fit(self, texts: Sequence[str]) -> Self:  # noqa: ARG002  the signature of `TfidfEncoder`
        """Determine the version of the model; nothing is learned."""
        self.version_ = self._load()[2]
        return self

    def transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per text, and compute those that are not cached."""
        keys = [hashlib.sha256(f"{self.version_}\0{text}".encode()).digest() for text in texts]
        connection = sqlite3.connect(cache_folder() / "embeddings.sqlite", timeout=60)
        try:
            connection.execute("CREATE TABLE IF NOT EXISTS embeddings (key BLOB PRIMARY KEY, value BLOB)")
            query = "SELECT value FROM embeddings WHERE key = ?"
            found = {key: row[0] for key in set(keys) if (row := connection.execute(query, (key,)).fetchone())}
            new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
            # Texts of similar length share a batch, which needs little padding.
            order = sorted(new, key=lambda key: len(new[key]))
            with Steps("embed", len(new), show=bool(new)) as steps:
                for start in range(0, len(order), TEXTS_AT_ONCE):
                    part = order[start : start + TEXTS_AT_ONCE]
                    rows = self._embed([new[key] for key in part])
                    values = {key: row.tobytes() for key, row in zip(part, rows, strict=True)}
                    connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", values.items())
                    connection.commit()  # interrupted work keeps what is finished
                    found |= values
                    steps.advance(len(part), "texts")
        except sqlite3.Error as error:
            raise OSError(f"Expected {cache_folder()} to hold a cache of embeddings, but got: {error}.") from error
        finally:
            connection.close()
        return np.stack([np.frombuffer(found[key], dtype=np.float32) for key in keys])

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        tokenizer, model, version = self._load()
        if version != self.version_:
            raise ValueError(f"Expected text encoder {self.name} to be unchanged since training, but its files differ.")
        limit = limit_tokens(tokenizer, model.config)
        tokens = tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt").to(self.device)
        with torch.no_grad():
            states = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        rows: NDArray[np.float32] = F.normalize(mean, dim=1).float().cpu().numpy()
        return rows

    def _load(self) -> tuple[Any, Any, str]:
        """Load the tokenizer, the model and its version once."""
        if "_parts" not in vars(self):
            try:
                from transformers import AutoModel, AutoTokenizer  # slow
                from transformers.utils import logging
            except ImportError as error:
                raise ImportError(f"Expected the extra `text` (pip install 'lupi[text]'), but {error}.") from error
            logging.disable_progress_bar()  # it shows the reading of weights
            try:
                tokenizer = AutoTokenizer.from_pretrained(self.name)
                model = AutoModel.from_pretrained(self.name).to(self.device).eval()
            except (OSError, ValueError) as error:
                what = " ".join(str(error).split())
                raise ValueError(
                    f"Expected `text_encoder` to be a model that Hugging Face can load, but got {self.name!r}: {what}"
                ) from error
            folder = Path(self.name)
            version = hash_folder(folder) if folder.is_dir() else f"{self.name}@{model.config._commit_hash}"
            self._parts = tokenizer, model, version
        return self._parts


def encode_texts(encoder: TfidfEncoder | TransformerEncoder | Any, column: "pd.Series[Any]") -> NDArray[np.float32]:
    """Return the features of a column of texts; every distinct text is encoded once, and a missing one becomes zeros.

    Examples
    --------
    >>> encoder = TfidfEncoder().fit(["good cast", "bad plot"])
    >>> encode_texts(encoder, pd.Series(["good cast", None, "good cast"])).sum(1) > 0
    array([ True, False,  True])
    """
    codes, distinct = pd.factorize(column)
    rows = encoder.transform([str(value) for value in distinct] or [""])  # without texts, for the width
    return np.vstack([rows, np.zeros((1, rows.shape[1]), rows.dtype)])[codes]  # a missing text has code −1


def make_text_encoder(name: str | None, device: str = "cpu") -> TfidfEncoder | TransformerEncoder:
    """Return a TF-IDF encoder, or a Hugging Face encoder by name or folder.

    Examples
    --------
    >>> type(make_text_encoder(None)).__name__
    'TfidfEncoder'
    """
    return TransformerEncoder(resolve_folder(name), device) if name else TfidfEncoder()


def resolve_folder(name: str) -> str:
    """Make the path of a folder absolute, because a model may be used from another working directory."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def cache_folder() -> Path:
    """Return the folder of the cache, and create it if necessary."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lupi"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def hash_folder(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files in a folder."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            total.update(f"{path.relative_to(folder)}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()
