import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.optimize import minimize, nnls
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from lupi_paper.svm_plus import SVMPlusClassifier, slack_matrix, solve_dual

no_privileged_is_fine = pytest.mark.filterwarnings("ignore:SVMPlusClassifier.fit got no `privileged`")
zero_is_fine = pytest.mark.filterwarnings("ignore:The slacks alone explain")
many_inputs = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**32 - 1)
weights = st.floats(-2, 2).map(lambda exponent: 10**exponent)


def problem(seed=0, n=40, d=3, classes=2):
    """Labels that x explains in part, and privileged information that tells how badly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), np.linspace(-0.5, 0.5, classes - 1))
    y[:classes] = range(classes)
    A = rng.normal(size=(n, 2))
    A[:, 0] += 2 * np.abs(y - X[:, 0])
    return X, y, A


def flips(seed, n=150):
    """A quarter of the labels are wrong, and a score tells how well each fits; then rows and labels to test with."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 1000, 10))
    margin = X[:, :3].sum(axis=1)
    y = np.where(rng.random(n) < 0.25, -1, 1) * np.sign(margin[:n])
    return X[:n], y, y * margin[:n] + 0.3 * rng.normal(size=n), X[n:], np.sign(margin[n:])


def gram(X, kernel):
    """Kernel matrix with the bias, independent of scikit-learn's."""
    return 1 + (X @ X.T if kernel == "linear" else np.exp(-cdist(X, X, "sqeuclidean") / (X.shape[1] * X.var())))


def standardized(A):
    return (A - A.mean(axis=0)) / A.std(axis=0)


def dual_variables(model, n):
    alpha = np.zeros(n)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    return alpha


def coefficients(model):
    """Return w and the bias of a fitted model with a linear kernel."""
    d = model.n_features_in_
    f = model.decision_function(np.vstack([np.zeros(d), np.eye(d)]))
    return np.append(f[1:] - f[0], f[0])


def squared_hinge_svm(X, y, C):
    """Minimise ½‖w‖² + ½b² + ½C Σ max(0, 1 − y f)² by liblinear."""
    model = LinearSVC(C=C / 2, loss="squared_hinge", dual=True, tol=1e-10, max_iter=10**6, random_state=0).fit(X, y)
    return np.append(model.coef_[0], model.intercept_)


@zero_is_fine
@many_inputs
@given(
    seed=seeds,
    C=weights,
    privileged_C=weights,
    own_C=weights | st.just(np.inf),
    kernel=st.sampled_from(["linear", "rbf"]),
    privileged_kernel=st.sampled_from(["linear", "rbf"]),
)
def test_solution_satisfies_kkt_and_closes_the_gap(seed, C, privileged_C, own_C, kernel, privileged_kernel):
    X, y, A = problem(seed, n=25)
    model = SVMPlusClassifier(
        C, privileged_C=privileged_C, own_C=own_C, kernel=kernel, privileged_kernel=privileged_kernel
    ).fit(X, y, privileged=A)
    K, K_star = gram(X, kernel), gram(standardized(A), privileged_kernel)
    alpha, sign = dual_variables(model, len(y)), 2 * y - 1
    v = np.linalg.solve(privileged_C * np.eye(len(y)) + C * K_star, alpha)  # w* = Σ vᵢ φ*(aᵢ)
    xi, zeta, f = K_star @ v, alpha / own_C, K @ (alpha * sign)
    excess = sign * f - 1 + xi + zeta

    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-9 * (1 + alpha.sum()))
    assert excess.min() > -1e-5  # the encoder's float32 costs some
    assert abs(alpha @ excess) < 1e-5 * alpha.sum()
    own = own_C * zeta @ zeta if np.isfinite(own_C) else 0.0
    primal = (alpha * sign @ f + privileged_C * v @ K_star @ v + C * xi @ xi + own) / 2
    dual = alpha.sum() - alpha @ (sign * f + xi + zeta) / 2
    assert primal == pytest.approx(dual, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("own_C", [3.0, np.inf])
def test_agrees_with_a_generic_solver_of_the_primal(seed, own_C):
    C, privileged_C = 2.0, 0.5
    X, y, A = problem(seed, n=12, d=2)
    A[:, 0] = (2 * y - 1) * X[:, 0]  # makes w ≠ 0 without own slacks too
    model = SVMPlusClassifier(
        C, privileged_C=privileged_C, own_C=own_C, kernel="linear", privileged_kernel="linear", tol=1e-10
    ).fit(X, y, privileged=A)
    phi, phi_star = np.column_stack([X, np.ones(12)]), np.column_stack([standardized(A), np.ones(12)])
    curvature = block_diag(np.eye(3), privileged_C * np.eye(3) + C * phi_star.T @ phi_star)
    slopes = np.hstack([(2 * y - 1)[:, None] * phi, phi_star])
    if np.isfinite(own_C):
        curvature, slopes = block_diag(curvature, own_C * np.eye(12)), np.hstack([slopes, np.eye(12)])
    found = minimize(
        lambda p: p @ curvature @ p / 2,
        np.linalg.pinv(slopes) @ np.ones(12),
        jac=lambda p: curvature @ p,
        constraints={"type": "ineq", "fun": lambda p: slopes @ p - 1, "jac": lambda _: slopes},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert found.success
    assert np.linalg.norm(found.x[:3]) > 0.1
    np.testing.assert_allclose(coefficients(model), found.x[:3], atol=1e-4)


@many_inputs
@given(seed=seeds, n=st.integers(2, 20), ridge=st.floats(-4, 2))
def test_dual_agrees_with_an_active_set_solver(seed, n, ridge):
    features = np.random.default_rng(seed).normal(size=(n, 3))
    H = features @ features.T + 10**ridge * np.eye(n)
    L = np.linalg.cholesky(H)
    alpha, gap, _ = solve_dual(H, 1e-10, 100)
    expected = nnls(L.T, np.linalg.solve(L, np.ones(n)), maxiter=1000)[0]  # ‖Lᵀα − L⁻¹1‖² = αᵀHα − 2·1ᵀα + constant
    assert gap <= 1e-10
    np.testing.assert_allclose(H @ alpha, H @ expected, rtol=1e-4)
    assert alpha.sum() == pytest.approx(expected.sum(), rel=1e-7)


@many_inputs
@given(seed=seeds, rank=st.integers(1, 3), max_iter=st.integers(2, 8))
def test_gap_bounds_the_distance_from_the_optimum_even_if_singular(seed, rank, max_iter):
    features = np.column_stack([np.random.default_rng(seed).normal(size=(20, rank)), np.full(20, 0.3)])
    H = features @ features.T
    alpha, gap, iterations = solve_dual(H, 1e-12, max_iter)
    best, best_gap, _ = solve_dual(H, 1e-9, 100)
    value = alpha.sum() - alpha @ H @ alpha / 2
    optimum = best.sum() - best @ H @ best / 2
    assert best_gap <= 1e-9
    assert iterations <= max_iter
    assert (alpha >= 0).all()
    assert value <= optimum * (1 + 1e-8)
    assert optimum <= value * (1 + gap) * (1 + 1e-8)
    if gap < np.inf:
        feasible = alpha / (H @ alpha).min()
        assert gap == pytest.approx(feasible @ H @ feasible / 2 / value - 1, rel=1e-6, abs=1e-9)
        assert alpha.sum() == pytest.approx(alpha @ H @ alpha)  # no multiple of α is better


@no_privileged_is_fine
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_without_privileged_it_is_the_squared_hinge_svm(C):
    X, y, _ = problem()
    model = SVMPlusClassifier(C, kernel="linear", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(coefficients(model), squared_hinge_svm(X, y, C), atol=1e-5)


def test_slacks_free_of_each_other_give_the_squared_hinge_svm():
    # With a narrow kernel K* is I + 11ᵀ, regular, so that R → I / C as privileged_C → 0.
    X, y, A = problem()
    expected = squared_hinge_svm(X, y, 3.0)
    narrow = {"kernel": "linear", "privileged_kernel": "rbf", "privileged_gamma": 1e6, "tol": 1e-10}
    errors = [
        np.abs(coefficients(SVMPlusClassifier(3.0, privileged_C=g, **narrow).fit(X, y, privileged=A)) - expected).max()
        for g in (1.0, 1e-3, 1e-6)
    ]
    assert errors[0] > 1e-3
    assert errors[1] < 1e-2 * errors[0]
    assert errors[2] < 1e-5


def test_own_slacks_alone_give_the_squared_hinge_svm():
    X, y, A = problem()
    model = SVMPlusClassifier(1e9, own_C=3.0, kernel="linear", tol=1e-10).fit(X, y, privileged=A)
    np.testing.assert_allclose(coefficients(model), squared_hinge_svm(X, y, 3.0), atol=1e-5)


def test_constant_privileged_gives_the_direction_of_the_hard_margin():
    X, y, _ = problem()
    X[:, 0] += 3 * (2 * y - 1)  # separable
    model = SVMPlusClassifier(kernel="linear", tol=1e-10).fit(X, y, privileged=np.ones(len(y)))
    hard = squared_hinge_svm(X, y, 1e5)
    cosine = coefficients(model) @ hard / np.linalg.norm(coefficients(model)) / np.linalg.norm(hard)
    assert cosine > 1 - 1e-6


@no_privileged_is_fine
def test_knowing_how_well_labels_fit_helps_and_shuffled_it_does_not():
    accuracy = []
    for seed in range(10):
        X, y, score, X_test, y_test = flips(seed)
        shuffled = np.random.default_rng(seed).permutation(score)
        model = SVMPlusClassifier(kernel="linear", own_C=10)
        accuracy.append([model.fit(X, y, privileged=A).score(X_test, y_test) for A in (score, shuffled, None)])
    known, shuffled, without = np.transpose(accuracy)
    assert (known > np.maximum(shuffled, without)).all()
    assert (known - without).mean() > 0.1
    assert abs(shuffled - without).mean() < 0.05


@no_privileged_is_fine
def test_svm_plus_proper_helps_too_where_the_score_is_good():
    gain = []
    for seed in range(5):
        X, y, score, X_test, y_test = flips(seed)
        model = SVMPlusClassifier(kernel="linear", privileged_kernel="linear")
        gain.append(np.subtract(*(model.fit(X, y, privileged=A).score(X_test, y_test) for A in (score, None))))
    assert min(gain) > 0.05


@no_privileged_is_fine
def test_a_flag_of_wrong_labels_helps_only_with_own_slacks():
    X, y, score, X_test, y_test = flips(0)
    wrong = pd.Series(score < 0).map({True: "wrong", False: "right"})
    with pytest.warns(UserWarning, match="f = 0 to within `tol`. Lower `own_C`"):
        SVMPlusClassifier(kernel="linear").fit(X, y, privileged=wrong)
    model = SVMPlusClassifier(kernel="linear", own_C=10)
    with_flag = model.fit(X, y, privileged=wrong).score(X_test, y_test)
    assert with_flag > model.fit(X, y).score(X_test, y_test) + 0.05


@many_inputs
@given(seed=seeds, kernel=st.sampled_from(["linear", "poly", "rbf", "laplacian", "cosine"]))
def test_order_of_rows_and_names_of_classes_do_not_matter(seed, kernel):
    X, y, A = problem(seed, n=25)
    order = np.random.default_rng(seed).permutation(len(y))
    model = SVMPlusClassifier(kernel=kernel, privileged_kernel=kernel, own_C=10, tol=1e-10)
    f = model.fit(X, y, privileged=A).decision_function(X)
    permuted = model.fit(X[order], y[order], privileged=A[order]).decision_function(X)
    swapped = model.fit(X, np.array(["yes", "no"])[y], privileged=A).decision_function(X)
    np.testing.assert_allclose(permuted, f, atol=1e-4)
    np.testing.assert_allclose(swapped, -f, atol=1e-4)
    assert (model.predict(X) == np.where(swapped > 0, "yes", "no")).all()


def test_several_classes_are_one_against_the_rest():
    X, y, A = problem(n=60, classes=3)
    model = SVMPlusClassifier(own_C=10, tol=1e-9).fit(X, y, privileged=A)
    f = model.decision_function(X)
    assert model.dual_gap_.shape == model.n_iter_.shape == (3,)
    for k in range(3):
        one = SVMPlusClassifier(own_C=10, tol=1e-9).fit(X, y == k, privileged=A)
        np.testing.assert_allclose(f[:, k], one.decision_function(X), atol=1e-9)
    assert (model.predict(X) == f.argmax(axis=1)).all()
    assert model.score(X, y) > 0.7


def test_privileged_columns_are_encoded_whatever_holds_them():
    X, y, A = problem()
    table = pd.DataFrame({"name": np.array(["ann", "bob"])[np.arange(len(y)) % 2], "seconds": A[:, 0]})
    table.loc[5, "name"] = None
    name, seconds = table["name"], standardized(A[:, 0])
    K_star = gram(np.column_stack([name == "ann", name == "bob", name.isna(), seconds]).astype(float), "rbf")
    sign = 2 * y - 1
    H = np.outer(sign, sign) * gram(X, "rbf") + slack_matrix(K_star, 1.0, 1.0) + np.eye(len(y)) / 10
    expected = gram(X, "rbf") @ (solve_dual(H, 1e-9, 100)[0] * sign)
    for privileged in (table, table.to_numpy().tolist()):
        model = SVMPlusClassifier(own_C=10, tol=1e-9).fit(X, y, privileged=privileged)
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


def test_kernels_may_be_functions():
    X, y, A = problem(n=20)
    named = SVMPlusClassifier(own_C=10, kernel="linear", privileged_kernel="linear")
    own = SVMPlusClassifier(own_C=10, kernel=np.dot, privileged_kernel=np.dot)
    expected = named.fit(X, y, privileged=A).decision_function(X)
    np.testing.assert_allclose(own.fit(X, y, privileged=A).decision_function(X), expected, atol=1e-8)


@many_inputs
@given(
    seed=seeds,
    classes=st.integers(2, 3),
    kernels=st.tuples(*[st.sampled_from(["linear", "poly", "rbf", "laplacian", "cosine"])] * 2),
)
def test_precomputed_kernels_are_those_that_are_built_in(seed, classes, kernels):
    X, y, A = problem(seed, n=30, classes=classes)
    X_new = np.random.default_rng(seed).normal(size=(7, 3))
    own = dict(zip(("kernel", "privileged_kernel"), kernels, strict=True))
    width = {"gamma": 0.3, "privileged_gamma": 0.2, "own_C": 10, "privileged_standardize": False}
    expected = SVMPlusClassifier(**own, **width).fit(X, y, privileged=A)

    def gram_matrix(kernel, gamma, *rows):
        return pairwise_kernels(*rows, metric=kernel, gamma=gamma, filter_params=True)

    K, K_new = (gram_matrix(kernels[0], 0.3, *rows) for rows in ((X, X), (X_new, X)))
    K_star = gram_matrix(kernels[1], 0.2, A, A)
    for changes, inputs, privileged in (
        ({"kernel": "precomputed"}, (K, K_new), A),
        ({"privileged_kernel": "precomputed"}, (X, X_new), K_star),
        ({"kernel": "precomputed", "privileged_kernel": "precomputed"}, (K, K_new), K_star),
    ):
        model = SVMPlusClassifier(**own | changes, **width).fit(inputs[0], y, privileged=privileged)
        np.testing.assert_array_equal(model.support_, expected.support_)
        np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)
        f = expected.decision_function(X_new)
        np.testing.assert_allclose(model.decision_function(inputs[1]), f, rtol=1e-10, atol=1e-10 * np.abs(f).max())


@no_privileged_is_fine
def test_cross_validation_cuts_both_axes_of_a_precomputed_kernel():
    X, y, A = problem(n=60)
    for params in ({}, {"privileged": A}):
        with config_context(enable_metadata_routing=True):
            expected, actual = (
                cross_val_predict(
                    SVMPlusClassifier(kernel=kernel, own_C=10, tol=1e-9),
                    inputs,
                    y,
                    cv=4,
                    params=params,
                    method="decision_function",
                )
                for kernel, inputs in (("linear", X), ("precomputed", X @ X.T))
            )
        np.testing.assert_allclose(actual, expected, atol=1e-6)


@many_inputs
@given(seed=seeds, kernel=st.sampled_from(["linear", "rbf"]), constant=st.booleans())
def test_standardize_is_a_scaler_in_a_pipeline(seed, kernel, constant):
    X, y, A = problem(seed)
    X = X * [1, 1e3, 1e-3] + [5, 0, 1]
    X[:, 2] = 4.0 if constant else X[:, 2]
    scaler = StandardScaler().fit(X)
    plain = SVMPlusClassifier(kernel=kernel, own_C=10).fit(scaler.transform(X), y, privileged=A)
    model = SVMPlusClassifier(kernel=kernel, own_C=10, standardize=True).fit(X, y, privileged=A)
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(scaler.transform(X)))
    unscaled = SVMPlusClassifier(kernel=kernel, own_C=10).fit(X, y, privileged=A)
    assert not np.allclose(unscaled.decision_function(X), model.decision_function(X))


def test_privileged_numbers_are_standardized_unless_told():
    X, y, A = problem()
    A = A * [1, 50] + [3, 0]
    default = SVMPlusClassifier(own_C=10, tol=1e-9).fit(X, y, privileged=A)
    raw = SVMPlusClassifier(own_C=10, tol=1e-9, privileged_standardize=False)
    scaled = raw.fit(X, y, privileged=standardized(A)).decision_function(X)
    np.testing.assert_allclose(default.decision_function(X), scaled, atol=1e-4)  # the encoder's float32 costs some
    assert not np.allclose(raw.fit(X, y, privileged=A).decision_function(X), scaled, atol=1e-2)
    one_column = raw.fit(X, y, privileged=A[:, 0]).decision_function(X)
    np.testing.assert_array_equal(raw.fit(X, y, privileged=A[:, :1]).decision_function(X), one_column)
    with pytest.raises(ValueError, match="Input privileged contains NaN"):
        raw.fit(X, y, privileged=np.where(A > 3, np.nan, A))


def test_matrices_that_are_no_precomputed_kernels():
    X, y, A = problem()
    K = X @ X.T
    with pytest.raises(ValueError, match=r"square kernel matrix, since `kernel` is .* \[40, 3\]"):
        SVMPlusClassifier(kernel="precomputed").fit(X, y, privileged=A)
    with pytest.raises(ValueError, match=r"square kernel matrix, since `privileged_kernel` is .* \[40, 2\]"):
        SVMPlusClassifier(privileged_kernel="precomputed").fit(X, y, privileged=A)
    with pytest.raises(ValueError, match="`standardize` to be False with a precomputed kernel"):
        SVMPlusClassifier(kernel="precomputed", standardize=True).fit(K, y, privileged=A)
    model = SVMPlusClassifier(kernel="precomputed", own_C=10).fit(K, y, privileged=A)
    with pytest.raises(ValueError, match=r"X has 39 features, but .* expecting 40"):
        model.predict(K[:, 1:])


def test_gamma_by_name_is_that_of_scikit_learn():
    X, y, A = problem()
    for gamma, width in (("auto", 1 / 3), ("scale", 1 / (3 * X.var()))):
        named, numbered = (SVMPlusClassifier(own_C=10, gamma=g).fit(X, y, privileged=A) for g in (gamma, width))
        np.testing.assert_array_equal(named.decision_function(X), numbered.decision_function(X))


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_scikit_learn_checks(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no privileged information there
        results = check_estimator(SVMPlusClassifier(kernel=kernel))
    assert sum(result["status"] == "passed" for result in results) > 40


@config_context(enable_metadata_routing=True)
def test_privileged_is_routed_through_pipeline_and_search():
    X, y, A = problem(n=60)
    pipeline = make_pipeline(StandardScaler(), SVMPlusClassifier(own_C=10, tol=1e-9))
    grid = {"svmplusclassifier__C": [0.1, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y, privileged=A)  # a miss would warn
    Z = StandardScaler().fit_transform(X)
    best = SVMPlusClassifier(search.best_params_["svmplusclassifier__C"], own_C=10, tol=1e-9)
    expected = best.fit(Z, y, privileged=A).decision_function(Z)
    np.testing.assert_allclose(search.decision_function(X), expected)
    assert cross_val_score(pipeline, X, y, cv=3, params={"privileged": A}).shape == (3,)


def test_prediction_takes_no_privileged():
    X, y, A = problem()
    model = SVMPlusClassifier(own_C=10).fit(X, y, privileged=A)
    for method in (model.predict, model.decision_function):
        with pytest.raises(TypeError, match="privileged"):
            method(X, privileged=A)


def test_no_privileged_warns():
    X, y, _ = problem()
    with pytest.warns(UserWarning, match="no `privileged` information") as caught:
        SVMPlusClassifier().fit(X, y)
    assert caught[0].filename == __file__


def test_too_few_iterations_warn_and_tell_the_gap():
    X, y, A = problem()
    with pytest.warns(ConvergenceWarning, match="duality gap is .* after 3 iterations"):
        model = SVMPlusClassifier(own_C=10, max_iter=3).fit(X, y, privileged=A)
    assert model.dual_gap_[0] > model.tol
    assert model.n_iter_[0] == 3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "`C`.* 0"),
        ({"privileged_C": -1.0}, "`privileged_C`.* -1.0"),
        ({"own_C": np.nan}, "`own_C`.* nan"),
        ({"max_iter": 0}, "`max_iter`.* 0"),
        ({"kernel": "sigmoid"}, "`kernel`.* linear, .*'sigmoid'"),
        ({"privileged_kernel": "sigmoid"}, "`privileged_kernel`.* 'sigmoid'"),
        ({"gamma": "wide"}, "`gamma`.* 'wide'"),
        ({"privileged_gamma": 0.0}, "`privileged_gamma`.* 0.0"),
        ({"privileged_kernel": lambda a, b: -(a @ b)}, "`privileged_kernel` to be positive semi-definite"),
    ],
)
def test_parameters_that_make_no_sense(parameters, message):
    X, y, A = problem()
    with pytest.raises(ValueError, match=message):
        SVMPlusClassifier(**parameters).fit(X, y, privileged=A)


def test_data_that_make_no_sense():
    X, y, A = problem()
    model = SVMPlusClassifier()
    with pytest.raises(ValueError, match="at least two classes, but got one class"):
        model.fit(X, np.zeros(len(y)), privileged=A)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        model.fit(X, y, privileged=A[1:])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        model.fit(pd.DataFrame(X), y, privileged=pd.DataFrame(A[1:]))
    with pytest.raises(ValueError, match="X and `privileged` to have the same index"):
        model.fit(pd.DataFrame(X), y, privileged=pd.DataFrame(A)[::-1])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 1, np.nan, X), y, privileged=A)
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, X[:, 0], privileged=A)
