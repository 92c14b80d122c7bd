import numpy as np
import pandas as pd

from lupi.diagnose import Diagnosis, format_diagnosis


def test_the_summary_begins_with_the_verdict():
    table = pd.DataFrame(
        {
            "column": ["who"],
            "estimate": [0.2],
            "low": [0.1],
            "high": [0.3],
            "share": [np.nan],
            "alone": [0.5],
            "leak": [True],
            "how": "copy",
        }
    )
    found = Diagnosis(notes=["Take care."], information=table, loss=1.0)
    lines = format_diagnosis(found).splitlines()
    assert lines[0] == found.verdict
    assert lines[0].startswith("Remove 'who', which gives the label away. ")
    assert lines[-1] == "Note: Take care."
    assert lines[4].split() == ["who", "0.2000", "0.1000", "0.3000", "–", "50.0", "copy"]
