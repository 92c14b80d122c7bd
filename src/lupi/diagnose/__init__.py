"""Diagnose whether privileged information is useful, which annotators are unreliable and which labels are wrong.

`diagnose` takes arrays, and `diagnose_table` takes a file. `estimate_information` measures how informative privileged
information is about the label beyond the inputs. `predict_out_of_fold` makes the predictions that `lupi.crowd.infer`
needs, and `rank_labels` turns its result into a table.
"""

from lupi.diagnose.diagnosis import diagnose
from lupi.diagnose.findings import Diagnosis
from lupi.diagnose.information import Information, estimate_information
from lupi.diagnose.page import diagnosis_page
from lupi.diagnose.predictions import predict_out_of_fold
from lupi.diagnose.problem import Problem
from lupi.diagnose.rankings import rank_labels
from lupi.diagnose.summary import format_diagnosis
from lupi.diagnose.table import diagnose_table

__all__ = [
    "Diagnosis",
    "Information",
    "Problem",
    "diagnose",
    "diagnose_table",
    "diagnosis_page",
    "estimate_information",
    "format_diagnosis",
    "predict_out_of_fold",
    "rank_labels",
]
