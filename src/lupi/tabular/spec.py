"""The description of a table of annotations: which columns are labels, inputs and privileged information."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from lupi._internal.checks import check_name, split_names


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
        Columns that will not be known when the model predicts.
    example : str, optional
        Column of example ids. Rows with equal ids are labels of the same example. By default, so are rows with equal
        inputs, except where there are on average more than 20 rows per distinct input and no input has more than 20
        distinct values. If rows with equal inputs are different examples, give each row an id of its own.
    annotator : str, optional
        Column of annotators. By default it is recognized by its name among the privileged columns. It is also used as
        privileged information unless it is in `ignore`; then only `diagnose` uses it.
    gold : str, optional
        Column of true labels, which may be partly empty, for a single target of classes. They are used to train models
        and to estimate how reliable the labels are.
    trust : mapping of str to float
        For each trusted annotator, by name, the probability that a label is correct. It counts as much as 100 of the
        annotator's labels with known truth.
    weight : str, optional
        Column of sample weights.
    soft : bool
        Whether the targets are class probabilities that sum to one. The column names are the classes.
    scale : str, optional
        "ordinal" if the classes are numbers of a rating scale, whose order counts, or comma-separated grades in order,
        such as "poor,fair,good"; "nominal" by default.
    ignore : sequence of str
        Columns to leave out. Columns without a role are inputs.
    kind : mapping of str to str
        Kinds of columns: number, standardized, category, text, vector or image. Kinds of other columns are recognized.
    task : {"classification", "regression"}, optional
        The task. By default it is inferred from the values of the target.
    text_encoder : str, optional
        Name or folder of a Hugging Face model that encodes text columns. By default they are encoded with TF-IDF.
    image_encoder : str, optional
        Name or folder of a model for `lupi.nn.pretrained` that encodes image columns. By default an image is encoded as
        the pixels of a thumbnail.

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
    scale: str | None = None
    ignore: Sequence[str] = ()
    kind: Mapping[str, str] = field(default_factory=dict)
    task: str | None = None
    text_encoder: str | None = None
    image_encoder: str | None = None

    @property
    def pretrained(self) -> dict[str, str | None]:
        """The pretrained encoders, by kind of column."""
        return {"text": self.text_encoder, "image": self.image_encoder}


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The role of each column of a table."""

    target: tuple[str, ...]
    privileged: tuple[str, ...] = ()
    example: str | None = None
    ignored: tuple[str, ...] = ()
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, spec: TableSpec, names: Sequence[str]) -> Self:
        """Assign the columns of a table to the roles of a spec; columns without a role are inputs."""
        target, privileged, ignore = (split_names(v, names) for v in (spec.target, spec.privileged, spec.ignore))
        single = (spec.example, spec.gold, spec.weight, spec.annotator)
        example, gold, weight, annotator = ([] if name is None else [name] for name in single)
        ignore = [name for name in ignore if name not in gold]  # even if users also list it in `ignore`
        annotator = [name for name in annotator if name not in (*privileged, *ignore)]
        role: dict[str, str] = {}
        assigned = {"target": target, "example": example, "gold": gold, "weight": weight, "privileged": privileged}
        for argument, columns in (assigned | {"annotator": annotator, "ignore": ignore}).items():
            for column in columns:
                check_name(column, names, argument)
                if column in role:
                    both = f"`{role[column]}` and `{argument}`"
                    raise ValueError(f"Expected column {column!r} to have one role, but got {both}.")
                role[column] = argument
        inputs = tuple(name for name in names if name not in role)
        if not target:
            raise ValueError("Expected `target` to name a column, but got none.")
        if not inputs:
            raise ValueError("Expected some columns to be inputs, but every column has another role.")
        return cls(
            target=tuple(target),
            privileged=(*privileged, *annotator),
            example=spec.example,
            ignored=(*ignore, *gold, *weight),
            inputs=inputs,
        )
