"""The theory of the paper: the risks of the linear model, and the information of its synthetic process.

It contains closed forms and simulations that check them. Nothing here trains a network.
"""

from lupi_paper.theory.information import binned_information, draw_synthetic, exact_information, plug_in_information
from lupi_paper.theory.risk import (
    Condition,
    Estimate,
    LinearModel,
    Simulation,
    conditions,
    estimate_model,
    risks,
    simulate,
)

__all__ = [
    "Condition",
    "Estimate",
    "LinearModel",
    "Simulation",
    "binned_information",
    "conditions",
    "draw_synthetic",
    "estimate_model",
    "exact_information",
    "plug_in_information",
    "risks",
    "simulate",
]
