"""Score fitted estimators."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.estimators.classifier import PrivilegedClassifier
from lupi.estimators.regressor import PrivilegedRegressor
from lupi.metrics import Normal, Posterior


def predict_test(
    model: PrivilegedClassifier | PrivilegedRegressor, X: Any, y: Any
) -> tuple[NDArray[Any] | Posterior, NDArray[np.float64] | Normal]:
    """Return the labels in the form that `lupi.metrics` takes, and predicted probabilities or normal distributions."""
    if isinstance(model, PrivilegedRegressor):
        output = model._outputs(X).numpy()
        variance = output[:, 1] * model._scale**2 if output.shape[1] == 2 else None
        return np.asarray(y), Normal(model.predict(X), variance)
    p = model.predict_proba(X)
    if isinstance(y, Posterior):
        return y, p
    y = np.asarray(y)
    if not model.multi_label_:
        codes = pd.Index(model.classes_).get_indexer(pd.Index(y))
        if (codes < 0).any():
            raise ValueError(f"Expected `y_test` to hold labels of the training set, but got {y[codes.argmin()]!r}.")
        y = codes
    return y, p
