"""Diagnose whether privileged information is useful, which annotators are unreliable and which labels are wrong.

`diagnose` runs the checks of `lupi.diagnose.checks` on a `Problem`, which is made from arrays or, by
`Problem.from_table`, from a file. `estimate_information` measures how informative privileged information is about the
label beyond the inputs. `predict_out_of_fold` makes the predictions that `lupi.crowd.infer` needs.
"""

from lupi.diagnose.base import Check, Finding
from lupi.diagnose.diagnosis import Diagnosis, diagnose
from lupi.diagnose.information import estimate_information
from lupi.diagnose.out_of_fold import predict_out_of_fold
from lupi.diagnose.problem import Problem

__all__ = ["Check", "Diagnosis", "Finding", "Problem", "diagnose", "estimate_information", "predict_out_of_fold"]
