"""Estimate true labels and the reliability of annotators from labels, with or without the predictions of a model.

`aggregate` takes a table of labels. `infer` estimates the true labels and the reliability of each label without any
true labels, `summarize_annotators` ranks the annotators, and `stack_weights` computes the weights of several models.
`dawid_skene`, `majority_vote`, `pairwise_agreement` and `krippendorff_alpha` are simpler alternatives. Nothing here
trains a network, and everything except `aggregate` needs only numpy and scipy.
"""

from typing import TYPE_CHECKING, Any

from lupi.crowd.agreement import count_labels, krippendorff_alpha, majority_vote, pairwise_agreement
from lupi.crowd.annotators import summarize_annotators
from lupi.crowd.confusions import dawid_skene
from lupi.crowd.inference import Inference, infer, infer_votes
from lupi.crowd.stacking import stack_weights
from lupi.crowd.votes import Votes

if TYPE_CHECKING:
    from lupi.crowd.tables import Aggregation, aggregate

__all__ = [
    "Aggregation",
    "Inference",
    "Votes",
    "aggregate",
    "count_labels",
    "dawid_skene",
    "infer",
    "infer_votes",
    "krippendorff_alpha",
    "majority_vote",
    "pairwise_agreement",
    "stack_weights",
    "summarize_annotators",
]


def __getattr__(name: str) -> Any:
    """Import the names that need pandas when they are first used."""
    if name in ("Aggregation", "aggregate"):
        from lupi.crowd import tables

        return getattr(tables, name)
    raise AttributeError(f"module 'lupi.crowd' has no attribute {name!r}")
