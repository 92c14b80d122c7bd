"""Regression with privileged information."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from lupi.estimators.base import PrivilegedEstimator
from lupi.estimators.targets import Numbers


class PrivilegedRegressor(RegressorMixin, PrivilegedEstimator):
    """Regressor that learns from privileged information and predicts without it.

    The parameters are those of `PrivilegedClassifier`. The target is standardized for training.

    Attributes
    ----------
    method_ : Method
        The trained method, with its whole network.
    predictor_ : Module
        The part of the network that predicts; it maps encoded inputs to the mean of the standardized y and, for
        "het-tram", to its variance.
    history_ : list of dict
        Losses of every epoch.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.uniform(size=(500, 1)), rng.integers(2, size=(500, 1))
    >>> y = (1 - A[:, 0]) * X[:, 0] + A[:, 0] * rng.normal(size=500)  # every other label is noise, and A says which
    >>> model = PrivilegedRegressor(method="tram", epochs=5, random_state=0).fit(X, y, privileged=A)
    >>> model.predict(X).shape
    (500,)
    """

    def _make_target(self, y: Any, names: Sequence[Any] | None) -> Numbers:  # noqa: ARG002
        return Numbers(y)

    @property
    def _scale(self) -> float:
        """The standard deviation of y."""
        assert isinstance(self.target_, Numbers)
        return self.target_.scale

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the expected y.

        Parameters
        ----------
        X : array or table
            Inputs.
        return_std : bool
            Whether to also return the standard deviation of y. This needs a method that predicts a variance, such as
            "het-tram".

        Returns
        -------
        y : ndarray
            The expected y.
        std : ndarray
            Its standard deviation, if `return_std` is true.
        """
        output = self._outputs(X)
        mean = self._decode(output)
        if not return_std:
            return mean
        if output.shape[1] < 2:
            known = "a method that predicts a variance, such as 'het-tram'"
            raise ValueError(f"Expected {known}, for `return_std`, but got {self.method!r}.")
        return mean, self._check_finite(output[:, 1].sqrt().numpy() * self._scale)

    def predict_given(self, X: Any, privileged: Any) -> NDArray[np.float64]:
        """Return the expected y of the conditional head, for methods that have one."""
        return self._predict_given(X, privileged)
