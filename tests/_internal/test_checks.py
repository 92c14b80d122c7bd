import math

import numpy as np
import pytest

from lupi._internal.checks import check_integer, check_number, check_positive


def test_numbers_come_back_as_pythons_own():
    assert [type(f("n", v)) for f, v in ((check_number, np.float32(1)), (check_positive, np.int64(2)))] == [
        float,
        float,
    ]
    assert type(check_integer("n", np.int64(3), 1)) is int
    assert (check_integer("n", 0, 0), check_number("n", 0), check_number("n", 1, maximum=1)) == (0, 0.0, 1.0)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", None, True, 1.5])
def test_what_is_refused(value):
    if value != 1.5:
        for check, what in ((check_number, "of at least 0"), (check_positive, "greater than 0")):
            with pytest.raises(ValueError, match=f"^Expected `n` to be a number {what}, but got {value!r}.$"):
                check("n", value)
    with pytest.raises(ValueError, match=f"^Expected `n` to be an integer of at least 0, but got {value!r}.$"):
        check_integer("n", value, 0)
    with pytest.raises(ValueError, match=f"^Expected `n` to be a number from 0 to 1, but got {value!r}.$"):
        check_number("n", value, maximum=1)


def test_zero_is_not_positive():
    with pytest.raises(ValueError, match="greater than 0, but got 0"):
        check_positive("n", 0)


def test_an_integer_may_be_too_large():
    with pytest.raises(ValueError, match=r"^Expected `n` to be an integer from 1 to 9, but got 10.$"):
        check_integer("n", 10, 1, maximum=9)
    with pytest.raises(ValueError, match=r"^Expected `n` to be an integer from 1 to 9223372036854775807, but got"):
        check_integer("n", 10**20, 1)
