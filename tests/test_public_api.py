"""The public surface is explicit: the API pages document exactly the names in `__all__`."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import lupi

SOURCE = Path(lupi.__file__).parent
PAGES = Path(__file__).parents[1] / "docs" / "api"
PRIVATE = {"_internal", "cli", "__init__", "__main__"}
ROOMS = sorted({path.stem for path in SOURCE.iterdir() if path.suffix in ("", ".py")} - PRIVATE - {"__pycache__"})
PAPER = ["lupi_paper", *(f"lupi_paper.{part}" for part in ("datasets", "mobilenet", "svm_plus", "theory"))]
PACKAGES = [*(f"lupi.{room}" for room in ROOMS if (SOURCE / room).is_dir()), *PAPER]


def public_names():
    """Names in `__all__`; what `lupi` and a room both export is documented once, as a name of `lupi`."""
    names = {f"lupi.{name}" for name in lupi.__all__}
    for room in ROOMS:
        exported = import_module(f"lupi.{room}").__all__
        names |= {f"lupi.{room}.{name}" for name in exported if name not in lupi.__all__}
    return names | {f"{package}.{name}" for package in PAPER for name in import_module(package).__all__}


def test_there_are_few_public_names():
    assert len(public_names()) <= 130


def test_the_api_pages_document_exactly_the_public_names():
    documented = [name for page in PAGES.glob("*.md") for name in re.findall(r"^   (lupi\S+)$", page.read_text(), re.M)]
    assert sorted(documented) == sorted(public_names())


def test_every_page_is_in_the_index_of_the_reference():
    linked = set(re.findall(r"\((\w+\.md)\)", (PAGES / "index.md").read_text()))
    assert linked == {page.name for page in PAGES.glob("*.md")} - {"index.md"}


@pytest.mark.parametrize("room", ROOMS)
def test_import_lupi_reaches_the_room_and_its_names(room):
    module = getattr(lupi, room)
    assert inspect.ismodule(module)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert not missing
    undocumented = [
        name for name in module.__all__ if callable(getattr(module, name)) and not inspect.getdoc(getattr(module, name))
    ]
    assert not undocumented


@pytest.mark.parametrize("name", lupi.__all__)
def test_import_lupi_reaches_the_name(name):
    assert callable(getattr(lupi, name))
    homes = [room for room in ROOMS if name in getattr(lupi, room).__all__]
    assert [getattr(getattr(lupi, room), name) for room in homes] == [getattr(lupi, name)]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_the_name_of_what_its_package_exports(package):
    exported = import_module(package)
    modules = {path.stem for path in Path(exported.__file__).parent.iterdir() if not path.name.startswith("__")}
    assert not modules & set(exported.__all__)


@pytest.mark.parametrize("package", PAPER)
def test_the_names_of_the_paper_are_documented(package):
    module = import_module(package)
    assert module.__doc__
    assert all(inspect.getdoc(getattr(module, name)) for name in module.__all__)


def test_private_rooms_are_not_listed():
    assert not {"_internal", "cli"} & set(dir(lupi))
