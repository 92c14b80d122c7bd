"""Aggregate a table of labels, either long (one row per label) or wide (one column per annotator)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lupi._internal.arrays import Floats
from lupi._internal.checks import check_name
from lupi.crowd.agreement import count_labels, krippendorff_alpha
from lupi.crowd.annotators import describe_reliability
from lupi.crowd.inference import Inference, infer_votes
from lupi.crowd.likelihood import split_rows
from lupi.crowd.trusted import read_trust
from lupi.crowd.votes import Integers, Votes
from lupi.tabular.frames import as_pandas
from lupi.tabular.targets import find_unlabelled
from lupi.tabular.values import as_text, is_number

LONG = {"example": "example", "annotator": "annotator", "label": "label"}
"""Default column names of a long table, as the importers write them."""
SHOWN = 10
"""Number of rows of each table to show in a notebook."""
ROUNDS = 60
"""Maximum number of EM steps for the shares of the classes. With few labels, a larger share can make up for a class
that is hard to recognize, and the steps are small."""
CONVERGED = 0.003
"""Change of the shares at which the steps end."""
HARDLY = 0.005
"""Cells of confusion matrices with a smaller expected count are left out."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregation:
    """Tables of the true labels and the reliability of annotators, estimated from labels alone."""

    consensus: pd.DataFrame
    """One row per example. example: the id; label: the most probable true label; probability: that of this label;
    labels: the number of labels; agreement: the share of labels that equal the consensus; given: whether any label
    does."""
    annotators: pd.DataFrame
    """One row per annotator, the least reliable first. annotator: the id; labels: the number of labels; agreement: the
    share of labels that equal the consensus; reliability: the probability that a label is correct, with an approximate
    95 % interval from low to high; habit: the share of labels that do not depend on the truth; flagged: whether the
    interval lies below the mean reliability over all labels."""
    confusions: pd.DataFrame
    """Cells of the annotators' confusion matrices. annotator, true, given: the cell; count: the expected number of
    labels; probability: that of the given label for the true one. Nearly empty cells are left out."""
    labels: pd.DataFrame
    """One row per label, with the index of the table. example, annotator, label: as in the table; right: the
    probability that the label is correct, which can serve as a sample weight for any model."""
    alpha: float
    """Krippendorff's α: 1 for perfect agreement, 0 for agreement by chance."""
    classes: NDArray[Any]
    """The classes."""
    inference: Inference
    """The estimates, to pass to functions of `lupi.crowd` such as `summarize_annotators`."""
    notes: tuple[str, ...] = ()
    """Notes on the table."""

    def confusion(self, annotator: Any) -> pd.DataFrame:
        """Return the confusion matrix of an annotator: true labels in rows, given labels in columns."""
        cells = self.confusions[self.confusions["annotator"] == annotator]
        if cells.empty:
            raise ValueError(f"Expected `annotator` to be an id of the table, but got {annotator!r}.")
        wide = cells.pivot(index="true", columns="given", values="probability").rename_axis(index=None, columns=None)
        matrix: pd.DataFrame = wide.reindex(index=self.classes, columns=self.classes).fillna(0.0)
        return matrix

    def _repr_html_(self) -> str:
        counts = (
            f"{len(self.labels):,} labels of {len(self.consensus):,} examples by {len(self.annotators):,} annotators"
        )
        parts = [f"<p>{counts}, {len(self.classes):,} classes, Krippendorff's α {self.alpha:.2f}</p>"]
        for title, table in (("Least reliable annotators", self.annotators), ("Consensus", self.consensus)):
            html = table.head(SHOWN).to_html(index=False, float_format="{:.3f}".format, border=0)
            parts.append(f"<p><b>{title}</b></p>{html}")
        return "".join(parts)


def aggregate(
    table: Any,
    *,
    example: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    gold: str | Mapping[Any, Any] | None = None,
    trust: Mapping[Any, float] | None = None,
) -> Aggregation:
    """Estimate the consensus of labels and the reliability of annotators from a table of labels.

    No inputs are needed. If you have inputs, `lupi diagnose` uses them too. The model of the labels is that of
    `lupi.crowd.infer`: annotators differ in reliability, may have habits such as a constant answer, and tend to make
    the same kinds of errors.

    Parameters
    ----------
    table
        A long table with one row per label (pandas, polars or Arrow), or a wide table or array with one column per
        annotator, as for `lupi.importers.read_export`. Rows and cells without a label are ignored. A missing annotator
        counts as one more annotator. Labels are names or integers.
    example, annotator, label : str, optional
        Column names of a long table; by default "example", "annotator" and "label". If `annotator` and `label` are not
        given and the table has neither of these columns, it is wide.
    gold : str or mapping, optional
        True labels of some examples, which anchor the estimates: the name of a partly empty column of a long table, or
        a dict or Series from examples to labels.
    trust : mapping, optional
        For each trusted annotator, by name, the probability between 0 and 1 that a label is correct. It counts as much
        as 100 of the annotator's labels with known truth.

    Returns
    -------
    Aggregation
        Tables of the consensus, annotators, confusions and labels.

    Examples
    --------
    Ann and Bob know the answers; Cem always says "no".

    >>> truth = np.array(["yes", "no", "yes"] * 10)
    >>> table = pd.DataFrame({"ann": truth, "bob": truth, "cem": "no"})
    >>> found = aggregate(table)
    >>> found.consensus.head(3)[["example", "label", "labels", "agreement"]].round(2)
      example label  labels  agreement
    0       0   yes       3       0.67
    1       1    no       3       1.00
    2       2   yes       3       0.67
    >>> found.annotators[["annotator", "agreement"]].round(2)
      annotator  agreement
    0       cem       0.33
    1       ann       1.00
    2       bob       1.00
    >>> found.confusion("cem").round(1)
          no  yes
    no   1.0  0.0
    yes  1.0  0.0
    """
    truth: Any = gold
    if isinstance(gold, str):
        table, truth = split_gold(table, gold, example)
    frame, notes = read_labels(table, {"example": example, "annotator": annotator, "label": label})
    of_example, examples = number_values(frame["example"])
    of_annotator, annotators = number_values(frame["annotator"])
    of_label, classes = number_values(frame["label"], sort=True)
    if is_number(frame["label"]) and len(real := classes[classes % 1 != 0]):
        raise ValueError(f"Expected labels to be names or integers, but got {real[0]!s}, a real number.")
    if len(classes) < 2:
        raise ValueError(f"Expected at least two classes of labels, but all labels are {classes[0]!r}.")
    known = None if truth is None else number_gold(truth, examples, classes)
    if known is not None:
        notes.append(f"The true labels of {(known >= 0).sum():,} of {len(known):,} examples are known.")
    found = infer_alone(
        Votes(
            example=of_example,
            annotator=of_annotator,
            label=of_label,
            examples=len(examples),
            annotators=len(annotators),
            classes=len(classes),
            gold=known,
            trust=None if trust is None else read_trust(trust, annotators),
        )
    )
    found = replace(found, names=annotators)
    people = pd.DataFrame(describe_reliability(found, {"habit": found.model.share}))
    return Aggregation(
        consensus=tabulate_consensus(found, examples, classes, found.truth.argmax(1)),
        annotators=people.sort_values(["reliability", "labels"], kind="stable", ignore_index=True),
        confusions=tabulate_confusions(found, annotators, classes),
        labels=frame.assign(right=1 - found.wrong),
        alpha=krippendorff_alpha(of_label, of_example),
        classes=classes,
        inference=found,
        notes=tuple(notes),
    )


def infer_alone(votes: Votes) -> Inference:
    """Infer true labels and the reliability of labels from the labels alone.

    The model is that of `infer_votes`. All examples have the same prior, the shares of the classes. EM estimates them,
    because errors make rare classes look more frequent among the labels than they are.
    """
    count = np.bincount(votes.label, minlength=votes.classes) + 1.0
    for _ in range(ROUNDS):
        share = count / count.sum()
        found = infer_votes(votes, np.broadcast_to(share, (votes.examples, votes.classes)))
        count = found.truth.sum(0) + 1
        if np.abs(count / count.sum() - share).max() < CONVERGED:
            break
    return found


def expected_confusions(votes: Votes, truth: Floats) -> tuple[Integers, Integers, Integers, Floats, Floats]:
    """Return the non-empty cells of the annotators' expected confusion matrices."""
    K = votes.classes
    pair, row = np.unique(votes.annotator * K + votes.label, return_inverse=True)
    shape = len(pair), votes.examples
    given_to = csr_array((np.ones(len(row)), (row, votes.example)), shape=shape)
    total, parts = np.zeros((votes.annotators, K)), list[tuple[Integers, Integers, Floats]]()
    for rows in split_rows(len(pair), K):
        counts = given_to[rows] @ truth
        np.add.at(total, pair[rows] // K, counts)
        place, true = np.nonzero(counts >= HARDLY)
        parts.append((pair[rows][place], true, counts[place, true]))
    pairs, true, count = (np.concatenate(part) for part in zip(*parts, strict=True))
    annotator, given = np.divmod(pairs, K)
    order = np.lexsort((given, true, annotator))
    annotator, true, given, count = annotator[order], true[order], given[order], count[order]
    return annotator, true, given, count, count / total[annotator, true]


def tabulate_consensus(
    inference: Inference, examples: NDArray[Any], classes: NDArray[Any], best: Integers
) -> pd.DataFrame:
    """Return the table `Aggregation.consensus`; `best` is the consensus."""
    counts = count_labels(inference.votes)
    row, total = np.arange(len(best)), counts.sum(1)
    return pd.DataFrame(
        {
            "example": examples,
            "label": classes[best],
            "probability": inference.truth[row, best],
            "labels": total.astype(np.int64),
            "agreement": counts[row, best] / np.maximum(total, 1),
            "given": counts[row, best] > 0,
        }
    )


def tabulate_confusions(inference: Inference, annotators: NDArray[Any], classes: NDArray[Any]) -> pd.DataFrame:
    """Return the table `Aggregation.confusions`."""
    who, true, given, count, share = expected_confusions(inference.votes, inference.truth)
    cells = {"annotator": annotators[who], "true": classes[true], "given": classes[given]}
    return pd.DataFrame({**cells, "count": count, "probability": share})


def read_labels(table: Any, given: Mapping[str, str | None]) -> tuple[pd.DataFrame, list[str]]:
    """Return a long table with a column for each role, and notes on the input table.

    `given` are the roles of columns with their names, None for the default name.
    """
    frame = as_pandas(table)
    names = list(map(str, frame.columns)) if isinstance(frame, pd.DataFrame) else []
    telling = ("annotator", "label")
    if all(given.get(role) is None for role in telling) and not {LONG[role] for role in telling} & set(names):
        from lupi.importers.wide import to_long  # only for wide tables

        long = to_long(frame, example=given["example"])
        return long.frame[list(given)], list(long.notes)
    for role, name in given.items():
        check_name(name or LONG[role], names, role)
    frame = pd.DataFrame({role: frame[name or LONG[role]] for role, name in given.items()})
    unlabelled = find_unlabelled(frame[["label"]], classes=True)
    frame = frame[~unlabelled]
    if frame.empty:
        raise ValueError("Expected the table to have labels, but it has none.")
    if frame["example"].isna().any():
        row = int(np.flatnonzero(frame["example"].isna())[0])
        raise ValueError(f"Expected `example` to have an id in every row, but row {frame.index[row]} has none.")
    notes = [f"{unlabelled.sum():,} of {len(unlabelled):,} rows have no label."] if unlabelled.any() else []
    return frame, notes


def split_gold(table: Any, gold: str, example: str | None) -> tuple[Any, "pd.Series[Any]"]:
    """Return the table without its column of true labels, and that column indexed by example."""
    table, example = as_pandas(table), example or LONG["example"]
    names = list(map(str, getattr(table, "columns", [])))
    check_name(gold, names, "gold")
    ids = table[example] if example in names else np.arange(len(table))
    return table.drop(columns=gold), pd.Series(table[gold].to_numpy(), index=np.asarray(ids))


def number_gold(gold: Mapping[Any, Any], examples: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the class number of each example's true label, −1 where it is unknown."""
    numbers = {as_text(name): place for place, name in enumerate(classes)}
    known = match_gold(gold, examples, lambda value: numbers.get(as_text(value)), "labels of the table")
    return np.where(np.isnan(known), -1, known).astype(np.int64)


def match_gold(
    gold: Mapping[Any, Any], examples: NDArray[Any], number: Callable[[Any], float | None], kind: str
) -> Floats:
    """Return each example's true label as a number, NaN where it is unknown; `number` returns None for others."""
    known = dict[str, float]()
    for one, value in pd.Series(gold).items():
        if pd.isna(value):
            continue
        if (found := number(value)) is None:
            raise ValueError(f"Expected `gold` to have {kind}, but got {value!r} of example {one!r}.")
        if known.setdefault(as_text(one), found) != found:
            raise ValueError(f"Expected `gold` to have one true label per example, but example {one!r} has several.")
    return np.array([known.get(as_text(one), np.nan) for one in examples])


def number_values(column: Any, *, sort: bool = False) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number the distinct values of a column, by first appearance or sorted; return the numbers and the values."""
    if is_number(column) and not column.isna().any() and (column % 1 == 0).all():
        column = column.astype(np.int64)  # missing values make pandas store integers as floats
    codes, values = pd.factorize(column, use_na_sentinel=False)
    values = np.asarray(values)
    if sort:
        try:
            order = np.argsort(values, kind="stable")
        except TypeError:
            order = np.argsort([str(value) for value in values], kind="stable")
        codes, values = np.argsort(order)[codes], values[order]
    return codes.astype(np.int64), values
