"""Civil Comments Identities: comments on news with seven toxicity labels and the identities that they mention.

The two million comments on Kaggle have the fraction of readers who found each toxic. For about a quarter of them,
other readers also said which of 24 identities (male, christian, …) the comment mentions. The loader keeps this subset,
with these fractions as privileged information. The published ``train.csv``, ``test_public_expanded.csv`` and
``test_private_expanded.csv`` are the training, validation and test sets of TensorFlow Datasets; their subsets have the
sizes that the paper reports, 405,130, 21,293 and 21,577 comments.

References
----------
Borkan, Dixon, Sorensen, Thain and Vasserman, *Nuanced Metrics for Measuring Unintended Bias with Real Data for Text
Classification*, 2019; https://www.kaggle.com/c/jigsaw-unintended-bias-in-toxicity-classification/data.
"""

from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv

from lupi_paper.datasets.files import check_names, find_file

URL = "https://www.kaggle.com/c/jigsaw-unintended-bias-in-toxicity-classification/data"
LABELS = ["toxicity", "severe_toxicity", "obscene", "identity_attack", "insult", "threat", "sexual_explicit"]
IDENTITIES = [
    *("male", "female", "transgender", "other_gender"),
    *("heterosexual", "homosexual_gay_or_lesbian", "bisexual", "other_sexual_orientation"),
    *("christian", "jewish", "muslim", "hindu", "buddhist", "atheist", "other_religion"),
    *("black", "white", "asian", "latino", "other_race_or_ethnicity"),
    *("physical_disability", "intellectual_or_learning_disability", "psychiatric_or_mental_illness"),
    "other_disability",
]
_BLOCK = 2**24  # bytes read together


@dataclass(frozen=True, eq=False)
class CivilComments:
    """Comments with annotated identities, one row per comment."""

    X: NDArray[np.object_]
    """[comments] texts."""
    y: NDArray[np.int64]
    """[comments, 7] 1 where at least half of the readers gave the comment this label."""
    labels: tuple[str, ...]
    """Names of the seven labels, toxicity first."""
    privileged: pd.DataFrame
    """[comments, 24] fraction of other readers who said that the comment mentions the identity."""


def load_civil_comments(path: str | Path, threshold: float = 0.5) -> CivilComments:
    r"""Load the comments of a published file whose identities were annotated.

    The file is read in blocks, so that the other comments never fill memory.

    Parameters
    ----------
    path : str or Path
        ``train.csv``, ``test_public_expanded.csv`` or ``test_private_expanded.csv``.
    threshold : float
        Minimum fraction of readers for a label to be 1.

    Returns
    -------
    CivilComments
        Texts, labels and privileged information.

    Examples
    --------
    Two comments, only the first with annotated identities:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "train.csv")
    >>> header = ["id", "target", "comment_text", *LABELS[1:], *IDENTITIES]
    >>> first = ["1", "0.6", '"Well, no."', *["0.0"] * 6, "1.0", *["0.0"] * 23]
    >>> second = ["2", "0.0", "Yes.", *["0.0"] * 6, *[""] * 24]
    >>> _ = path.write_text("\n".join(map(",".join, [header, first, second])))
    >>> comments = load_civil_comments(path)
    >>> comments.X, comments.y
    (array(['Well, no.'], dtype=object), array([[1, 0, 0, 0, 0, 0, 0]]))
    >>> comments.privileged[["male", "female"]]
       male  female
    0   1.0     0.0
    """
    table = _read(find_file("path", path, ["train.csv"], f"download it from {URL} (an account is required)"))
    return CivilComments(
        X=table["comment_text"].to_numpy(),
        y=np.stack([table[name].to_numpy() >= threshold for name in LABELS], axis=1).astype(np.int64),
        labels=tuple(LABELS),
        privileged=pd.DataFrame({name: table[name].to_numpy() for name in IDENTITIES}),
    )


def _read(path: Path) -> pa.Table:
    """Read the required columns as an Arrow table, without rows in which an identity is missing."""
    header = pd.read_csv(path, nrows=0)
    toxicity = "target" if "target" in header else "toxicity"  # target in train.csv
    columns = ["comment_text", toxicity, *LABELS[1:], *IDENTITIES]
    check_names(path, header, columns)
    types = dict.fromkeys(columns, pa.float32()) | {"comment_text": pa.string()}
    try:
        blocks = csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=_BLOCK),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(include_columns=columns, column_types=types),
        )
        annotated = (
            block.filter(reduce(compute.and_, [block[name].is_valid() for name in IDENTITIES])) for block in blocks
        )
        table = pa.Table.from_batches(annotated, blocks.schema)
    except pa.ArrowInvalid as error:
        raise ValueError(f"Expected {path} to be a table of texts and numbers, but got: {error}.") from error
    missing = [name for name in columns if table[name].null_count]
    if missing:
        raise ValueError(f"Expected every comment of {path} to have a label, but got missing values of {missing[0]!r}.")
    return table.rename_columns(["comment_text", *LABELS, *IDENTITIES])
