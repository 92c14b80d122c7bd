"""Numbers and dates in another notation are recognized; names, codes and plain numbers are not."""

import datetime

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.tabular.notation import find_notation

AMOUNTS = st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=3, unique=True)
DAYS = st.lists(st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)), min_size=3, unique=True)


def notation(values, name="x"):
    found = find_notation(pd.Series(values, name=name, dtype=object))
    return None if found is None else found.expected


@given(AMOUNTS, st.sampled_from([" kg", "kg", " %", "%", "€", " USD", " m²", " km/h", "°C"]))
def test_units(amounts, unit):
    assert notation([f"{amount}{unit}" for amount in amounts]) == "plain numbers"


@given(AMOUNTS, st.sampled_from(["€", "$ ", "EUR ", "CHF "]))
def test_currencies(amounts, currency):
    assert notation([f"{currency}{amount}" for amount in amounts]) == "plain numbers"


@given(AMOUNTS, st.sampled_from([",.", ".,", "'.", "’.", "\u00a0,", "\u2009,", "\u202f,"]))
def test_thousands_and_decimals(amounts, signs):
    """One large number has a separator, even if the others are small."""
    table = str.maketrans(",.", signs)
    assert notation([f"{amount:,}".translate(table) for amount in [*amounts, 10**10]]) == "plain numbers"


@given(DAYS, st.sampled_from(["%d.%m.%Y", "%m/%d/%Y", "%d-%m-%Y", "%d/%m/%y", "%Y/%m/%d", "%d.%m.%Y %H:%M"]))
def test_dates(days, written):
    distinct = {day.strftime(written) for day in days}
    assert notation(list(distinct)) == ("ISO dates" if len(distinct) > 2 else None)


@given(st.lists(st.text(st.characters(categories=["L", "Zs"])), min_size=1))
def test_names_are_no_numbers(names):
    assert notation(names) is None


@given(st.lists(st.floats(allow_nan=False) | st.integers(), min_size=1))
def test_plain_numbers_need_no_note(numbers):
    assert notation([repr(number) for number in numbers]) is None


@pytest.mark.parametrize(
    "values",
    [
        ["12a", "12b", "13", "14c"],  # numbers of houses
        ["Q1", "Q2", "Q3", "Q4"],
        ["8001 Bern", "3011 Rome", "1000 Oslo"],
        ["1.2.3", "1.2.4", "2.0.0"],
        ["192.168.0.1", "10.0.0.1", "10.0.0.2"],
        ["18-24", "25-34", "35-44"],
        ["2026-01-31", "2026-02-28", "2026-03-31"],  # ISO dates, which are read where the file has types
        ["079 123 45 67", "079 765 43 21", "078 111 22 33"],
        ["550 100 200", "550 100 201", "550 100 202"],
        ["14-85-8488", "15-86-8489", "16-87-8490"],
        ["13-14-2026", "14-15-2026", "15-16-2026"],  # no order is valid
        ["13.12.2026", "12.13.2026", "1.2.2026", "14.12.2026"],  # no order is valid for all
        ["1.2.10", "1.2.11", "1.2.12"],
        ["10-20-30", "11-21-31", "12-22-32"],
        ["100B", "101B", "102B"],
        ["0 Main", "1 Main", "2 Main"],
        ["0th", "1th", "2th"],
        ["1 star", "2 stars", "3 stars"],
        ["12 kg", "7 kg", "unknown", "heavy", "light"],
        ["5 kg", "10 kg"],  # too few to tell
    ],
    ids=lambda values: values[0],
)
def test_codes_are_no_numbers(values):
    assert notation(values) is None


@pytest.mark.parametrize("name", ["annotator", "worker_id"])
def test_annotators_are_no_numbers(name):
    values = ["1 kg", "2 kg", "3 kg"]
    assert notation(values, "weight") == "plain numbers"
    assert notation(values, name) is None


def test_a_few_other_values_and_missing_ones_do_not_matter():
    weights = [f"{i} kg" for i in range(30)]
    assert notation([None, "n.a.", *weights]) == "plain numbers"
    assert find_notation(pd.Series(["?", *weights], dtype="category")).example == "0 kg"
