"""The parts of a network: trunk, tower and heads."""

from lupi.nn.heads import GaussianHead, HeteroscedasticHead, ProbitHead, heteroscedastic
from lupi.nn.parts import Parts
from lupi.nn.towers import Tower
from lupi.nn.trunks import MLP

__all__ = ["MLP", "GaussianHead", "HeteroscedasticHead", "Parts", "ProbitHead", "Tower", "heteroscedastic"]
