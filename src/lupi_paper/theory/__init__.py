"""The theory of the paper: the risks of the linear model, and the information of its synthetic process.

It contains closed forms and simulations that check them. Nothing here trains a network.
"""

from lupi_paper.theory.information import binned_information, draw_synthetic, exact_information, plug_in_information
from lupi_paper.theory.risk import LinearModel, conditions, risks, simulate

__all__ = [
    "LinearModel",
    "binned_information",
    "conditions",
    "draw_synthetic",
    "exact_information",
    "plug_in_information",
    "risks",
    "simulate",
]
