"""What the labels alone, or with a model's predictions, say about truth and annotators.

`infer` estimates the true labels and how reliable labels are without seeing a true label, `summarize_annotators` ranks
the annotators, `stack_weights` weighs several models, and `dawid_skene`, `majority_vote` and `pairwise_agreement` are
the simple counterparts. This package needs only numpy and scipy: nothing in it trains.
"""

from lupi.crowd.agreement import count_labels, majority_vote, pairwise_agreement
from lupi.crowd.annotators import sample_reliability, summarize_annotators
from lupi.crowd.confusions import dawid_skene
from lupi.crowd.inference import Inference, infer, infer_votes
from lupi.crowd.stacking import stack_weights
from lupi.crowd.tempering import choose_exponent
from lupi.crowd.votes import Votes

__all__ = [
    "Inference",
    "Votes",
    "choose_exponent",
    "count_labels",
    "dawid_skene",
    "infer",
    "infer_votes",
    "majority_vote",
    "pairwise_agreement",
    "sample_reliability",
    "stack_weights",
    "summarize_annotators",
]
