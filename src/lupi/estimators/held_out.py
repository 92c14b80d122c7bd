"""Held-out data for the history and early stopping: a part of the examples, or a separate data set."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from sklearn.base import is_classifier

from lupi.data import Annotations
from lupi.estimators import arguments
from lupi.methods.base import Method
from lupi.settings import Settings
from lupi.tabular.containers import as_pandas


def hold_out(data: Annotations, fraction: float, seed: int) -> tuple[Annotations, Annotations]:
    """Split off a fraction of the examples, each with all of its labels."""
    examples = data.examples
    count = round(examples * fraction)
    if not 0 < count < examples:
        raise ValueError(
            f"Expected `validation_fraction` to hold out examples, but {fraction} of {examples} is {count}."
        )
    order = torch.randperm(examples, generator=torch.Generator().manual_seed(seed))
    held = torch.isin(data.row, order[:count])
    return data.take((~held).nonzero().squeeze(1)), data.take(held.nonzero().squeeze(1))


def encode_eval_set(model: Any, eval_set: Any, width: int) -> Annotations:
    """Encode held-out data, (X, y) or (X, y, privileged), with the fitted encoders of an estimator.

    `width` is the number of privileged features; they are zero if none are given.
    """
    if not isinstance(eval_set, Sequence) or isinstance(eval_set, str) or len(eval_set) not in (2, 3):
        got = f"{len(eval_set)} values" if isinstance(eval_set, Sequence) else type(eval_set).__name__
        raise ValueError(f"Expected `eval_set` to be (X, y) or (X, y, privileged), but got {got}.")
    inputs, y = model._check_inputs(eval_set[0], reset=False), arguments.read_targets(eval_set[1])
    if len(y) != len(inputs):
        raise ValueError(f"Expected `eval_set` to have {len(inputs)} labels as its X has rows, but got {len(y)}.")
    labelled = arguments.find_labelled(y, classes=is_classifier(model))
    rows, x = torch.from_numpy(labelled).nonzero().squeeze(1), model._encode_inputs(inputs)
    a = torch.zeros(len(y), width)
    if len(eval_set) == 3:
        a = model._encode_privileged(as_pandas(eval_set[2]), len(y))
    a = a[rows] if isinstance(a, torch.Tensor) else a.take(rows)
    return Annotations(x, rows, a, model._code_targets(y[labelled], "eval_set"))


def stops_by_consensus(method: Method, settings: Settings) -> bool:
    """Return whether a training stops by the consensus of held-out labels."""
    return method.predicts_truth and settings.stops_on_consensus


def check_eval_set(model: Any, eval_set: Any, held_out: Annotations, settings: Settings) -> Annotations:
    """Raise an error if the held-out loss needs privileged information that is not given.

    Returns the held-out data. For a method that stops by the consensus of labels, they are true labels, unless soft.
    """
    method = model.method_
    if stops_by_consensus(method, settings):
        return held_out if getattr(model, "soft", False) else take_as_true(held_out)
    if method.uses_privileged and "marginal" not in method.gradients and len(eval_set) == 2:
        raise ValueError(
            f"Expected `eval_set` to be (X, y, privileged) for method {model.method!r}, whose loss needs privileged "
            "information, but got (X, y)."
        )
    return held_out


def take_as_true(data: Annotations) -> Annotations:
    """Take labels, one per example, as true labels."""
    unknown = torch.nan if data.y.is_floating_point() else -1
    gold = data.y.new_full((data.examples, *data.y.shape[1:]), unknown)
    gold[data.row] = data.y
    return replace(data, gold=gold)
