"""Scikit-learn estimators: `fit` takes privileged information, and `predict` never does."""

from lupi.estimators.base import fit_together
from lupi.estimators.classifier import PrivilegedClassifier
from lupi.estimators.regressor import PrivilegedRegressor
from lupi.estimators.scoring import LabelLikelihood

__all__ = ["LabelLikelihood", "PrivilegedClassifier", "PrivilegedRegressor", "fit_together"]
