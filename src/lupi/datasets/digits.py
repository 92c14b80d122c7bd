"""Scikit-learn's handwritten digits with labels from seventeen annotators: a small demonstration set.

Nothing is downloaded or stored. The 1797 digits are split into three parts:

- the *pool*: 297 digits with true labels, on which sixteen models of different kinds and quality are trained;
- the training set: 1000 digits that these models and a malicious annotator label as in `relabel`;
- the test set: 500 digits with true labels, unseen by the annotators.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import discriminant_analysis, ensemble, naive_bayes, neighbors, svm, tree
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

from lupi._internal.checks import check_integer
from lupi.datasets.relabelling import annotate

POOL, TRAIN, TEST = 297, 1000, 500


@dataclass(frozen=True, eq=False, kw_only=True)
class AnnotatedDigits:
    """Training annotations of digits, one row per annotation, and a test set with true labels."""

    X_train: NDArray[np.float64]
    """Pixels, 8 × 8, 0 to 16. An example with several annotations has several equal rows."""
    y_train: NDArray[np.int64]
    """Label given by the annotator."""
    privileged: pd.DataFrame
    """`annotator`, and the `probability` that the annotator assigned to the label, to three decimals."""
    example: NDArray[np.int64]
    """Row of the digit in scikit-learn's set."""
    gold_train: NDArray[np.int64]
    """True label, for evaluation only."""
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]
    """True labels of the test digits."""


def load_digits_annotated(annotations: int = 1, random_state: int = 0) -> AnnotatedDigits:
    """Load the digits as annotated by sixteen models and a malicious annotator.

    The models' accuracies range from about 35 % to about 95 %, and the malicious annotator's is 10 %. More than a third
    of all labels are wrong.

    Parameters
    ----------
    annotations : int
        Labels per training digit, at most 1000.
    random_state : int
        Seed of the split, the annotators and their labels.

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
    check_integer("annotations", annotations, 1, maximum=1000)
    X, y = load_digits(return_X_y=True)
    pool, rest = train_test_split(np.arange(len(y)), train_size=POOL, stratify=y, random_state=random_state)
    train, test = train_test_split(rest, train_size=TRAIN, test_size=TEST, stratify=y[rest], random_state=random_state)
    models = _fit_annotators(X[pool], y[pool], random_state)
    row, label, privileged = annotate(
        list(models.values()), X[train], names=list(models), annotations=annotations, random_state=random_state
    )
    privileged["probability"] = privileged["probability"].round(3)  # as people would state it: many are 1
    example = train[row]
    return AnnotatedDigits(
        X_train=X[example],
        y_train=label,
        privileged=privileged,
        example=example,
        gold_train=y[example],
        X_test=X[test],
        y_test=y[test],
    )


def _fit_annotators(X: NDArray[np.float64], y: NDArray[np.int64], random_state: int) -> dict[str, Any]:
    """Fit sixteen annotators; the weak ones see few digits or few pixels, or are too simple."""
    seed = {"random_state": random_state}
    left, middle = np.s_[:, :4], np.s_[3:6, 3:6]
    soft = {"C": 0.01, "max_iter": 1000}
    smooth = {"solver": "lbfgs", "alpha": 1, "tol": 0.01, "max_iter": 1000, **seed}
    # An unfitted classifier, and the number of digits of the pool that it learns from.
    models: dict[str, tuple[Any, int]] = {
        "nearest neighbour": (neighbors.KNeighborsClassifier(1), POOL),
        "five nearest of 60": (neighbors.KNeighborsClassifier(5), 60),
        "discriminant": (discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), POOL),
        "logistic regression": (LogisticRegression(**soft), POOL),
        "logistic regression of 40": (LogisticRegression(**soft), 40),
        "support vectors": (CalibratedClassifierCV(svm.SVC(gamma=0.001), ensemble=False, cv=3), POOL),
        "network": (MLPClassifier((32,), **smooth), POOL),
        "network of 30": (MLPClassifier((32,), **smooth), 30),
        "gaussian bayes": (naive_bayes.GaussianNB(), POOL),
        "left half": (_restrict(left, naive_bayes.MultinomialNB()), POOL),
        "nine middle pixels": (_restrict(middle, naive_bayes.MultinomialNB()), POOL),
        "tree": (tree.DecisionTreeClassifier(**seed), POOL),
        "tree of depth 5": (tree.DecisionTreeClassifier(max_depth=5, **seed), POOL),
        "tree of depth 3": (tree.DecisionTreeClassifier(max_depth=3, **seed), POOL),
        "forest": (ensemble.RandomForestClassifier(50, **seed), POOL),
        "boosted stumps": (ensemble.GradientBoostingClassifier(n_estimators=12, max_depth=1, **seed), POOL),
    }
    return {name: model.fit(X[:digits], y[:digits]) for name, (model, digits) in models.items()}


def _restrict(window: Any, model: Any) -> Any:
    """Restrict a model to a window of the image."""
    pixels = np.arange(64).reshape(8, 8)[window].ravel()
    return make_pipeline(make_column_transformer(("passthrough", pixels)), model)
