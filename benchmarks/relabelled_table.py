"""Write a table of relabelled images for ``lupi compare``: ``python -m benchmarks.relabelled_table OUT --data DIR``.

Writes ``OUT/annotations.parquet``, with true labels in the column ``gold``, and ``OUT/test.parquet``. The inputs are 64
principal components of the features of a pretrained MobileNet; DIR is the folder of ``lupi reproduce cifar10h``.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from lupi.datasets.relabelling import annotate
from lupi.nn.inference import over_examples
from lupi_paper.datasets import load_cifar10
from lupi_paper.experiments.cifar10h import find_weights
from lupi_paper.experiments.relabelled_data import enlarge
from lupi_paper.mobilenet import MobileNet

LESSON, TRAIN, TEST = 2000, 3000, 3000
"""Images that annotators learn from, images that they label, and test images."""


def write_table(out: Path, data: Path) -> None:
    """Write CIFAR-10 images labelled by sixteen classifiers of different quality, and at random one time in ten."""
    cifar = load_cifar10(data, 1)
    old, new = (enlarge(torch.from_numpy(part), 96) for part in (cifar.X_train[: LESSON + TRAIN], cifar.X_test[:TEST]))
    trunk = MobileNet.from_npz(find_weights(data), old[:LESSON])
    first, second = (over_examples(trunk, part, 100).numpy() for part in (old, new))
    reduce = PCA(64, whiten=True, random_state=0).fit(first[:LESSON])
    X, X_test, y = reduce.transform(first), reduce.transform(second), cifar.y_train
    models: dict[str, Any] = {}
    for count in (LESSON, 500, 150):
        models |= {
            f"logistic regression of {count}": LogisticRegression(C=0.01, max_iter=1000).fit(X[:count], y[:count]),
            f"discriminant of {count}": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(
                X[:count], y[:count]
            ),
            f"nearest neighbours of {count}": KNeighborsClassifier(10).fit(X[:count], y[:count]),
            f"forest of {count}": RandomForestClassifier(50, random_state=0).fit(X[:count], y[:count]),
            f"bayes of {count}": GaussianNB().fit(X[:count], y[:count]),
        }
    models["tree"] = DecisionTreeClassifier(max_depth=8, random_state=0).fit(X[:LESSON], y[:LESSON])
    rows = np.arange(LESSON, LESSON + TRAIN)
    row, label, privileged = annotate(list(models.values()), X[rows], names=list(models))
    save(out, make_table(X[rows[row]], label, y[rows[row]], rows[row], privileged), X_test, cifar.y_test[:TEST])


def make_table(X: Any, label: Any, gold: Any, example: Any, privileged: pd.DataFrame) -> pd.DataFrame:
    """Make a table of annotations."""
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return table.assign(label=label, gold=gold, example=example, **privileged)


def save(out: Path, table: pd.DataFrame, X: Any, y: Any) -> None:
    """Write both tables."""
    out.mkdir(parents=True, exist_ok=True)
    table.astype({"annotator": str}).to_parquet(out / "annotations.parquet", index=False)
    test = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(label=y)
    test.to_parquet(out / "test.parquet", index=False)
    print(f"{len(table)} labels, {100 * (table['label'] == table['gold']).mean():.1f} % right; {len(test)} test rows")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    write_table(options.out, options.data)
