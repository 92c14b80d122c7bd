"""The checks of a diagnosis, in the order in which their findings are shown: what to do first, and nats last."""

from lupi.diagnose.base import Check
from lupi.diagnose.checks.agreement import Agreement, Disagreement
from lupi.diagnose.checks.annotators import Annotators, Confusion, Grades
from lupi.diagnose.checks.balance import Balance
from lupi.diagnose.checks.bias import Bias
from lupi.diagnose.checks.columns import Information, Leaks
from lupi.diagnose.checks.judges import Judges
from lupi.diagnose.checks.labels import Consensus, Labels
from lupi.diagnose.checks.next import Next
from lupi.diagnose.checks.periods import Periods
from lupi.diagnose.checks.scores import Scores

CHECKS: list[Check] = [
    Leaks(),
    Labels(),
    Annotators(),
    Grades(),
    Consensus(),
    Next(),
    Judges(),
    Bias(),
    Disagreement(),
    Agreement(),
    Confusion(),
    Balance(),
    Periods(),
    Scores(),
    Information(),
]
