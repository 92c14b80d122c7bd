import json
from dataclasses import dataclass

import pandas as pd
import pytest

from lupi_paper.findings import Findings, make_figure, make_files, markdown_table
from lupi_paper.settings import change_settings


@dataclass(frozen=True)
class Settings:
    seeds: int = 20
    noise: float = 0.5
    levels: tuple[float, ...] = (0.1, 0.5)
    start: str = "glorot"


def test_settings_change_by_text():
    changed = change_settings(Settings(), ["seeds=3", "noise=2", "levels=(0.2, 1.0)", "start=torch"])
    assert changed == Settings(3, 2.0, (0.2, 1.0), "torch")
    assert change_settings(Settings(), []) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed=3", "^Expected a setting among seeds, noise, levels, start, but got 'seed'.$"),
        ("seeds", "^Expected `seeds` to be a value such as 20, but got ''.$"),
        ("seeds=2.5", "^Expected `seeds` to be a value such as 20, but got '2.5'.$"),
        ("seeds=True", "^Expected `seeds` to be a value such as 20, but got 'True'.$"),
        ("noise=__import__('os')", "^Expected `noise` to be a value such as 0.5, but got"),
        ("levels=3", r"^Expected `levels` to be a value such as \(0.1, 0.5\), but got '3'.$"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        change_settings(Settings(), [text])


def test_what_is_written():
    table = pd.DataFrame({"seed": [0, 1], "mse": [0.25, float("nan")]})
    facts = {"command": "lupi reproduce x", "versions": {"lupi": "1"}}

    def write():
        made = {"plot": make_figure(lambda axes: axes[1].plot([0, 1], [1, 0]), 2)}
        return make_files(Findings(table, "# Title\n\n![plot](plot.svg)", made), Settings(), facts)

    files = write()
    assert set(files) == {"results.json", "results.csv", "report.md", "plot.svg"}
    numbers = json.loads(files["results.json"])
    assert numbers["results"] == [{"seed": 0, "mse": 0.25}, {"seed": 1, "mse": None}]
    assert numbers["settings"]["levels"] == [0.1, 0.5]
    assert numbers["command"] == "lupi reproduce x"
    assert files["report.md"].endswith(b"Made by `lupi reproduce x` (lupi 1).\n")
    assert write() == files


def test_a_table_is_markdown():
    expected = ["|  | x |", "|---|---|", "| a | 1 |", "| b | 2 |"]
    assert markdown_table([{"": "a", "x": 1}, {"": "b", "x": 2}]).splitlines() == expected
    assert markdown_table([]) == ""
