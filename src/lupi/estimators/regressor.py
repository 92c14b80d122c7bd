"""Regression with privileged information."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from lupi.estimators.arguments import to_python
from lupi.estimators.base import PrivilegedEstimator
from lupi.likelihoods import Gaussian, Likelihood
from lupi.tabular.standardizing import LARGEST, find_offset, find_too_large


class PrivilegedRegressor(RegressorMixin, PrivilegedEstimator):
    """Regressor that learns from privileged information and predicts without it.

    The parameters are those of `PrivilegedClassifier`. The target is standardized for training.

    Attributes
    ----------
    y_mean_, y_scale_ : float
        Mean and standard deviation of y.
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

    def _fit_targets(self, y: Any, names: Sequence[Any] | None) -> tuple[Tensor, Likelihood, int]:  # noqa: ARG002
        y = column_or_1d(y, warn=True)
        if y.dtype.kind not in "biuf":
            for row, value in enumerate(y):
                if not isinstance(value, Real):
                    raise ValueError(f"Expected y to be numbers, but got {to_python(value)!r} in row {row}.")
        y = y.astype(np.float64)
        place = find_too_large(y)
        if place is not None:
            got = f"{y[place]:g} in row {place[0]}"
            raise ValueError(f"Expected y to be numbers of at most {LARGEST:g} in size, but got {got}.")
        offset = float(find_offset(y))
        self.y_mean_ = float((y - offset).mean()) + offset
        self.y_scale_ = float((y - offset).std()) or 1.0
        return self._code_targets(y, "y"), Gaussian(), 1

    def _code_targets(self, y: NDArray[Any], name: str) -> Tensor:
        try:
            y = column_or_1d(y).astype(np.float64)
        except ValueError as error:
            raise ValueError(f"Expected `{name}` to be numbers, one per row, but got: {error}") from error
        return torch.from_numpy(((y - self.y_mean_) / self.y_scale_).astype(np.float32))

    def _decode(self, output: Tensor) -> Tensor:
        # Use tensors, since an ONNX export rounds plain numbers to float32.
        scale, mean = torch.tensor([self.y_scale_, self.y_mean_], dtype=output.dtype).unbind()
        return self.likelihood_.mean(output) * scale + mean

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
        mean = self._check_finite(self._decode(output).numpy())
        if not return_std:
            return mean
        if output.shape[1] < 2:
            known = "a method that predicts a variance, such as 'het-tram'"
            raise ValueError(f"Expected {known}, for `return_std`, but got {self.method!r}.")
        return mean, self._check_finite(output[:, 1].sqrt().numpy() * self.y_scale_)

    def predict_given(self, X: Any, privileged: Any) -> NDArray[np.float64]:
        """Return the expected y of the conditional head, for methods that have one."""
        return self._predict_given(X, privileged)
