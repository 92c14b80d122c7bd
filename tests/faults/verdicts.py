"""What must hold after every case, whatever the input was."""

import csv
import gzip
import io
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.cases import Case
from tests.faults.forks import AGAIN, Outcome, snapshot

CODES = (0, 2)
"""Exit codes of commands that were not interrupted."""
BARE = re.compile(
    r"\[Errno|\bobject is not\b|has no attribute|unsupported operand|list index out of range|NoneType|"
    r"not supported between|Overflow when unpacking|unhashable type|positional argument|invalid literal|"
    r"could not convert|cannot reshape|takes no arguments|codec can't|size mismatch|Traceback|<class '|"
    r"\w+Error:|\w+Error\(|DefaultCPUAllocator|Out of bounds|cannot be cast|Cannot interpret"
)
"""What Python, numpy, torch or pyarrow would say, which tells users nothing about their input."""
BOUNDARY = "lupi/cli/commands.py"
"""The file that is part of each traceback but those of Ctrl-C while Python itself is starting."""
MASKED = re.compile(r"lupi: Expected (?:`lupi .*` to succeed|enough memory)")
"""What the command line says of an error that nobody foresaw, and of small cases that need much memory."""
KEPT = re.compile(r"(^|/)(runs/[^/]+\.(npz|pt|json)|comparison\.json|[^/]*checkpoint[^/]*)$")
"""Files of an interrupted command that a rerun continues from."""
LEFTOVER = re.compile(r"(^|/)\.[^/]*[0-9a-f]{8,}|\.lupi-|\.old$|\.partial|\.tmp|(^|/)\.writable")
"""Names of temporary files and folders."""
MUCH_MEMORY = 2.5
"""Gigabytes, of which about half a gigabyte are the libraries."""


def find_problems(outcome: Outcome) -> list[str]:
    """Return what is wrong with an outcome, in a few words each."""
    facts = outcome.facts
    if outcome.hung:
        return ["hang"]
    if not facts:
        return [f"fuzzer: {outcome.stderr[-2000:]}"]
    problems = list(facts.get("problems", []))
    interrupted = facts["interrupt"] is not None
    if outcome.code not in CODES and not (interrupted and outcome.code == 130):
        problems.append(f"exit code {outcome.code}")
    starting = interrupted and BOUNDARY not in outcome.stderr
    if "Traceback" in outcome.stdout or ("Traceback" in outcome.stderr and not starting):
        problems.append("traceback")
    if facts["relation"]:
        parts = outcome.stderr.split(AGAIN)[1:]
        for code, text in zip(facts["codes"], parts, strict=False):
            problems += judge_message(text) if code == 2 else []
    elif outcome.code == 2 and not problems and not facts["rival"]:
        problems += judge_message(outcome.stderr.partition(AGAIN)[0])
    elif outcome.code == 0:
        problems += check_rows(outcome)
    if facts["rival"] and facts["codes"] != [0, 2]:
        problems.append(f"two writers with exit codes {facts['codes']}")
    if facts.get("rerun"):
        problems.append(f"exit code {facts['rerun']} when run again")
    after = facts.get("after", snapshot(outcome.folder))
    if outcome.code != 0 and not facts["rival"]:
        changed = [name for name in {**facts["before"], **after} if facts["before"].get(name) != after.get(name)]
        if facts["command"] == "compare" and "--overwrite" in facts["arguments"]:  # starts again from nothing
            changed = [name for name in changed if name in after]
        if facts.get("complete"):
            changed = [
                name for name in changed if facts["target"] is None or not Path(name).is_relative_to(facts["target"])
            ]
        problems += [f"partial output {name}" for name in changed if not KEPT.search(name)][:3]
    new = after.keys() - facts["before"].keys()
    problems += [f"leftover {name}" for name in sorted(new) if LEFTOVER.search(name)][:3]
    if outcome.orphans:
        problems.append("processes left running")
    if outcome.memory > MUCH_MEMORY:
        problems.append(f"memory {outcome.memory:.1f} GB")
    return problems


def judge_message(stderr: str) -> list[str]:
    """Check that an error ends with one sentence by lupi."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    if not lines:
        return ["no error message"]
    last = lines[-1]
    if not last.startswith("lupi: "):
        return [f"not a message of lupi: {last[:200]}"]
    # Where a message names the file, another library may say the rest.
    ours, *detail = re.split(r"but got(?: another)?: ", last, maxsplit=1)
    if not re.match(r"lupi: [A-Z]\w* .*", ours) or not (detail or re.search(r"[.:!?)…]$", last)):
        return [f"not a sentence: {last[:300]}"]
    if MASKED.match(last):
        return [f"masked error: {last[:300]}"]
    if BARE.search(ours):
        return [f"a bare error: {last[:300]}"]
    if not last.startswith("lupi: Expected ") and not re.search(r"[`'\"/]", last):
        return [f"names nothing: {last[:300]}"]
    if len(last) > 2000:
        return [f"a long message: {len(last)} characters"]
    return []


# ------------------------------------------------------------------------------ rows

LEFT_OUT = re.compile(r"([\d,]+) (?:of [\d,]+ (?:cells|rows of the table|rows) have no label|\w+ labels are left out)")
"""Notes on rows that are not used, with their number."""
JOINED = re.compile(r"; ([\d,]+) lines? (?:are no rows|is no row) of")
SAMPLED = re.compile(r"A random sample of ([\d,]+) of ([\d,]+) annotations")


def sum_counts(pattern: re.Pattern[str], text: str) -> int:
    """Add up the numbers that a pattern finds."""
    return sum(int(found[1].replace(",", "")) for found in pattern.finditer(text))


def check_rows(outcome: Outcome) -> list[str]:
    """Check that every row of a table, or every answer of an export, is used or counted in a note."""
    facts = outcome.facts
    if facts["stdout"] not in ("utf-8", "ascii"):  # nobody reads the notes
        return []
    if facts["command"] == "import" and facts["answers"] is not None:
        return check_answers(outcome)
    if facts["table"] is None:
        return []
    output, notes = outcome.folder / facts["output"], outcome.stdout
    if facts["command"] == "predict":
        used, notes = count_table(output, ""), ""
    elif facts["command"] in ("train", "diagnose"):
        results = json.loads((output / "results.json").read_bytes())
        used, notes = results["rows"], "\n".join(results["reading" if facts["command"] == "diagnose" else "notes"])
    elif (found := re.search(r"trainings of ([\d,]+) annotations", outcome.stderr)) is not None:
        used = int(found[1].replace(",", ""))
    else:
        return []  # all runs were there already
    if (sample := SAMPLED.search(notes)) is not None:
        used = int(sample[2].replace(",", ""))
    rows, left_out = count_table(outcome.folder / facts["table"], outcome.stdout), sum_counts(LEFT_OUT, notes)
    return [] if rows == used + left_out else [f"rows: {rows} in, {used} used, {left_out} named"]


def count_table(path: Path, notes: str) -> int:
    """Count the rows of a table without lupi; lines of a CSV file that a note names are no rows."""
    import openpyxl
    import pyarrow.parquet as parquet

    if path.is_dir():
        return sum(count_table(file, notes) for file in path.iterdir())
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        return int(parquet.read_metadata(path).num_rows)
    if name.endswith(".xlsx"):
        sheet = openpyxl.load_workbook(path, read_only=True).worksheets[0]
        return sum(any(cell is not None for cell in row) for row in sheet.values) - 1
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    if ".json" in name and not name.endswith((".jsonl", ".jsonl.gz")):
        return len(json.loads(content))
    lines = sum(bool(line.strip()) for line in re.split(rb"\r\n|\r|\n", content))
    return lines if ".jsonl" in name else lines - 1 - sum_counts(JOINED, notes)


def check_answers(outcome: Outcome) -> list[str]:
    """Check that an imported table has the labels of its export, and that a note counts the other answers."""
    facts, path = outcome.facts, outcome.folder / outcome.facts["output"]
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows: list[dict[str, Any]] = list(csv.DictReader(file))
    else:
        import pyarrow.parquet as parquet

        rows = parquet.read_table(path).to_pylist()
    left_out = sum_counts(LEFT_OUT, outcome.stdout)
    problems = []
    if len(rows) + left_out != facts["answers"]:
        problems.append(f"rows: {facts['answers']} answers, {len(rows)} rows, {left_out} named")
    if facts["labels"] is not None:
        expected = {(who, label): count for who, label, count in facts["labels"]}
        found = Counter((row["annotator"], read_label(row)) for row in rows)
        if expected != found:
            problems.append(f"labels: {sorted(expected.items())} became {sorted(found.items())}"[:600])
    return problems


def read_label(row: dict[str, Any]) -> str:
    """Return the label of an imported row as a text: one, or the names of columns that are 1."""
    if "label" in row:
        number = to_number(row["label"])
        return str(row["label"]) if math.isnan(number) else f"{number:g}"
    names = [name.removeprefix("label_") for name, value in row.items() if name.startswith("label_") and int(value)]
    return " + ".join(names)


# ------------------------------------------------------------------------------ complete outputs


def check_outputs(case: Case) -> list[str]:
    """Return what is wrong with the outputs of a command that ended with exit code 0."""
    if any(word in ("--list", "--help") for word in case.arguments) or not case.output:
        return []
    check = {"train": check_model, "predict": check_predictions, "export": check_onnx}.get(case.command, check_results)
    try:
        return check(Path(case.output))
    except Exception as error:
        return [f"incomplete output: {type(error).__name__}: {error}"[:300]]


def check_model(path: Path) -> list[str]:
    """Check that a model can be loaded and that its weights are finite."""
    from lupi.estimators.folder import read_model_folder
    from lupi.serving import load

    load(path)
    weights = read_model_folder(path).weights
    bad = [name for name, tensor in weights.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    return [f"not finite: weights {', '.join(bad[:3])}"] if bad else []


def check_predictions(path: Path) -> list[str]:
    """Check that predictions can be read, and that numbers are finite."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
        columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    else:
        import pyarrow.parquet as parquet

        table = parquet.read_table(path)
        columns = {name: column.to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)}
    problems = []
    for name, values in columns.items():
        if name.startswith("probability_") and any(not 0 <= to_number(value) <= 1 for value in values):
            problems.append(f"not a probability: {name[:50]}")
    return problems


def to_number(value: Any) -> float:
    """Return a number, NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def check_onnx(path: Path) -> list[str]:
    """Check that a graph is complete."""
    import onnx

    onnx.checker.check_model(onnx.load(path))
    return []


def check_results(path: Path) -> list[str]:
    """Check the files of a folder of results: strict JSON, CSV, whole pages."""
    if path.is_file():
        return [] if path.stat().st_size else ["empty output"]
    problems = []
    for file in path.glob("*.json"):
        constants: list[str] = []
        json.loads(file.read_text(encoding="utf-8"), parse_constant=constants.append)
        problems += [f"{text} in {file}" for text in constants]
    for file in path.glob("*.csv"):
        list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
    pages = {file: file.read_text(encoding="utf-8").rstrip() for file in path.glob("*.html")}
    problems += [f"cut page {file}" for file, text in pages.items() if not text.endswith("</html>")]
    if not (path / "results.json").exists():
        problems.append("no results.json")
    return problems[:3]
