"""scikit-learn estimators."""

from lupi.estimators.base import PrivilegedClassifier, PrivilegedRegressor
from lupi.estimators.svm_plus import SVMPlusClassifier

__all__ = ["PrivilegedClassifier", "PrivilegedRegressor", "SVMPlusClassifier"]
