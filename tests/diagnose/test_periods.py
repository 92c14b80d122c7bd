import numpy as np
import pandas as pd
import pytest

from lupi.diagnose.checks.periods import measure_periods, show_periods


def test_periods_hold_all_labels_with_a_time_in_order():
    rng = np.random.default_rng(0)
    time = pd.Series(pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(rng.permutation(505), "h"))
    right = 1 - time.dt.day_of_year.to_numpy() / 100
    time[:5] = pd.NaT
    table = measure_periods(time, right)
    assert table["labels"].tolist() == [50] * 10
    assert table["start"].is_monotonic_increasing
    assert (table["end"] < table["start"].shift(-1)).iloc[:-1].all()
    assert table["right"].is_monotonic_decreasing
    assert np.average(table["right"], weights=table["labels"]) == pytest.approx(right[5:].mean())
    assert ((table["low"] <= table["right"]) & (table["right"] <= table["high"])).all()


def test_few_labels_or_a_single_time_make_no_periods():
    days = pd.Series(pd.date_range("2024-01-01", periods=39, freq="D"))
    assert measure_periods(days, np.ones(39)) is None
    assert measure_periods(pd.Series([days[0]] * 100), np.ones(100)) is None


def test_the_page_shows_periods():
    days = pd.Series(pd.date_range("2024-01-01", periods=60, freq="D"))
    section = show_periods(measure_periods(days, np.linspace(1, 0, 60)))
    assert section.tables[0].frame["start"].tolist() == ["2024-01-01 00:00", "2024-01-21 00:00", "2024-02-10 00:00"]
