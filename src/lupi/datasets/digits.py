"""Scikit-learn's handwritten digits with the labels of seventeen annotators: a small demonstration set.

Nothing is downloaded or stored. The 1797 digits are split in three:

- 297 digits, with their true labels, to train sixteen models of different kinds and quality: the *pool*;
- 1000 digits, which these models and a malicious annotator label as in `relabel`: the training set;
- 500 digits with their true labels, which no annotator has seen: the test set.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from lupi.datasets.relabelling import Annotator, annotate

POOL, TRAIN, TEST = 297, 1000, 500


@dataclass(frozen=True, eq=False)
class AnnotatedDigits:
    """Training annotations of digits, one row per annotation, and a test set with true labels."""

    X_train: NDArray[np.float64]
    """Pixels, 8 × 8, from 0 to 16. The annotations of an example repeat its row."""
    y_train: NDArray[np.int64]
    """The label that the annotator gave."""
    privileged: pd.DataFrame
    """`annotator`, and the `probability` that the label had for them, to three decimals."""
    example: NDArray[np.int64]
    """The digit, as its row in scikit-learn's set."""
    gold_train: NDArray[np.int64]
    """The true label. For scoring annotators only: a method that sees it is cheating."""
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]
    """The true labels of the test digits."""


def load_digits_annotated(annotations: int = 1, random_state: int = 0) -> AnnotatedDigits:
    """Load the digits as annotated by sixteen models and a malicious annotator.

    The models' labels are right from about 35 % to about 95 % of the time, the malicious annotator's 10 %;
    somewhat more than a third of all labels is wrong.

    Parameters
    ----------
    annotations
        Labels per training digit.
    random_state
        Seed of everything: the split, the annotators and their labels.

    Returns
    -------
    AnnotatedDigits
        1000 × `annotations` training rows and 500 test rows.

    Examples
    --------
    >>> digits = load_digits_annotated()
    >>> digits.X_train.shape, digits.X_test.shape
    ((1000, 64), (500, 64))
    >>> right = pd.Series(digits.y_train == digits.gold_train)
    >>> accuracy = right.groupby(digits.privileged["annotator"], observed=True).mean()
    >>> bool(accuracy["nearest neighbour"] > accuracy["nine middle pixels"] > accuracy["malicious"])
    True
    """
    X, y = load_digits(return_X_y=True)
    pool, train, test = _split(y, random_state)
    models = _fit_annotators(X[pool], y[pool], random_state)
    row, label, privileged = annotate(
        list(models.values()),
        X[train],
        names=list(models),
        annotations=annotations,
        random_state=random_state,
    )
    privileged["probability"] = privileged["probability"].round(3)  # as it would be stated: many are 1
    example = train[row]
    return AnnotatedDigits(X[example], label, privileged, example, y[example], X[test], y[test])


def _split(y: NDArray[np.int64], random_state: int) -> tuple[NDArray[np.int64], ...]:
    """Return the rows of the pool, the training and the test set, each with every digit in proportion."""
    pool, rest = train_test_split(np.arange(len(y)), train_size=POOL, stratify=y, random_state=random_state)
    train, test = train_test_split(rest, train_size=TRAIN, test_size=TEST, stratify=y[rest], random_state=random_state)
    return pool, train, test


def _fit_annotators(X: NDArray[np.float64], y: NDArray[np.int64], random_state: int) -> dict[str, Annotator]:
    """Train the sixteen: weak ones see few digits, few pixels or are too simple."""
    seed = {"random_state": random_state}
    left, middle = np.s_[:, :4], np.s_[3:6, 3:6]
    soft = {"C": 0.01, "max_iter": 1000}
    smooth = {"solver": "lbfgs", "alpha": 1, "tol": 0.01, "max_iter": 1000, **seed}
    # An unfitted classifier and how many digits of the pool it learns from.
    models: dict[str, tuple[Any, int]] = {
        "nearest neighbour": (KNeighborsClassifier(1), POOL),
        "five nearest of 60": (KNeighborsClassifier(5), 60),
        "discriminant": (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), POOL),
        "logistic regression": (LogisticRegression(**soft), POOL),
        "logistic regression of 40": (LogisticRegression(**soft), 40),
        "support vectors": (CalibratedClassifierCV(SVC(gamma=0.001), ensemble=False, cv=3), POOL),
        "network": (MLPClassifier((32,), **smooth), POOL),
        "network of 30": (MLPClassifier((32,), **smooth), 30),
        "gaussian bayes": (GaussianNB(), POOL),
        "left half": (_seeing(left, MultinomialNB()), POOL),
        "nine middle pixels": (_seeing(middle, MultinomialNB()), POOL),
        "tree": (DecisionTreeClassifier(**seed), POOL),
        "tree of depth 5": (DecisionTreeClassifier(max_depth=5, **seed), POOL),
        "tree of depth 3": (DecisionTreeClassifier(max_depth=3, **seed), POOL),
        "forest": (RandomForestClassifier(50, **seed), POOL),
        "boosted stumps": (GradientBoostingClassifier(n_estimators=12, max_depth=1, **seed), POOL),
    }
    return {name: model.fit(X[:digits], y[:digits]) for name, (model, digits) in models.items()}


def _seeing(window: Any, model: Any) -> Any:
    """Show a model only a window of the picture."""
    pixels = np.arange(64).reshape(8, 8)[window].ravel()
    return make_pipeline(make_column_transformer(("passthrough", pixels)), model)
