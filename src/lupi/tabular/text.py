"""Texts to float arrays: TF-IDF that needs no download, or the mean of a Hugging Face model's last layer."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from lupi._internal.progress import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRUSTED = ("lupi.tabular.text.TfidfEncoder", "lupi.tabular.text.TransformerEncoder")
TEXTS_AT_ONCE = 32


class TfidfEncoder:
    """TF-IDF of the words, reduced by a truncated singular value decomposition, of length one.

    Parameters
    ----------
    width : int
        Number of features; fewer where there are fewer words or texts.
    words : int
        The most frequent words are kept, at most so many.

    Attributes
    ----------
    words_ : str
        The words, one per line: as one string it is stored quickly.
    idf_ : ndarray
        Weight of each word.
    axes_ : ndarray
        The decomposition's axes, one row per feature.

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
        """Learn the words and axes of distinct texts."""
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
        """Return one row of features per text; a text without known words is zeros."""
        vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=self.words_.split("\n"), dtype=np.float32)
        vectorizer.idf_ = self.idf_
        features: NDArray[np.float32] = normalize(vectorizer.transform(texts) @ self.axes_.T)
        return features


class TransformerEncoder:
    """Mean of a Hugging Face model's last layer over the tokens, of length one.

    Embeddings are kept on disk by the hash of model and text (folder ``lupi`` in ``$XDG_CACHE_HOME`` or ``~/.cache``).
    Needs the extra `text`.

    Parameters
    ----------
    name : str
        A folder with model and tokenizer, or a name on the Hugging Face hub.
    device : str
        Where to run it.

    Attributes
    ----------
    version_ : str
        Hash of the folder's files, or the hub's commit: a model that was trained on one encoder refuses another.
    """

    def __init__(self, name: str, device: str = "cpu") -> None:
        self.name, self.device = name, device

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("device", "_parts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, device="cpu")

    def fit(self, texts: Sequence[str]) -> Self:  # noqa: ARG002  as of `TfidfEncoder`
        """Find the version of the model; nothing is learned."""
        self.version_ = self._load()[2]
        return self

    def transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per text, computing those that the cache does not hold."""
        keys = [hashlib.sha256(f"{self.version_}\0{text}".encode()).digest() for text in texts]
        connection = sqlite3.connect(cache_folder() / "embeddings.sqlite", timeout=60)
        try:
            connection.execute("CREATE TABLE IF NOT EXISTS embeddings (key BLOB PRIMARY KEY, value BLOB)")
            query = "SELECT value FROM embeddings WHERE key = ?"
            found = {key: row[0] for key in set(keys) if (row := connection.execute(query, (key,)).fetchone())}
            new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
            # Of similar lengths, so that little of a batch is padding.
            order = sorted(new, key=lambda key: len(new[key]))
            with Steps("embed", len(new), show=bool(new)) as steps:
                for start in range(0, len(order), TEXTS_AT_ONCE):
                    part = order[start : start + TEXTS_AT_ONCE]
                    rows = self._embed([new[key] for key in part])
                    values = {key: row.tobytes() for key, row in zip(part, rows, strict=True)}
                    connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", values.items())
                    connection.commit()  # what is done is kept when the work is interrupted
                    found |= values
                    steps.advance(len(part), "texts")
        except sqlite3.Error as error:
            raise OSError(f"Expected {cache_folder()} to keep embeddings, but got: {error}.") from error
        finally:
            connection.close()
        return np.stack([np.frombuffer(found[key], dtype=np.float32) for key in keys])

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        tokenizer, model, version = self._load()
        if version != self.version_:
            raise ValueError(
                f"Expected text encoder {self.name} to be the one that the model was trained with, but it has changed."
            )
        tokens = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to(self.device)
        with torch.no_grad():
            states = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        rows: NDArray[np.float32] = F.normalize(mean, dim=1).float().cpu().numpy()
        return rows

    def _load(self) -> tuple[Any, Any, str]:
        """Load tokenizer and model once, with their version."""
        if "_parts" not in vars(self):
            try:
                from transformers import AutoModel, AutoTokenizer  # slow
                from transformers.utils import logging
            except ImportError as error:
                raise ImportError(f"Expected the extra `text` (pip install 'lupi[text]'), but {error}.") from error
            logging.disable_progress_bar()  # of reading its weights
            try:
                tokenizer = AutoTokenizer.from_pretrained(self.name)
                model = AutoModel.from_pretrained(self.name).to(self.device).eval()
            except (OSError, ValueError) as error:
                what = " ".join(str(error).split())
                raise ValueError(
                    f"Expected a text encoder that Hugging Face knows, but got {self.name!r}: {what}"
                ) from error
            folder = Path(self.name)
            version = content(folder) if folder.is_dir() else f"{self.name}@{model.config._commit_hash}"
            self._parts = tokenizer, model, version
        return self._parts


def make_encoder(name: str | None, device: str = "cpu") -> TfidfEncoder | TransformerEncoder:
    """Make the built-in encoder, or that of a name or folder.

    Examples
    --------
    >>> type(make_encoder(None)).__name__
    'TfidfEncoder'
    """
    return TransformerEncoder(name, device) if name else TfidfEncoder()


def cache_folder() -> Path:
    """Folder for embeddings; made where there is none."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lupi"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def content(folder: Path) -> str:
    """SHA-256 of all files in a folder, with their names."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            total.update(f"{path.relative_to(folder)}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()
