import pandas as pd
import pytest

from lupi_paper.experiments import synthetic_regression as regression
from lupi_paper.experiments.noise_sweep import PUBLISHED, SHOWN, Settings, report, run

SMALL = Settings(seeds=2, n=200, epochs=1, noise=(0.1, 2.0))


def test_a_level_is_the_regression_at_that_noise():
    found = run(SMALL, progress=False)
    expected = regression.run(regression.Settings(seeds=2, n=200, epochs=1, noise=2.0, long=1), progress=False).table
    for variant in ("no PI", "PI", "zeros"):
        table = found.table[(found.table["noise"] == 2.0) & (found.table["variant"] == variant)]
        assert table["mse"].tolist() == expected.loc[expected["variant"] == variant, "mse"].tolist()
    pd.testing.assert_frame_equal(run(SMALL, progress=False).table, found.table, check_exact=True)
    assert "| 0.1 | 0.400 |" in found.text
    assert "| 2 | 0.013 |" in found.text
    assert set(found.figures) == {"fits", "error"}


def test_it_says_where_it_is_not_the_papers():
    levels = Settings(seeds=2)
    mse = {(noise, name): PUBLISHED[noise].get(name, 0.08) for noise in levels.noise for name in SHOWN}
    runs = [(noise, name, seed, mse[noise, name], 0.1) for noise, name in mse for seed in range(2)]
    table = pd.DataFrame(runs, columns=["noise", "variant", "seed", "mse", "rmse"])
    assert "within a factor of three" in report(table, levels)
    table.loc[(table["noise"] == 0.5) & (table["variant"] == "PI"), "mse"] = 0.01
    assert "at ε = 0.5: here" in report(table, levels)


def test_other_settings_are_refused():
    with pytest.raises(ValueError, match=r"^Expected `noise` to be a number greater than 0, but got 0\.0\.$"):
        Settings(noise=(0.1, 0.0))
