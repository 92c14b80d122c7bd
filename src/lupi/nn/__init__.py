"""The parts of networks: trunks, towers and heads, and `Parts`, which makes them for a method."""

from lupi._internal.inputs import use_workers
from lupi._internal.pretrained import pretrained, resnet, token_ids
from lupi.nn.heads import heteroscedastic_head
from lupi.nn.inference import over_annotations, over_examples
from lupi.nn.pairwise import Pairwise, extract_reward
from lupi.nn.parts import MLP, Parts, Projected, Tower

__all__ = [
    "MLP",
    "Pairwise",
    "Parts",
    "Projected",
    "Tower",
    "extract_reward",
    "heteroscedastic_head",
    "over_annotations",
    "over_examples",
    "pretrained",
    "resnet",
    "token_ids",
    "use_workers",
]
