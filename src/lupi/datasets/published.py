"""Published sets of crowd labels, from the files that their authors distribute. Nothing is downloaded.

References
----------
Rodrigues, Pereira and Ribeiro, *Learning from multiple annotators: distinguishing good from random labelers*, Pattern
Recognition Letters 34 (2013): music genre and sentiment polarity. Rodrigues and Pereira, *Deep learning from crowds*,
AAAI 2018: LabelMe.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd


class CrowdSet(NamedTuple):
    """A published set as tables."""

    labels: pd.DataFrame
    """One row per label: the example's id and inputs, `annotator`, `label`, and the true label, `gold`."""
    test: pd.DataFrame | None
    """Other examples with their true `label`; None if the authors give none."""


def load_crowd(name: str, folder: str | Path) -> CrowdSet:
    r"""Load a published set of crowd labels from its authors' files.

    Parameters
    ----------
    name : {"music-genre", "sentiment-polarity", "labelme"}
        The set. The first two are folders of http://fprodrigues.com/mturk-datasets.tar.gz, the third is
        http://fprodrigues.com/deep_LabelMe.tar.gz.
    folder : str or Path
        The unpacked folder, such as `music_genre_classification`, `sentiment_polarity` or `LabelMe`.

    Returns
    -------
    CrowdSet
        `labels`, for estimators and, after `labels.to_parquet(…)`, for commands, and `test`. The column `gold` is for
        scores only: it is no input.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> header = "WorkerId,Input.id,Input.original_sentence,Input.true_sent,Answer.sent"
    >>> _ = (folder / "mturk_answers.csv").write_text(header + "\nA1,7,a lovely film,pos,neg\n")
    >>> load_crowd("sentiment-polarity", folder).labels.iloc[0].to_dict()
    {'sentence': 7, 'text': 'a lovely film', 'annotator': 'A1', 'label': 'neg', 'gold': 'pos'}
    """
    if name not in READERS:
        raise ValueError(f"Expected `name` to be one of {', '.join(READERS)}, but got {name!r}.")
    return READERS[name](Path(folder))


def _read_music_genre(folder: Path) -> CrowdSet:
    """Read songs with 124 features, labels by annotators, and other songs."""
    labels = _read_csv(folder, "music_genre_mturk.csv", "id", "annotator", "class")
    gold, test = (_read_csv(folder, f"music_genre_{part}.csv", "id", "class") for part in ("gold", "test"))
    labels["gold"] = labels["id"].map(gold.set_index("id")["class"])
    return CrowdSet(*(table.rename(columns={"id": "song", "class": "label"}) for table in (labels, test)))


def _read_sentiment_polarity(folder: Path) -> CrowdSet:
    """Read sentences of film reviews; the authors' other sentences have no text."""
    names = {
        "Input.id": "sentence",
        "Input.original_sentence": "text",
        "WorkerId": "annotator",
        "Answer.sent": "label",
        "Input.true_sent": "gold",
    }
    table = _read_csv(folder, "mturk_answers.csv", *names)
    return CrowdSet(table[list(names)].rename(columns=names), None)


def _read_labelme(folder: Path) -> CrowdSet:
    """Read paths of images; annotators are columns of a matrix, without names."""
    answers = np.loadtxt(_find(folder, "answers.txt"), dtype=np.int64, ndmin=2)
    numbers = np.loadtxt(_find(folder, "labels_train.txt"), dtype=np.int64, ndmin=1)
    train, test = (_read_images(folder, part) for part in ("train", "test"))
    if not len(answers) == len(numbers) == len(train):
        raise ValueError(
            f"Expected answers.txt, labels_train.txt and filenames_train.txt in {folder} to be as long, but got "
            f"{len(answers)}, {len(numbers)} and {len(train)}."
        )
    classes = dict(zip(numbers.tolist(), train["label"], strict=True))  # the files have numbers as well as names
    row, annotator = np.nonzero(answers >= 0)
    labels = train.iloc[row].rename(columns={"label": "gold"}).reset_index(drop=True)
    given = [classes[number] for number in answers[row, annotator].tolist()]
    labels.insert(1, "annotator", [f"w{number:02}" for number in annotator])
    labels.insert(2, "label", given)
    return CrowdSet(labels, test)


def _read_images(folder: Path, part: str) -> pd.DataFrame:
    """Read the paths and classes of some images, which lie in a folder per class."""
    files = _find(folder, f"filenames_{part}.txt").read_text(encoding="utf-8").split()
    classes = _find(folder, f"labels_{part}_names.txt").read_text(encoding="utf-8").split()
    paths = [str(folder / part / kind / file) for file, kind in zip(files, classes, strict=True)]
    return pd.DataFrame({"image": paths, "label": classes})


def _read_csv(folder: Path, file: str, *columns: str) -> pd.DataFrame:
    """Read a CSV file that has some columns."""
    table = pd.read_csv(_find(folder, file))
    for column in columns:
        if column not in table:
            present = ", ".join(table.columns[:8])
            raise ValueError(f"Expected {folder / file} to have the column {column!r}, but got {present}.")
    return table


def _find(folder: Path, file: str) -> Path:
    """Return the path of a file, or raise an error that says where the files are from."""
    if not (folder / file).is_file():
        raise FileNotFoundError(
            f"Expected `folder` to have the file {file}, but {folder} has not: unpack mturk-datasets.tar.gz or "
            "deep_LabelMe.tar.gz from http://fprodrigues.com."
        )
    return folder / file


READERS: dict[str, Callable[[Path], CrowdSet]] = {
    "music-genre": _read_music_genre,
    "sentiment-polarity": _read_sentiment_polarity,
    "labelme": _read_labelme,
}
