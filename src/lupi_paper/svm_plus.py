"""SVM+: a support vector machine whose slack variables are a function of the privileged information.

Vapnik and Vashist, "A new learning paradigm: Learning using privileged information", Neural Networks 22 (2009).
The squared slack and the penalized bias are those of Li, Dai, Tan, Xu and Van Gool, "Fast algorithms for linear and
kernel SVM+" (CVPR 2016): they leave non-negativity as the dual's only constraint.
"""

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler, label_binarize
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from lupi.tabular import TableEncoder

__all__ = ["SVMPlusClassifier"]

KERNELS = ("linear", "poly", "rbf", "laplacian", "cosine", "precomputed")
Array = NDArray[np.float64]
Kernel = str | Callable[[Array, Array], float]


def slack_matrix(K: Array, C: float, weight: float) -> Array:
    """Return R = K(γI + CK)⁻¹ for the kernel matrix K of the privileged information; γ is `weight`.

    R maps the dual variables α to the slacks ξ = Rα of least ½γ‖w*‖² + ½C‖ξ‖² − αᵀξ.
    """
    try:
        R = cho_solve(cho_factor(weight * np.eye(len(K)) + C * K, overwrite_a=True), K)
    except LinAlgError:
        raise ValueError(
            "Expected `privileged_kernel` to be positive semi-definite and `privileged_C` / `C` to be well above "
            f"rounding errors, but got a kernel matrix that is not, at `privileged_C`={weight} and `C`={C}."
        ) from None
    return np.asarray((R + R.T) / 2)


def solve_dual(H: Array, tol: float, max_iter: int) -> tuple[Array, float, int]:
    """Maximize 1ᵀα − ½αᵀHα over α ≥ 0, and return α, its relative duality gap and the number of iterations.

    This is Mehrotra's interior-point method, with Newton steps on αᵢzᵢ = μ → 0 and z = Hα − 1. It copes with a
    singular or ill-conditioned H. The gap does not need z: if g = Hα > 0, the best multiple of α has the dual value
    (1ᵀα)² / 2αᵀg, and α / min g gives a feasible point of the primal with value αᵀg / 2(min g)².
    """
    n, scale = len(H), H.trace() / len(H)
    H = H / scale  # the starting point and the ridge below assume unit scale
    alpha, z = np.full(n, n / H.sum()), np.ones(n)
    best, best_gap, iterations = alpha, np.inf, 0
    while best_gap > tol and iterations < max_iter:
        iterations += 1
        newton = H.copy()
        newton[np.diag_indices(n)] += z / alpha + 1e-12
        try:
            factor = cho_factor(newton, overwrite_a=True, check_finite=False)
        except LinAlgError:  # rounding errors: the gap shows how close this came
            break
        missing, mu = 1 - H @ alpha, alpha @ z / n
        step = cho_solve(factor, missing)
        step_z = -z - z / alpha * step
        reached = (alpha + step_fraction(alpha, step) * step) @ (z + step_fraction(z, step_z) * step_z) / n
        target = mu * (reached / mu) ** 3 - step * step_z
        step = cho_solve(factor, missing + target / alpha)
        step_z = (target - z * step) / alpha - z
        length = 0.995 * min(step_fraction(alpha, step), step_fraction(z, step_z))
        alpha, z = alpha + length * step, z + length * step_z

        support = np.where(alpha > z, alpha, 0.0)
        g = H @ support
        gap = (support @ g / (support.sum() * g.min())) ** 2 - 1 if g.min() > 0 else np.inf
        if gap < best_gap:
            best, best_gap = support * support.sum() / (support @ g), gap
    return best / scale, float(best_gap), iterations


def step_fraction(point: Array, step: Array) -> float:
    """Return the largest fraction of a step, at most 1, that keeps every number non-negative."""
    return float(1 / max(1.0, (-step / point).max()))


@dataclass(eq=False, repr=False)
class SVMPlusClassifier(ClassifierMixin, BaseEstimator):
    r"""Support vector machine whose slacks are predicted from the privileged information.

    It classifies by the sign of f(x) = ⟨w, φ(x)⟩. With yᵢ = ±1 (one against the rest for several classes), features
    φ(x) and φ*(a) that end in a constant 1 for the bias, their kernel matrices K and K*, and γ = `privileged_C`, the
    primal problem is

    .. math::

        \min_{w, w^*, \zeta} \tfrac12 \|w\|^2 + \tfrac\gamma2 \|w^*\|^2 + \tfrac C2 \|\xi\|^2
        + \tfrac{C_{own}}2 \|\zeta\|^2 \quad\text{with } \xi_i = \langle w^*, \varphi^*(a_i) \rangle
        \text{ and } y_i f(x_i) \ge 1 - \xi_i - \zeta_i,

    where ζ = 0 in SVM+ proper (`own_C` = ∞). Its dual, which gives w = Σᵢ αᵢyᵢφ(xᵢ), ξ = Rα and ζ = α / `own_C`, is

    .. math::

        \max_{\alpha \ge 0} 1^\top\alpha - \tfrac12 \alpha^\top (yy^\top \circ K + R + I / C_{own}) \alpha,
        \qquad R = K^* (\gamma I + C K^*)^{-1}.

    Without privileged information, every label has a separate feature (K* = I) and γ → 0, so R = I / C, which
    is the SVM with squared hinge loss. (A constant a would instead make all slacks equal, which is a hard margin.)

    Labels with equal a share one slack ξ, the largest that any of them needs. If a has few values, such as annotator
    names, and the classes overlap, ξ = 1 and f = 0 can be optimal; `fit` then warns, and a finite `own_C` helps.
    Training takes cubic time and quadratic memory in the number of labels, so it suits up to a few thousand.

    Parameters
    ----------
    C : float
        Weight of the squared slacks ξ that a predicts.
    privileged_C : float
        Weight γ of ‖w*‖². A larger weight makes the slack a smoother function of a.
    own_C : float
        Weight of the squared slacks ζ of the individual labels. The default, infinity, disables them.
    kernel, privileged_kernel : {"linear", "poly", "rbf", "laplacian", "cosine", "precomputed"} or callable
        Kernels of x and a. A callable takes two rows and must be positive semi-definite. If "precomputed", X (or
        `privileged`) is the kernel matrix of the training rows, and X for prediction is that of new rows and training
        rows. Scikit-learn's cross-validation cuts both axes of X, but only the rows of `privileged`.
    gamma, privileged_gamma : {"scale", "auto"} or float
        Kernel coefficients as in `sklearn.svm.SVC`: 1 / (features · variance), 1 / features or a number.
    standardize, privileged_standardize : bool
        Whether to scale the columns of X and the numbers in `privileged` to mean 0 and variance 1. If not,
        `privileged` must be numbers, without missing values.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Maximum number of interior-point iterations; 10 to 20 are usual.

    Attributes
    ----------
    classes_ : ndarray
        The class labels.
    support_, support_vectors_ : ndarray
        The rows of X that f depends on: their indices and values, scaled if `standardize`. The values are empty if the
        kernel is precomputed.
    scaler_ : StandardScaler or None
        Scales X if `standardize`.
    dual_coef_ : ndarray of shape (1 or classes, support vectors)
        αᵢyᵢ.
    dual_gap_, n_iter_ : ndarray of shape (1 or classes,)
        Relative duality gap reached, and number of iterations.

    Examples
    --------
    A quarter of the labels are wrong, and an expert's score says how well each label fits.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> truth = X.sum(axis=1) > 0
    >>> y = truth ^ (rng.random(200) < 0.25)
    >>> score = np.where(y, 1, -1) * X.sum(axis=1) + rng.normal(size=200)
    >>> model = SVMPlusClassifier(kernel="linear", own_C=10).fit(X, y, privileged=score)
    >>> bool(model.score(X, truth) > 0.95)
    True

    References
    ----------
    V. Vapnik and A. Vashist, "A new learning paradigm: Learning using privileged information", Neural Networks 22
    (2009). W. Li, D. Dai, M. Tan, D. Xu and L. Van Gool, "Fast algorithms for linear and kernel SVM+", CVPR 2016.
    """

    __metadata_request__fit: ClassVar = {"privileged": True}

    C: float = 1.0
    _: KW_ONLY
    privileged_C: float = 1.0  # noqa: N815 - named after scikit-learn's C
    own_C: float = np.inf  # noqa: N815
    kernel: Kernel = "rbf"
    gamma: str | float = "scale"
    privileged_kernel: Kernel = "rbf"
    privileged_gamma: str | float = "scale"
    standardize: bool = False
    privileged_standardize: bool = True
    tol: float = 1e-6
    max_iter: int = 100

    def fit(self, X: Any, y: Any, *, privileged: Any = None) -> Self:
        """Train on labels.

        Parameters
        ----------
        X : array or DataFrame
            Inputs, one row per label.
        y : array
            Labels.
        privileged : array or DataFrame, optional
            One row per label; it may hold categories and missing values, unless `privileged_standardize` is False.

        Returns
        -------
        self
        """
        for name in ("C", "privileged_C", "own_C", "tol", "max_iter"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Expected `{name}` to be positive, but got {getattr(self, name)!r}.")
        tables = isinstance(X, pd.DataFrame) and isinstance(privileged, pd.DataFrame) and len(X) == len(privileged)
        if tables and not X.index.equals(privileged.index):
            raise ValueError("Expected X and `privileged` to have the same index, but they differ.")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"Expected y to have at least two classes, but got one class, {self.classes_[0]!r}.")
        if self.standardize and self.kernel == "precomputed":
            raise ValueError("Expected `standardize` to be False with a precomputed kernel, but got True.")
        self.scaler_ = StandardScaler().fit(X) if self.standardize else None
        X = self._scale(X)
        self.gamma_ = kernel_coefficient("gamma", self.gamma, X)
        K = kernel_matrix("kernel", self.kernel, X, X, self.gamma_)
        R = np.eye(len(X)) / self.C
        if privileged is None:
            warnings.warn(
                "SVMPlusClassifier.fit got no `privileged` information: it trains a plain SVM with squared hinge loss.",
                stacklevel=2,
            )
        else:
            A = self._encode_privileged(privileged)
            check_consistent_length(X, A)
            gamma = kernel_coefficient("privileged_gamma", self.privileged_gamma, A)
            K_star = kernel_matrix("privileged_kernel", self.privileged_kernel, A, A, gamma)
            R = slack_matrix(K_star, self.C, self.privileged_C)
        R += np.eye(len(X)) / self.own_C
        signs = label_binarize(y, classes=self.classes_, neg_label=-1).T  # one row if there are two classes
        solutions = [solve_dual(np.outer(sign, sign) * K + R, self.tol, self.max_iter) for sign in signs]
        alpha, self.dual_gap_, self.n_iter_ = map(np.array, zip(*solutions, strict=True))
        coefficients = signs * alpha
        self.support_ = np.flatnonzero(coefficients.any(axis=0))
        self.dual_coef_ = coefficients[:, self.support_]
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else X[self.support_]
        if self.dual_gap_.max() > self.tol:
            warnings.warn(
                f"The relative duality gap is {self.dual_gap_.max():.1e}, above `tol`={self.tol}, after "
                f"{self.n_iter_.max()} iterations. Scale X, lower `C` or raise `max_iter`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        # A relative gap of tol allows an error of √(tol 1ᵀα) in w, so w must be longer than that.
        elif (np.sum(coefficients @ K * coefficients, axis=1) <= self.tol * np.abs(coefficients).sum(axis=1)).any():
            warnings.warn(
                "The slacks alone explain all labels, and f = 0 to within `tol`. Lower `own_C`, say to 10 `C`.",
                stacklevel=2,
            )
        return self

    def decision_function(self, X: Any) -> Array:
        """Return f(x): [rows] for two classes, positive for ``classes_[1]``, and [rows, classes] for more."""
        check_is_fitted(self)
        X = self._scale(validate_data(self, X, dtype=np.float64, reset=False))
        if self.kernel == "precomputed":
            K = X[:, self.support_] + 1.0
        else:
            K = kernel_matrix("kernel", self.kernel, X, self.support_vectors_, self.gamma_)
        f = K @ self.dual_coef_.T
        return np.asarray(f[:, 0] if len(self.classes_) == 2 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        f = self.decision_function(X)
        return np.asarray(self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)])

    def _scale(self, X: Array) -> Array:
        return X if self.scaler_ is None else np.asarray(self.scaler_.transform(X))

    def _encode_privileged(self, privileged: Any) -> Array:
        """Return a as numbers; the kernel matrix itself if it is precomputed."""
        if self.privileged_standardize and self.privileged_kernel != "precomputed":
            columns = pd.DataFrame(privileged).infer_objects()
            kind = {str(name): "standardized" for name in columns.select_dtypes("number")}
            rows = TableEncoder(kind, privileged=True).fit_transform(columns)
            return np.asarray(rows.toarray(), dtype=np.float64)
        A = check_array(privileged, dtype=np.float64, ensure_2d=False, input_name="privileged")
        return np.asarray(A.reshape(len(A), -1))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def kernel_matrix(name: str, kernel: Kernel, X: Array, Y: Array, gamma: float) -> Array:
    """Return the matrix of k(x, y) + 1, where the 1 is the bias; if precomputed, X + 1."""
    if not callable(kernel) and kernel not in KERNELS:
        raise ValueError(f"Expected `{name}` to be a callable or one of {', '.join(KERNELS)}, but got {kernel!r}.")
    if kernel == "precomputed":
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Expected a square kernel matrix, since `{name}` is 'precomputed', but got shape {list(X.shape)}."
            )
        return X + 1.0
    settings = {} if callable(kernel) else {"gamma": gamma, "filter_params": True}
    return np.asarray(pairwise_kernels(X, Y, metric=kernel, **settings) + 1.0)


def kernel_coefficient(name: str, gamma: str | float, X: Array) -> float:
    """Return the coefficient of a kernel for the rows X."""
    if gamma == "auto":
        return 1 / int(X.shape[1])
    if gamma == "scale":
        return 1 / (int(X.shape[1]) * (float(X.var()) or 1.0))
    if isinstance(gamma, str) or not gamma > 0:
        raise ValueError(f"Expected `{name}` to be 'scale', 'auto' or a positive number, but got {gamma!r}.")
    return float(gamma)
