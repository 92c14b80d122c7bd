"""Write the tables of docs/importing.md, what each importer reads, notes and refuses, from the importers themselves."""

import re
from pathlib import Path

from lupi.importers import IMPORTERS
from lupi.importers.base import Importer

PAGE = Path(__file__).parents[1] / "importing.md"
BEGIN, END = "<!-- importers: python docs/.scripts/importers.py -->", "<!-- end of importers -->"


def describe_importers() -> str:
    """Return the page with the sections of all importers."""
    sections = "\n".join(describe(importer) for importer in IMPORTERS.values())
    page = PAGE.read_text(encoding="utf-8")
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{sections}{END}", page, flags=re.S)


def describe(importer: Importer) -> str:
    """Return the section of an importer."""
    lines = [f"### {importer.name}", f"Reads {importer.export}.", ""]
    lines += ["| field | what becomes of it |", "|---|---|"]
    lines += [f"| {field} | {meaning} |" for field, meaning in importer.reads.items()]
    lines += ["", f"- Notes: {'; '.join(importer.notes)}."]
    lines += [f"- Refuses: {'; '.join(importer.refuses)}."]
    if importer.ignores:
        lines += [f"- Ignores what the tool keeps for itself: {', '.join(f'`{name}`' for name in importer.ignores)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(describe_importers(), encoding="utf-8")
