"""Score fitted estimators on true labels or, through a model of the annotators, on noisy ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils.metadata_routing import MetadataRequest

from lupi.crowd import infer
from lupi.estimators import fit_arguments
from lupi.estimators.classifier import PrivilegedClassifier
from lupi.estimators.regressor import PrivilegedRegressor
from lupi.metrics import Normal, Posterior
from lupi.tabular.frames import as_frame
from lupi.tabular.targets import code_gold

MIN_PROBABILITY = 1e-6
"""Lower bound of predicted probabilities, as in the model of the annotators."""


@dataclass(frozen=True)
class LabelLikelihood:
    """Scorer of classifiers for scikit-learn's searches: the log-likelihood of held-out noisy labels.

    On noisy labels, accuracy prefers a model that predicts the noise to one that predicts the truth. Here a model of
    the annotators (`lupi.crowd.infer`), fitted to the held-out labels, says how probable the labels of an example are
    given each true label, and the score is the mean over examples of log Σ_z p(z | x) P(labels | z). Where the true
    label is known, only its term counts. Higher is better.

    Searches pass `privileged`, `example` and `gold` to the scorer if metadata routing is on, as below. Labels of one
    example belong into one fold, so use a splitter such as `GroupKFold`. The likelihood cannot tell who is right if
    two groups of annotators contradict each other consistently; some true labels can.

    Parameters
    ----------
    annotator : str or int, optional
        Column of `privileged` with the annotator of each label; by default found by its name, as in
        `PrivilegedClassifier`.

    Examples
    --------
    Of ten labels, six are from two people who always answer "yes".

    >>> import sklearn
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> from lupi import PrivilegedClassifier
    >>> rng = np.random.default_rng(0)
    >>> ids, who = np.arange(150).repeat(3), rng.choice(list("abcdef"), 450, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
    >>> X = rng.normal(size=(150, 2))[ids]
    >>> truth = np.where(X[:, 0] > 0, "yes", "no")
    >>> y = np.where(np.isin(who, ["a", "b"]), "yes", truth)
    >>> models = {"method": ["no-pi", "dawid-skene"]}
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     for scoring in ("accuracy", LabelLikelihood()):
    ...         model = PrivilegedClassifier(epochs=20, random_state=0)
    ...         search = GridSearchCV(model, models, scoring=scoring, cv=GroupKFold(2))
    ...         search = search.fit(X, y, privileged=pd.DataFrame({"annotator": who}), example=ids, groups=ids)
    ...         print(search.best_params_["method"], (search.predict(X) == truth).mean() > 0.9)
    no-pi False
    dawid-skene True
    """

    annotator: str | int | None = None

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask for metadata, as scikit-learn's searches expect."""
        request = MetadataRequest(owner=type(self).__name__)
        for name in ("privileged", "example", "gold"):
            request.score.add_request(param=name, alias=True)
        return request

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, privileged: Any = None, example: Any = None, gold: Any = None
    ) -> float:
        """Return the mean log-likelihood of the labels of an example."""
        if privileged is None:
            raise ValueError(
                "Expected `privileged` to say who gave the labels, but got None: a search passes it on after "
                "`sklearn.set_config(enable_metadata_routing=True)`."
            )
        who = fit_arguments.find_annotators(as_frame(privileged), self.annotator, {})
        if who is None:
            raise ValueError("Expected `privileged` to have a column of annotators: name it in `annotator`.")
        y = fit_arguments.read_targets(y)
        if y.ndim != 1:
            raise ValueError(f"Expected y to be one class per label, but got shape {list(y.shape)}.")
        kept = fit_arguments.find_labelled(y, classes=True)
        p, classes = estimator.predict_proba(X)[kept], pd.Index(estimator.classes_)
        new = pd.Index(y[kept]).unique().difference(classes)  # classes that the training rows lack
        p, classes = np.pad(p, [(0, 0), (0, len(new))]), classes.append(new)
        group = pd.factorize(np.arange(len(y)) if example is None else np.asarray(example))[0][kept]
        group, first = pd.factorize(group)[0], np.unique(pd.factorize(group)[0], return_index=True)[1]
        true = None if gold is None else np.nan_to_num(code_gold(gold, classes)[kept], nan=-1)
        found = infer(p, classes.get_indexer(y[kept]), example=group, annotator=np.asarray(who)[kept], gold=true)
        joint = np.log(p[first].clip(MIN_PROBABILITY)) + found.evidence
        total = logsumexp(joint, axis=1)
        if true is not None:
            of_example = pd.Series(true).groupby(group).max().to_numpy(int)
            known = np.flatnonzero(of_example >= 0)
            total[known] = joint[known, of_example[known]]
        return float(total.mean())


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
