from types import SimpleNamespace

import pandas as pd
import pytest

from lupi.compare.statistics import Difference
from lupi_paper.tables import Claim, Published, check_claim, claims_table, make_comparer, results_table

CASES = [SimpleNamespace(name=name, title=name.upper()) for name in ("no-pi", "tram")]
RUNS = pd.DataFrame(
    {
        "method": ["no-pi"] * 3 + ["tram"] * 3,
        "seed": [0, 1, 2] * 2,
        "nll": [1.0, 1.1, 1.2, 0.8, 0.91, 0.99],
        "accuracy": [0.6, 0.6, 0.6, 0.7, 0.6, 0.65],
    }
)
PAPER = {"no-pi": Published(1.058, 0.05, 67.0, 1.7), "tram": Published(0.98, 0.037, 70.1, 1.4)}


def test_results_stand_beside_the_papers():
    cases = CASES
    assert results_table(RUNS, cases).splitlines()[2:] == [
        "| NO-PI | 1.100 ± 0.100 | 60.0 ± 0.0 |",
        "| TRAM | 0.900 ± 0.095 | 65.0 ± 5.0 |",
    ]
    header, _, *lines = results_table(RUNS, cases, {"tram": PAPER["tram"]}, accuracy_digits=2).splitlines()
    assert header == "| method | NLL | accuracy, % | NLL in the paper | accuracy in the paper, % |"
    assert lines == [
        "| NO-PI | 1.100 ± 0.100 | 60.00 ± 0.00 |  |  |",
        "| TRAM | 0.900 ± 0.095 | 65.00 ± 5.00 | 0.980 ± 0.037 | 70.10 ± 1.40 |",
    ]


def test_claims_are_checked_by_differences_paired_by_seed():
    """Differences −0.20, −0.19, −0.21: mean −0.2, standard error 0.01/√3; Student's t with two degrees is 4.303."""
    cases = CASES
    claims = [Claim("tram", "no-pi"), Claim("no-pi", "tram", par=True)]
    header, _, above, par = claims_table(RUNS, cases, claims).splitlines()
    assert header == "| the paper | difference in NLL | in accuracy, points | here |"
    assert above.startswith(
        "| TRAM above NO-PI | −0.200 [−0.225, −0.175] | +5.0 [−7.4, +17.4] | yes, significantly in NLL |"
    )
    assert par.startswith("| NO-PI on par with TRAM | +0.200 [+0.175, +0.225] |")
    assert par.endswith("| no: significantly worse in NLL |")
    with_paper = claims_table(RUNS, cases, claims, PAPER).splitlines()
    assert with_paper[2].endswith("| −0.078, +3.1 |")
    unknown = claims_table(RUNS, cases, claims, {"tram": PAPER["tram"]}, accuracy_digits=2).splitlines()
    assert "+5.00 [" in unknown[2]
    assert unknown[2].endswith("|  |")
    assert claims_table(RUNS, CASES[:1], claims) == ""  # no rows for these claims
    assert (
        make_comparer(RUNS)("tram", "no-pi") == "−0.200 [−0.225, −0.175] in NLL, +5.0 [−7.4, +17.4] points of accuracy"
    )


SMALL, LARGE = 0.01, 10.0


@pytest.mark.parametrize(
    ("nll", "accuracy", "par", "text"),
    [
        ((-1, SMALL), (1, SMALL), False, "yes, significantly in NLL and accuracy"),
        ((-1, SMALL), (1, LARGE), False, "yes, significantly in NLL"),
        ((-1, LARGE), (1, SMALL), False, "yes, significantly in accuracy"),
        ((-1, LARGE), (1, LARGE), False, "yes, but not significantly"),
        ((1, SMALL), (-1, SMALL), False, "no, significantly worse in NLL and accuracy"),
        ((1, LARGE), (-1, SMALL), False, "no, significantly worse in accuracy"),
        ((1, LARGE), (-1, LARGE), False, "no, but not significantly"),
        ((-1, SMALL), (-1, SMALL), False, "better in NLL, worse in accuracy"),
        ((1, LARGE), (1, SMALL), False, "worse in NLL (not significantly), better in accuracy"),
        ((1, SMALL), (1, LARGE), False, "worse in NLL, better in accuracy (not significantly)"),
        ((1, LARGE), (-1, LARGE), True, "yes"),
        ((-1, SMALL), (1, LARGE), True, "no: significantly better in NLL"),
        ((1, LARGE), (-1, SMALL), True, "no: significantly worse in accuracy"),
        ((1, SMALL), (1, SMALL), True, "no: significantly worse in NLL and better in accuracy"),
    ],
)
def test_a_claim_is_checked_by_both_scores(nll, accuracy, par, text):
    assert check_claim(Difference(*nll, 9), Difference(*accuracy, 9), par=par) == text
