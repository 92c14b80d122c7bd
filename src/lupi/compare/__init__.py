"""Does privileged information help? Compare methods, baselines and controls over several seeds."""

from lupi.compare.arrays import Task, compare_methods
from lupi.compare.comparison import compare_table
from lupi.compare.engine import Arm, Run, run_arms
from lupi.compare.page import comparison_page
from lupi.compare.plan import Plan
from lupi.compare.results import Comparison, conclude, format_table, write_results
from lupi.compare.statistics import Difference, Uncertainty, difference, summarize

__all__ = [
    "Arm",
    "Comparison",
    "Difference",
    "Plan",
    "Run",
    "Task",
    "Uncertainty",
    "compare_methods",
    "compare_table",
    "comparison_page",
    "conclude",
    "difference",
    "format_table",
    "run_arms",
    "summarize",
    "write_results",
]
