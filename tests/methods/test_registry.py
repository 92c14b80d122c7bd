import inspect
import re
from pathlib import Path

import pytest

from lupi import methods, testing
from lupi.likelihoods import Categorical
from lupi.methods.registry import METHODS

PARTS = testing.make_parts(Categorical())


def test_names_are_the_contract():
    assert methods.names() == [
        "no-pi",
        "majority-vote",
        "dawid-skene",
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
        "crowd-layer",
        "geo-crowd-net",
        "annot-mix",
        "label-posterior",
        "auto",
        "stack",
    ]


@pytest.mark.parametrize("name", methods.names())
def test_a_name_builds_its_class(name):
    assert type(methods.build(name, PARTS)) is methods.kind(name)


def test_unknown_methods_and_options_are_refused():
    with pytest.raises(ValueError, match=r"`method` .*no-pi, .*'trma'"):
        methods.build("trma", PARTS)
    with pytest.raises(ValueError, match=r"'tram' .*beta.*'gamma'"):
        methods.build("tram", PARTS, gamma=1)
    with pytest.raises(ValueError, match=r"no options .*'no-pi'.*'beta'"):
        methods.build("no-pi", PARTS, beta=1)


@pytest.mark.parametrize("name", ["tram", "no_pi", "pi_dual", "distillation"])
def test_modules_are_not_shadowed_by_functions(name):
    assert inspect.ismodule(getattr(methods, name))


def test_the_documentation_lists_every_option_with_its_default():
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    table = page.split("| option |")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name.strip(" `"): options.strip() for name, _, _, options in rows}
    expected = {}
    for name, builder in METHODS.items():
        options = list(inspect.signature(builder).parameters.values())[1:]
        expected[name] = ", ".join(f"`{option.name}={option.default!r}`".replace("'", '"') for option in options)
    assert documented == expected


def test_which_methods_use_and_ship_privileged_information():
    ships = {name for name in methods.names() if methods.kind(name).ships_privileged}
    assert ships == {"mean-imputation", "full-marginalization", "stack"}
    blind = {name for name in methods.names() if not methods.kind(name).uses_privileged}
    assert blind == {"no-pi", "majority-vote", "distillation"}


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("full-marginalization", "samples", 0),
        ("heteroscedastic-dropout", "penalty", -1),
        ("tram", "beta", "x"),
        ("het-tram", "samples", 0),
        ("het-tram", "factors", -1),
        ("het-tram", "temperature", 0),
        ("het-tram", "heads", "none"),
        ("distillation", "weight", 7),
        ("generalized-distillation", "weight", None),
        ("distilled-tram", "temperature", -2),
        ("miml-fcn-plus", "weight", float("nan")),
        ("tram-plus-plus", "random", -1),
        ("pi-dual", "random", 1.5),
        ("pi-transition", "random", -1),
        ("pi-transition", "diagonal", 1),
        ("geo-crowd-net", "penalty", -1),
        ("annot-mix", "diagonal", 0),
    ],
)
def test_invalid_values_of_options_are_refused(name, option, value):
    with pytest.raises(ValueError, match=f"`{option}` .*{value!r}"):
        methods.build(name, PARTS, **{option: value})


def test_every_method_has_a_class_with_its_name_and_title():
    for name in methods.names():
        assert methods.kind(name).name == name
        assert methods.kind(name).title
        assert "name" in vars(methods.kind(name)), "the class of another method"
        assert methods.kind(name).uses_privileged or not methods.kind(name).needs_privileged
