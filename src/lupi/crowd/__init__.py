"""Estimate true labels and the reliability of annotators from labels, with or without the predictions of a model.

`aggregate` takes a table of labels, and `estimate_rate` also a few true ones. `infer` estimates the true labels and the
reliability of each label without any true labels, and `summarize_annotators` ranks the annotators. `dawid_skene` and
`majority_vote` are simpler alternatives. Nothing here trains a network, and everything except the first two needs only
numpy and scipy.
"""

from typing import TYPE_CHECKING, Any

from lupi.crowd.agreement import majority_vote
from lupi.crowd.annotators import summarize_annotators
from lupi.crowd.confusions import dawid_skene
from lupi.crowd.inference import Inference, infer
from lupi.crowd.votes import Votes

if TYPE_CHECKING:
    from lupi.crowd.rates import estimate_rate
    from lupi.crowd.tables import Aggregation, aggregate

__all__ = [
    "Aggregation",
    "Inference",
    "Votes",
    "aggregate",
    "dawid_skene",
    "estimate_rate",
    "infer",
    "majority_vote",
    "summarize_annotators",
]


def __getattr__(name: str) -> Any:
    """Import the names that need pandas when they are first used."""
    if name in ("Aggregation", "aggregate", "estimate_rate"):
        from lupi.crowd import rates, tables

        return getattr(rates if name == "estimate_rate" else tables, name)
    raise AttributeError(f"module 'lupi.crowd' has no attribute {name!r}")
