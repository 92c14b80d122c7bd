"""Data flows one way: a room imports only from rooms above it, and modules of a room import no cycle."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
import torch

import lupi
import lupi_paper

ORDER = [
    "_internal",
    ("data", "likelihoods", "metrics", "settings"),
    "datasets",
    "tabular",
    "importers",
    "crowd",
    "nn",
    "methods",
    "training",
    "testing",
    "estimators",
    "report",
    "serving",
    "compare",
    "diagnose",
    "cli",
]
PLACE = {name: place for place, names in enumerate(ORDER) for name in ((names,) if isinstance(names, str) else names)}
SOURCE = Path(lupi.__file__).parent
KERNELS = "lupi_paper.mobilenet.kernels"
"""Needs Triton, which only a machine with a GPU has."""


def room_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def modules_of(package):
    folder = Path(package.__file__).parent
    parts = {path: (package.__name__, *path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")}
    return {".".join(names).removesuffix(".__init__"): path for path, names in parts.items()}


LIBRARY, PAPER = modules_of(lupi), modules_of(lupi_paper)
MODULES = LIBRARY | PAPER


def imports_of(path):
    """Modules of both packages that a module imports, `from lupi.room import module` included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                if name in MODULES:
                    yield name
                elif node.module in MODULES and node.module != "lupi":
                    yield node.module


def test_every_room_has_its_place():
    assert {room_of(path) for path in LIBRARY.values()} - {"__init__", "__main__"} == set(PLACE)


def test_rooms_import_only_from_rooms_above():
    wrong, seen = [], 0
    for module, path in LIBRARY.items():
        if room_of(path) in ("__init__", "__main__"):
            continue  # the front doors
        for name in imports_of(path):
            seen += 1
            if name in PAPER:
                if room_of(path) != "cli":
                    wrong.append(f"{module} imports {name}")
            elif PLACE[name.split(".")[1]] > PLACE[room_of(path)]:
                wrong.append(f"{module} imports {name}")
    assert not wrong
    assert seen > 50


def test_modules_of_a_room_import_no_cycle():
    graph = {module: {name for name in imports_of(path) if name != module} for module, path in MODULES.items()}
    graph = {module: names for module, names in graph.items() if not MODULES[module].name.startswith("__")}
    TopologicalSorter({module: names & graph.keys() for module, names in graph.items()}).prepare()


def test_the_paper_imports_only_public_names():
    public = {"lupi": {*dir(lupi)}}
    public |= {f"lupi.{room}": set(import_module(f"lupi.{room}").__all__) for room in lupi._ROOMS}
    wrong, seen = [], 0
    for module, path in PAPER.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                wrong += [f"{module} imports {alias.name}" for alias in node.names if alias.name.startswith("lupi.")]
            elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "lupi":
                names = {alias.name for alias in node.names}
                seen += len(names)
                private = names - public.get(node.module, set())
                wrong += [f"{module} imports {name} of {node.module}" for name in sorted(private)]
    assert not wrong
    assert seen > 50


def output_of(program, *arguments):
    path = Path(__file__).parent / "programs" / program
    return subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_optional_packages_wait_until_they_are_needed():
    assert output_of("import_estimators.py") == "[]"


@pytest.mark.skipif(torch.__version__ < "2.7", reason="torch 2.6 imports sympy itself")
def test_loading_a_model_imports_no_compiler(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    for method in ("tram", "het-tram", "pi-transition", "full-marginalization", "auto"):  # they draw or fill buffers
        lupi.PrivilegedClassifier(method, epochs=1, random_state=0).fit(x, y, privileged=x).save(tmp_path / method)
    assert output_of("load_models.py", *tmp_path.iterdir()) == "[]"


def test_rooms_are_attributes_of_the_package():
    assert output_of("reach_rooms.py") == "no-pi fit load True"


def test_every_module_is_an_attribute_of_its_package():
    """No function or class of a package hides a module."""
    for name in MODULES.keys() - {"lupi", "lupi.__main__", "lupi_paper", KERNELS}:
        module = import_module(name)
        package, _, rest = name.partition(".")
        assert attrgetter(rest)(import_module(package)) is module, name
