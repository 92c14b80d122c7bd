"""CIFAR-10H: labels of the CIFAR-10 test images by 2571 people, one row per label.

The published archive ``cifar10h-raw.zip`` contains one file, ``cifar10h-raw.csv``. Each person has 200 rows, and 10
more for attention checks: easy images from elsewhere, marked ``is_attn_check``, with the index -99999. Attention
checks are dropped, and do not count as earlier labels.

References
----------
Peterson, Battleday, Griffiths and Russakovsky, *Human uncertainty makes classification more robust*, ICCV 2019;
https://github.com/jcpeterson/cifar-10h.
Collier, Jenatton, Kokiopoulou and Berent, *Transfer and Marginalize: Explaining Away Label Noise with
Privileged Information*, ICML 2022, appendix: the subsample of 82 annotators.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi_paper.datasets.files import check_names, find_file

URL = "https://github.com/jcpeterson/cifar-10h/raw/master/data/cifar10h-raw.zip"
INDEX = "cifar10_test_test_idx"
"""Column of the image; the description of the published file calls it cifar10_test_set_idx."""
COLUMNS = ["annotator_id", "trial_index", "is_attn_check", "true_label", "chosen_label", INDEX, "reaction_time"]


@dataclass(frozen=True, eq=False)
class CIFAR10H:
    """Labels of the CIFAR-10 test images, one row per label, ordered by annotator and trial."""

    y: NDArray[np.int64]
    """Label given by the annotator."""
    privileged: pd.DataFrame
    """`annotator` (categorical), `reaction_time` in milliseconds, and `earlier`, the number of labels given before."""
    example: NDArray[np.int64]
    """Row of the image in the CIFAR-10 test set: ``load_cifar10(folder).X_test[example]``."""
    gold: NDArray[np.int64]
    """True label, for evaluation only."""

    def agreement(self) -> "pd.Series[float]":
        """Return the fraction of each annotator's labels that are correct."""
        right = pd.Series(self.y == self.gold)
        return right.groupby(self.privileged["annotator"].to_numpy(), observed=True).mean()

    def subsample(self, others: int = 41, below: float = 0.85, random_state: int = 0) -> "CIFAR10H":
        """Keep all inaccurate annotators and a sample of the others, as the paper does.

        From the published file this keeps 41 + 41 annotators and their 16,400 labels, 79.2 % of which are correct.
        """
        agreement = self.agreement()
        bad = agreement.index[agreement < below]
        good = agreement.index[agreement >= below]
        if not 0 <= others <= len(good):
            raise ValueError(
                f"Expected `others` to be at most {len(good)}, the number of annotators with an accuracy of at least "
                f"{below:.0%}, but got {others}."
            )
        drawn = np.random.default_rng(random_state).choice(len(good), others, replace=False)
        keep = self.privileged["annotator"].isin(bad.append(good[drawn])).to_numpy()
        privileged = self.privileged[keep].reset_index(drop=True)
        privileged["annotator"] = privileged["annotator"].cat.remove_unused_categories()
        return CIFAR10H(self.y[keep], privileged, self.example[keep], self.gold[keep])


def load_cifar10h(path: str | Path) -> CIFAR10H:
    r"""Load all labels of CIFAR-10H; `CIFAR10H.subsample` selects the paper's training set.

    Parameters
    ----------
    path : str or Path
        ``cifar10h-raw.csv`` or ``cifar10h-raw.zip``, or the folder that holds one of them.

    Returns
    -------
    CIFAR10H
        For the published file 514,200 labels, 94.9 % of them correct.

    Notes
    -----
    `earlier` is the paper's "number of prior annotations", 0 to 199. A few published reaction times are negative; they
    are kept, and fall into the lowest quantile.

    Examples
    --------
    Two annotators, three trials each, one of them an attention check:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "cifar10h-raw.csv")
    >>> _ = path.write_text(
    ...     "annotator_id,trial_index,is_attn_check,true_label,chosen_label,cifar10_test_test_idx,reaction_time\n"
    ...     "0,0,0,3,3,0,1200\n0,1,1,1,1,-99999,900\n0,2,0,8,8,1,1500\n"
    ...     "1,0,0,8,0,2,800\n1,1,0,3,3,0,700\n1,2,1,1,1,-99999,600\n"
    ... )
    >>> labels = load_cifar10h(path)
    >>> labels.privileged
      annotator  reaction_time  earlier
    0         0         1200.0        0
    1         0         1500.0        1
    2         1          800.0        0
    3         1          700.0        1
    >>> labels.example, labels.agreement().to_dict()
    (array([0, 1, 2, 0]), {'0': 1.0, '1': 0.5})
    """
    file = find_file("path", path, ["cifar10h-raw.csv", "cifar10h-raw.zip"], f"download {URL}")
    source = zipfile.Path(file, "cifar10h-raw.csv") if file.suffix == ".zip" else file
    with source.open() as opened:
        table = pd.read_csv(opened).rename(columns={"cifar10_test_set_idx": INDEX})
    check_names(file, table, COLUMNS)
    table = table[table["is_attn_check"] == 0].sort_values(["annotator_id", "trial_index"], ignore_index=True)
    wrong = table[INDEX][~table[INDEX].between(0, 9999)]
    if len(wrong):
        raise ValueError(f"Expected image indices of {path} to be 0 to 9999, but got {wrong.iloc[0]}.")
    person, names = pd.factorize(table["annotator_id"])
    privileged = pd.DataFrame(
        {
            "annotator": pd.Categorical.from_codes(person, pd.Index(names.astype(str))),  # an id, not a quantity
            "reaction_time": table["reaction_time"].astype(np.float64),
            "earlier": table.groupby("annotator_id").cumcount(),
        }
    )
    y, example, gold = (table[name].to_numpy(np.int64) for name in ("chosen_label", INDEX, "true_label"))
    return CIFAR10H(y, privileged, example, gold)
