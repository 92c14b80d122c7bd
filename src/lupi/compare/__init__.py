"""Does privileged information help? Compare methods, baselines and controls over several seeds."""

from lupi.compare.arrays import Task, compare_methods
from lupi.compare.cache import RunFolder, open_run_folder
from lupi.compare.comparison import compare_table
from lupi.compare.engine import Arm, Run, run_arms, to_frame
from lupi.compare.plan import Plan
from lupi.compare.results import Comparison
from lupi.compare.statistics import Difference, difference

__all__ = [
    "Arm",
    "Comparison",
    "Difference",
    "Plan",
    "Run",
    "RunFolder",
    "Task",
    "compare_methods",
    "compare_table",
    "difference",
    "open_run_folder",
    "run_arms",
    "to_frame",
]
