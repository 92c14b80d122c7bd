"""Fit several estimators as one stacked network."""

from collections.abc import Mapping, Sequence
from typing import Any

from lupi.estimators.base import PrivilegedEstimator
from lupi.training import fit_seeds


def fit_together(models: Sequence[PrivilegedEstimator], sets: Sequence[Mapping[str, Any]]) -> None:
    """Fit estimators that differ in their seeds and data, as one stacked network where possible.

    Parameters
    ----------
    models : sequence of estimators
        Estimators that are identical except for `random_state`, on one device and without a checkpoint.
    sets : sequence of mapping
        The arguments of `fit` for each estimator: X, y, privileged, example, sample_weight, gold and eval_set.

    Examples
    --------
    >>> from lupi import PrivilegedClassifier
    >>> from lupi.datasets import load_digits_annotated
    >>> digits = load_digits_annotated()
    >>> one = {"X": digits.X_train, "y": digits.y_train, "privileged": digits.privileged}
    >>> models = [PrivilegedClassifier("tram", epochs=1, random_state=seed) for seed in range(3)]
    >>> fit_together(models, [one] * 3)
    >>> models[2].predict(digits.X_test).shape
    (500,)
    """
    first = models[0]
    for name in ("fabric", "checkpoint", "callbacks"):
        if getattr(first, name) is not None:
            raise ValueError(f"Expected `{name}` to be None for models that train together.")
    prepared = [model._prepare(**one) for model, one in zip(models, sets, strict=True)]
    data, held_out, settings, seeds = zip(*prepared, strict=True)
    histories = fit_seeds(
        [model.method_ for model in models],
        data,
        settings[0],
        validation=held_out,
        seeds=seeds,
        device=first.device,
        progress=bool(first.verbose),
    )
    for model, part, history in zip(models, data, histories, strict=True):
        model.history_ = history
        model._finish(part)
