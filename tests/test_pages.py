"""The code and the commands of the pages run, in the order of each page, with few epochs on small tables.

Commands that train for hours, on the pages of results, are parsed.
"""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from PIL import Image

from examples.fine_tuning import save_tiny_text_model
from lupi import PrivilegedClassifier
from lupi.cli import app
from tests.cli.helpers import run
from tests.importers.exports import EXPORTS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
LONG = [*sorted((DOCS / "results").glob("*.md")), *sorted((DOCS / "paper").rglob("*.md"))]
QUICK = {
    "diagnose": ["--epochs", "1", "--batch-size", "1024", "--jobs", "1", "--folds", "2", "--overwrite"],
    "compare": ["--epochs", "1", "--batch-size", "1024", "--jobs", "1", "--seeds", "2", "--methods", "tram"],
    "train": ["--epochs", "1", "--batch-size", "1024", "--overwrite"],
    "predict": ["--overwrite"],
    "export": ["--overwrite"],
    "evaluate": ["--overwrite"],
    "import": ["--overwrite"],
    "demo": ["--epochs", "1", "--jobs", "1", "--seeds", "2", "--annotations", "1", "--methods", "tram"],
}
"""What is added to commands, so that they end soon; the last of equal options counts."""


def read_blocks(page):
    """Return (language, content) of the blocks of code, in their order."""
    return re.findall(r"```(python|sh)\b[^\n]*\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def split_lines(block):
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def make_labels(folder, examples=20):
    """Write the tables that pages speak of, and return what their code takes as given."""
    rng = np.random.default_rng(0)
    inputs = pd.DataFrame({"length": rng.normal(size=examples), "brightness": rng.normal(size=examples)})
    labels = inputs.loc[inputs.index.repeat(3)].reset_index(names="id")
    labels["annotator"] = ["ann", "bob", "eve"] * examples
    labels["seconds"] = rng.gamma(2.0, size=len(labels))
    labels["label"] = (labels["length"] + rng.normal(size=len(labels)) > 0).astype(int)
    labels.to_csv(folder / "labels.csv", index=False)
    labels.rename(columns={"id": "image"}).to_csv(folder / "annotations.csv", index=False)
    inputs.to_parquet(folder / "new.parquet")
    A = labels[["annotator", "seconds"]]
    X, y, ids = labels[["length", "brightness"]], labels["label"], labels["id"]
    return {"PrivilegedClassifier": PrivilegedClassifier, "X": X, "y": y, "A": A, "ids": ids}


def make_importing(folder):
    EXPORTS["label-studio"](folder)
    pd.DataFrame({"text": ["this film is lovely", "what an awful film"]}).to_csv(folder / "new.csv", index=False)
    return {"model": PrivilegedClassifier("tram", epochs=1)}


def make_trusting(folder):
    make_labels(folder)
    labels = pd.read_csv(folder / "labels.csv").rename(columns={"id": "example"})
    labels.drop(columns="seconds").to_csv(folder / "labels.csv", index=False)
    checked = labels.drop(columns="seconds").replace({"annotator": {"eve": "expert"}})
    truth = (checked["length"] > 0).astype(int).where(checked["example"] < 5)
    checked.assign(truth=truth).to_csv(folder / "checked.csv", index=False)
    p = np.random.default_rng(0).uniform(0.2, 0.8, len(labels))
    np.save(folder / "p.npy", np.stack([1 - p, p], axis=1))
    return {}


def make_judged(folder):
    rng = np.random.default_rng(1)
    gold = pd.DataFrame({"length": rng.normal(size=30), "overlap": rng.normal(size=30)})
    gold["label"] = np.where(gold["overlap"] > 0, "good", "bad")
    gold.to_csv(folder / "gold.csv", index=False)
    return {}


def make_tensors(folder):  # noqa: ARG001
    row = torch.arange(40) // 2
    return {"x": torch.randn(20, 30), "row": row, "a": torch.randn(40, 20), "y": torch.randint(10, (40,))}


def make_texts(folder):
    pytest.importorskip("transformers", reason="needs the extra `text`")
    rows = np.arange(24)
    return {
        "encoder": save_tiny_text_model(folder / "encoder"),
        "texts": [("a good cast", "a bad cast")[row // 2 % 2] for row in rows],
        "y": rows // 2 % 2,
        "A": pd.DataFrame({"annotator": ["ann", "bob"] * 12}),
        "ids": rows // 2,
    }


def make_vectors(folder):
    rng = np.random.default_rng(0)
    labels = pd.DataFrame({"embedding": list(rng.normal(size=(40, 4))), "annotator": ["ann", "bob"] * 20})
    labels.assign(label=rng.integers(2, size=40)).to_parquet(folder / "labels.parquet")
    names = [f"{i}.png" for i in range(40)]
    for name in names:
        Image.fromarray(rng.integers(256, size=(8, 8, 3), dtype=np.uint8)).save(folder / name)
    photos = pd.DataFrame({"photo": names, "annotator": ["ann", "bob"] * 20, "label": rng.integers(2, size=40)})
    photos.to_csv(folder / "photos.csv", index=False)
    return {}


GIVEN = {
    "README.md": make_labels,
    "index.md": make_labels,
    "choosing.md": make_labels,
    "compare.md": make_labels,
    "diagnose.md": make_labels,
    "serving.md": make_labels,
    "torch.md": make_tensors,
    "train.md": make_labels,
    "importing.md": make_importing,
    "trusting-annotators.md": make_trusting,
    "llm-judges.md": make_judged,
    "methods.md": make_tensors,
    "fine-tuning.md": make_texts,
    "images-and-vectors.md": make_vectors,
}


@pytest.mark.parametrize("page", [page for page in PAGES if read_blocks(page)], ids=lambda page: page.name)
def test_the_code_and_the_commands_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = GIVEN.get(page.name, lambda folder: {})(tmp_path)  # noqa: ARG005
    capsys.readouterr()  # what transformers says of itself
    for language, block in read_blocks(page):
        if language == "python":
            exec(compile(block, page, "exec"), names)
            assert not capsys.readouterr().err
            continue
        for line in split_lines(block):
            program, command, *arguments = shlex.split(line, comments=True)
            if program != "lupi":
                assert program in ("pip", "make")  # which build the environment of the tests
                continue
            result = run(command, *arguments, *QUICK.get(command, []))
            assert result.exit_code == 0, f"{line}\n{result.output}"


def find_commands(page):
    """Return the commands in a text, whole ones only: in blocks and in backticks, with a table, a folder or options."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(r"^(?: {4}|)(lupi [a-z].*)$", text, re.M) + re.findall(r"`(lupi [a-z][^`]*)`", text)
    whole = [shlex.split(line, comments=True) for line in found if "…" not in line]
    return [line for line in whole if {"-o", "--output", "--list"} & set(line)]


@pytest.mark.parametrize(
    ("page", "command"), [(page, line) for page in (*PAGES, *LONG) for line in find_commands(page)]
)
def test_a_command_parses(page, command):  # noqa: ARG001 - the page is in the name of the test
    _, name, *arguments = command
    typer.main.get_command(app).get_command(None, name).make_context(name, arguments)


@pytest.mark.parametrize("page", [*PAGES, *LONG], ids=lambda page: page.name)
def test_programs_that_a_page_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"python ((?:examples|docs)/[\w./]+\.py)", text):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"python -m ((?:benchmarks|tests)[\w.]*)", text):
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name
