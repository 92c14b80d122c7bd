import pandas as pd

from lupi.compare import summarize
from lupi.reproduce.demo import format_summary


def test_the_table_shows_what_the_summary_holds():
    runs = pd.DataFrame(
        {
            "method": ["no-pi", "no-pi", "tram", "tram"],
            "seed": [0, 1, 0, 1],
            "nll": [1.0, 2.0, 0.5, 1.0],
            "accuracy": [0.5, 0.6, 0.6, 0.8],
            "seconds": [1.0, 3.0, 1.0, 1.0],
        }
    )
    lines = format_summary(summarize(runs)).splitlines()
    assert lines[1].split() == ["no-pi", "1.500±0.707", "55.0±7.1", "2.0"]
    assert lines[2].split() == ["tram", "0.750±0.354", "-0.750±0.250", "70.0±14.1", "+15.0±5.0", "1.0"]
    assert len({len(line) for line in lines}) == 1
