"""Whether privileged information is worth having, and which annotators and labels are probably wrong.

`diagnose` answers both for arrays, and `diagnose_table` for a file. `estimate_information` measures what privileged
information tells about the label beyond the inputs; `predict_out_of_fold` makes the predictions that `lupi.crowd.infer`
needs, and `rank_annotators` and `rank_labels` turn its result into tables.
"""

from lupi.diagnose.annotators import rank_annotators
from lupi.diagnose.columns import Capacity
from lupi.diagnose.diagnosis import Diagnosis, diagnose
from lupi.diagnose.information import Information, cross_entropy_gap, estimate_information, held_out_losses
from lupi.diagnose.labels import rank_labels
from lupi.diagnose.page import diagnosis_page
from lupi.diagnose.predictions import predict_out_of_fold
from lupi.diagnose.problem import Problem
from lupi.diagnose.summary import format_diagnosis
from lupi.diagnose.table import diagnose_table, write_diagnosis

__all__ = [
    "Capacity",
    "Diagnosis",
    "Information",
    "Problem",
    "cross_entropy_gap",
    "diagnose",
    "diagnose_table",
    "diagnosis_page",
    "estimate_information",
    "format_diagnosis",
    "held_out_losses",
    "predict_out_of_fold",
    "rank_annotators",
    "rank_labels",
    "write_diagnosis",
]
