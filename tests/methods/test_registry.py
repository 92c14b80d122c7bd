import pytest

from lupi import methods, testing
from lupi.likelihoods import Categorical

PARTS = testing.make_parts(Categorical())


def test_names_are_the_contract():
    assert methods.names() == [
        "no-pi",
        "zero-imputation",
        "mean-imputation",
        "full-marginalization",
        "heteroscedastic-dropout",
        "tram",
        "two-step-tram",
        "het-tram",
        "distillation",
        "generalized-distillation",
        "distilled-tram",
        "miml-fcn-plus",
        "tram-plus-plus",
        "pi-dual",
        "pi-transition",
    ]


@pytest.mark.parametrize("name", methods.names())
def test_a_name_builds_its_kind(name):
    assert type(methods.build(name, PARTS)) is methods.kind(name)


def test_unknown_method_and_option():
    with pytest.raises(ValueError, match=r"Expected `method` to be one of no-pi, .*, but got 'trma'\."):
        methods.build("trma", PARTS)
    with pytest.raises(ValueError, match=r"Expected 'tram' to take the options beta, but got 'gamma'\."):
        methods.build("tram", PARTS, gamma=1)
    with pytest.raises(ValueError, match=r"Expected no options for 'no-pi', but got 'beta'\."):
        methods.build("no-pi", PARTS, beta=1)


def test_who_ships_values_of_a():
    ships = {name for name in methods.names() if methods.kind(name).ships_privileged}
    assert ships == {"mean-imputation", "full-marginalization"}
    blind = {name for name in methods.names() if not methods.kind(name).uses_privileged}
    assert blind == {"no-pi", "distillation"}


@pytest.mark.parametrize(
    ("name", "option", "value", "expected"),
    [
        ("full-marginalization", "samples", 0, "an integer of at least 1"),
        ("heteroscedastic-dropout", "penalty", -1, "a number of at least 0"),
        ("tram", "beta", "x", "a number of at least 0"),
        ("het-tram", "samples", 0, "an integer of at least 1"),
        ("het-tram", "factors", -1, "an integer of at least 0"),
        ("het-tram", "temperature", 0, "a number greater than 0"),
        ("distillation", "weight", 7, "a number from 0 to 1"),
        ("generalized-distillation", "weight", None, "a number from 0 to 1"),
        ("distilled-tram", "temperature", -2, "a number greater than 0"),
        ("miml-fcn-plus", "weight", float("nan"), "a number of at least 0"),
        ("tram-plus-plus", "random", -1, "an integer of at least 0"),
        ("pi-dual", "random", 1.5, "an integer of at least 0"),
        ("pi-transition", "random", -1, "an integer of at least 0"),
    ],
)
def test_bad_values_of_options(name, option, value, expected):
    with pytest.raises(ValueError, match=f"^Expected `{option}` to be {expected}, but got {value!r}.$"):
        methods.build(name, PARTS, **{option: value})
