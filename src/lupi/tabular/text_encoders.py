"""Encode texts with TF-IDF, which needs no download, or with a Hugging Face model."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from lupi._internal.pretrained import TextTrunk, limit_tokens, load_tokenizer
from lupi.tabular.onnx_graph import OnnxGraph
from lupi.tabular.pretrained_encoders import PretrainedEncoder, resolve_folder

MAX_WEIGHT = 1000.0
"""More than any frequency of words (on a logarithmic scale) or axis is."""


class TfidfEncoder:
    """Encode texts with TF-IDF, reduced by a truncated singular value decomposition and L2-normalized.

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

    learns: ClassVar[bool] = True

    width: int
    words: int
    words_: str
    idf_: NDArray[np.floating]
    axes_: NDArray[np.float32]

    def __init__(self, width: int = 256, words: int = 20_000) -> None:
        self.width, self.words = width, words

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for name in ("idf_", "axes_"):
            if name in state and not (np.abs(state[name]) < MAX_WEIGHT).all():
                raise ValueError(f"Expected `{name}` of words to be small numbers, but not all of them are.")
        words = len(self.words_.split("\n")) if "words_" in state else 0
        if words and not self.idf_.shape == self.axes_.shape[1:] == (words,):
            raise ValueError(f"Expected `idf_` and `axes_` of {words} words, but got others.")

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
            with np.errstate(invalid="ignore"):  # equal texts have no variance, which is not needed
                svd = TruncatedSVD(width, random_state=0).fit(counts)
            self.axes_ = svd.components_.astype(np.float32)
        else:
            self.axes_ = np.eye(width, dtype=np.float32)
        return self

    def transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per text; a text without known words becomes zeros."""
        vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=self.words_.split("\n"), dtype=np.float32)
        vectorizer.idf_ = self.idf_
        features: NDArray[np.float32] = normalize(vectorizer.transform(texts) @ self.axes_.T)
        return features

    def to_onnx(self, graph: OnnxGraph, texts: str) -> str:
        """Return the features of strings, [rows, width] float64."""
        words = self.words_.split("\n")
        ascii_only = self.words_.isascii()  # other letters need a locale, which some machines do not have
        lower: dict[str, Any] = {"case_change_action": "LOWER", "locale": "C" if ascii_only else "C.UTF-8"}
        tokens = graph.tokenize(graph.apply("StringNormalizer", texts, **lower), r"[\p{L}\p{N}_]{2,}", words[0], "")
        options: dict[str, Any] = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0]}
        options |= {"mode": "TF", "ngram_indexes": range(len(words)), "pool_strings": words}
        counts = graph.apply("TfIdfVectorizer", tokens, **options)
        counts = graph.cast(graph.drop_last(counts), np.float64)
        one = graph.constant(1.0)
        sublinear = graph.apply("Add", graph.apply("Log", graph.apply("Max", counts, one)), one)
        weights = graph.apply("Mul", graph.apply("Min", counts, one), sublinear)  # 0, 1, 1 + log 2, …
        axes = self.axes_.T * np.asarray(self.idf_, np.float64)[:, None]  # lengths are normalized after them
        return graph.apply("LpNormalization", graph.apply("MatMul", weights, graph.constant(axes)), axis=1, p=2)

    def draw(self, rng: np.random.Generator, rows: int) -> list[str]:
        """Draw texts of known words, some of them in capitals; the first is empty."""
        words = self.words_.split("\n")
        texts = [" ".join(rng.choice(words, 5)) for _ in range(rows - 1)]
        return ["", *(text.upper() if i % 2 and text.isascii() else text for i, text in enumerate(texts))]


class TransformerEncoder(PretrainedEncoder):
    """Encode texts with the last layer of a Hugging Face model, averaged over tokens and L2-normalized.

    Embeddings are cached on disk (folder ``lupi`` in ``$XDG_CACHE_HOME`` or ``~/.cache``), by model and text.
    Needs the extra `text`.

    Parameters
    ----------
    name : str
        Folder of a model and its tokenizer, or a name on the Hugging Face hub.
    device : str
        Where to run the model; by default a GPU if there is one.

    Attributes
    ----------
    version_ : str
        Hash of the files in the folder, or of the weights and words. A model refuses an encoder that has changed.
    """

    unit = "text"
    trunk = TextTrunk
    extra = "text"

    def _embed(self, values: list[str]) -> NDArray[np.float32]:
        trunk, tokenizer = self._load_trained()
        limit = limit_tokens(tokenizer, trunk.model.config)
        tokens = tokenizer(values, padding=True, truncation=True, max_length=limit, return_tensors="pt")
        return self._apply(trunk, dict(tokens))

    def _load_more(self, trunk: TextTrunk) -> tuple[Any, *tuple[str, ...]]:  # noqa: ARG002  images need it
        tokenizer = load_tokenizer(self.name)
        return tokenizer, repr(tokenizer), *sorted(tokenizer.get_vocab())


def make_text_encoder(name: str | None, device: str = "auto") -> TfidfEncoder | TransformerEncoder:
    """Return a TF-IDF encoder, or a Hugging Face encoder by name or folder."""
    return TransformerEncoder(resolve_folder(name), device) if name else TfidfEncoder()
