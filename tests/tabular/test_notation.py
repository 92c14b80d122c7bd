"""Numbers and dates in another notation are noticed; names, codes and plain numbers are not."""

import pandas as pd
import pytest

from lupi.tabular.recognizing import find_notation


def looks_like_numbers(values, name="x"):
    return find_notation(pd.Series(values, name=name, dtype=object)) is not None


@pytest.mark.parametrize(
    "values",
    [
        ["1,234", "5", "10,000"],
        ["1.500,00", "2.000,00", "3.000,00"],
        ["12 kg", "7.5 kg", None, "80 kg"],
        ["35 %", "40 %", "1%"],
        ["€9.90", "€1.00", "€2.50"],
        ["31.12.2026", "1.1.2026", "2.1.2026"],
        ["12/31/2026", "1/13/2026", "2/1/2026"],
        ["2026/12/31", "2026/1/1", "2026/1/2"],
        ["31.12.2026 10:30", "1.1.2026 9:00", "2.1.2026 17:45"],
        ["n.a.", *(f"{i} kg" for i in range(30))],
    ],
    ids=lambda values: values[0],
)
def test_numbers_and_dates(values):
    assert looks_like_numbers(values)
    assert not looks_like_numbers(values, "worker_id")


@pytest.mark.parametrize(
    "values",
    [
        ["ann", "bob", "eve"],
        ["1", "2.5", "-3e4"],
        ["12a", "12b", "13", "14c"],  # numbers of houses
        ["8001 Bern", "3011 Rome", "1000 Oslo"],
        ["1.2.3", "1.2.4", "2.0.0"],
        ["192.168.0.1", "10.0.0.1", "10.0.0.2"],
        ["18-24", "25-34", "35-44"],
        ["079 123 45 67", "079 765 43 21", "078 111 22 33"],
        ["13.12.2026", "12.13.2026", "1.2.2026", "14.12.2026"],  # no order is valid for all
        ["12 kg", "7 kg", "unknown", "heavy", "light"],
        ["5 kg", "10 kg"],  # too few to tell
    ],
    ids=lambda values: values[0],
)
def test_names_and_codes(values):
    assert not looks_like_numbers(values)
