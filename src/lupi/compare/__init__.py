"""Does privileged information help? Compare methods, baselines and controls over several seeds."""

from lupi.compare.arrays import Task, compare_methods
from lupi.compare.comparison import compare_table
from lupi.compare.engine import Arm, Run, run_arms, to_frame
from lupi.compare.page import comparison_page
from lupi.compare.plan import Plan
from lupi.compare.results import Comparison, format_table, write_results
from lupi.compare.statistics import Difference, Uncertainty, difference, summarize
from lupi.compare.verdict import write_verdict

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
    "difference",
    "format_table",
    "run_arms",
    "summarize",
    "to_frame",
    "write_results",
    "write_verdict",
]
