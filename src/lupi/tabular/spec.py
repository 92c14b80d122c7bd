"""Describe a table of annotations: which columns are labels, inputs and privileged information."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """A table with one row per label, and the roles of its columns.

    Parameters
    ----------
    table : Path
        A CSV, TSV, JSON, JSON Lines, Excel or Parquet file, or a folder of Parquet files.
    target : sequence of str
        Columns of labels. Several columns of 0 and 1 are multi-label, unless they are `soft`.
    privileged : sequence of str
        Columns that are known for these labels only.
    example : str, optional
        Column of ids; rows with equal ids are labels of one example.
    annotator : str, optional
        Column that says who gave the label; by default found by its name among the privileged columns. It counts as
        privileged unless it is ignored; an ignored one is for `diagnose` alone, and models do not learn from it.
    gold : str, optional
        Column of true labels, for a single target of classes; it may be partly blank. Models learn from it what labels
        are worth, and are trained on it.
    trust : mapping of str to float
        Annotators who are trusted, by name, and the probability that a label of theirs is right. It counts like 100
        labels of theirs whose truth is known.
    weight : str, optional
        Column of numbers that say how much each label counts in training.
    soft : bool
        Whether the targets are probabilities of classes, which sum to one; their names are the classes.
    ignore : sequence of str
        Columns to leave out. Columns without a role are inputs.
    kind : mapping of str to str
        Kinds of columns, where they should not be recognised: number, category, text, vector or image. Of vectors in a
        ``.npy`` file beside the table, ``"vector:embeddings.npy"`` names the file: the column holds row numbers of it
        or, if the table has no such column, the file has the table's rows.
    task : {"classification", "regression"}, optional
        By default chosen by the values of the target.
    text_encoder : str, optional
        Name or folder of a Hugging Face model that encodes text columns. By default they are encoded by TF-IDF.
    image_encoder : str, optional
        Name or folder of a model for `lupi.nn.pretrained` that encodes image columns. By default they are encoded by
        the pixels of a miniature.

    Notes
    -----
    Column names may be comma-separated: ``privileged=["annotator,seconds"]`` names two columns, unless one column of
    the table has that name.

    Examples
    --------
    >>> TableSpec(table=Path("labels.csv"), target=["label"], privileged=["annotator", "seconds"]).example is None
    True
    """

    table: Path
    target: Sequence[str]
    privileged: Sequence[str] = ()
    example: str | None = None
    annotator: str | None = None
    gold: str | None = None
    trust: Mapping[str, float] = field(default_factory=dict)
    weight: str | None = None
    soft: bool = False
    ignore: Sequence[str] = ()
    kind: Mapping[str, str] = field(default_factory=dict)
    task: str | None = None
    text_encoder: str | None = None
    image_encoder: str | None = None

    @property
    def pretrained(self) -> dict[str, str | None]:
        """The pretrained encoder of each kind of column that may have one."""
        return {"text": self.text_encoder, "image": self.image_encoder}
