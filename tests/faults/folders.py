"""Hostile folders: models, comparisons and diagnoses that lupi wrote, changed in a few places."""

import json
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from lupi.estimators import folder as stored
from tests.faults.values import mutate_bytes, mutate_json

FACTS, WEIGHTS, ENCODERS = stored.FACTS, stored.WEIGHTS, stored.ENCODERS


def reseal(model: Path) -> None:
    """Write the checksums that belong to the files of a model folder, as somebody who knows the format would."""
    try:
        facts = json.loads((model / FACTS).read_bytes())
        facts["sha256"] = {name: stored.hash_bytes((model / name).read_bytes()) for name in (WEIGHTS, ENCODERS)}
        facts["sha256"][FACTS] = stored.hash_bytes(stored.encode_facts(facts))
        (model / FACTS).write_text(json.dumps(facts))
    except (OSError, ValueError, TypeError, KeyError):
        pass  # a change made sealing impossible, which is a case as well


def change_facts(model: Path, rng: Random) -> None:
    """Change places of `model.json`."""
    facts = json.loads((model / FACTS).read_bytes())
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        facts = mutate_json(facts, rng)
    (model / FACTS).write_text(json.dumps(facts))


def change_weights(model: Path, rng: Random) -> None:
    """Change the header or the numbers of the weights: names, types, shapes, places, NaN."""
    content = (model / WEIGHTS).read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + size]), bytearray(content[8 + size :])
    if rng.random() < 0.5 and len(data) >= 4:
        number = struct.pack("<f", rng.choice([float("nan"), float("inf"), 1e38, -1e38, 0.0]))
        for _ in range(rng.choice([1, 10, len(data) // 4])):
            place = rng.randrange(len(data) // 4) * 4
            data[place : place + 4] = number
    else:
        header = mutate_json(header, rng)
    text = json.dumps(header).encode()
    length = rng.choice([2**63, 2**40, 0]) if rng.random() < 0.05 else len(text)
    (model / WEIGHTS).write_bytes(struct.pack("<Q", length) + text + bytes(data))


def change_encoders(model: Path, rng: Random) -> None:
    """Change places of the description of the encoders."""
    (model / ENCODERS).write_text(json.dumps(mutate_json(json.loads((model / ENCODERS).read_bytes()), rng)))


def change_bytes(folder: Path, rng: Random) -> None:
    """Damage the bytes of a file."""
    path = pick_file(folder, rng)
    path.write_bytes(mutate_bytes(path.read_bytes(), rng))


def remove_file(folder: Path, rng: Random) -> None:
    pick_file(folder, rng).unlink()


def add_file(folder: Path, rng: Random) -> None:
    """Add a file, a folder or a link that nobody asked for."""
    name = rng.choice(["notes.txt", ".writable", ".hidden", "runs", "model.json.bak", "café", "a b", "results.json"])
    path = folder / name
    if path.exists():
        return
    kind = rng.choice(["file", "folder", "link", "loop"])
    if kind == "file":
        path.write_bytes(rng.choice([b"", b"text", b"\xff\x00"]))
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.name if kind == "loop" else "nowhere")


def link_file(folder: Path, rng: Random) -> None:
    """Replace a file by a link: to itself, to nothing, to a device, to a copy."""
    path = pick_file(folder, rng)
    content = path.read_bytes()
    path.unlink()
    target = rng.choice([path.name, "nowhere", "/dev/null", "copy"])
    if target == "copy":
        (folder / "copy").write_bytes(content)
    path.symlink_to(target)


def swap_for_folder(folder: Path, rng: Random) -> None:
    """Replace a file by a folder of the same name."""
    path = pick_file(folder, rng)
    path.unlink()
    path.mkdir()


def change_json(folder: Path, rng: Random) -> None:
    """Change places of a JSON file."""
    paths = sorted(folder.rglob("*.json"))
    if paths:
        path = rng.choice(paths)
        path.write_text(json.dumps(mutate_json(json.loads(path.read_bytes()), rng)))


def change_run(folder: Path, rng: Random) -> None:
    """Change the arrays of a kept run: damaged, missing, renamed, of another type or shape."""
    import numpy as np

    paths = sorted(folder.rglob("*.npz"))
    if not paths:
        return
    path = rng.choice(paths)
    with np.load(path, allow_pickle=False) as arrays:
        values: dict[str, Any] = {name: arrays[name] for name in arrays.files}
    name = rng.choice(list(values))
    old = values.pop(name)
    action = rng.choice(["remove", "rename", "nan", "shape", "text", "empty", "exchange"])
    if action == "rename":
        values[rng.choice(["x", "nll", "seconds", "é"])] = old
    elif action == "nan":
        values[name] = np.full(old.shape, np.nan)
    elif action == "shape":
        values[name] = np.stack([old, old])
    elif action == "text":
        values[name] = np.full(old.shape, "x")
    elif action == "empty":
        values[name] = np.zeros(0)
    elif action == "exchange":
        path = path.with_name(rng.choice(paths).name)
        values[name] = old
    np.savez(path, **values)


def pick_file(folder: Path, rng: Random) -> Path:
    """Draw a file of a folder; the most important ones first."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return rng.choice(files)


SEALED = [change_facts, change_facts, change_facts, change_weights, change_weights, change_encoders, change_bytes]
NOTHING_TO_CHANGE = (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError)
"""Errors of a change where an earlier one has left nothing to change."""
OTHER = [change_bytes, change_bytes, remove_file, add_file, link_file, swap_for_folder, change_json]


def damage_model(model: Path, rng: Random) -> None:
    """Change a model folder; mostly with the right checksums."""
    sealed = rng.random() < 0.7
    for _ in range(rng.choice([1, 1, 1, 2])):
        with suppress(*NOTHING_TO_CHANGE):
            rng.choice(SEALED if sealed else OTHER)(model, rng)
    if sealed:
        reseal(model)


def damage_results(folder: Path, rng: Random) -> None:
    """Change a folder of results, such as a crash or a curious user may leave it."""
    for _ in range(rng.choice([1, 1, 2])):
        with suppress(*NOTHING_TO_CHANGE):
            rng.choice([*OTHER, change_run, change_run])(folder, rng)


def change_line(folder: Path, rng: Random) -> None:
    """Change places of one line of a file of JSON Lines."""
    path = rng.choice(sorted(folder.rglob("*.jsonl")))
    lines = path.read_text().splitlines()
    place = rng.randrange(len(lines))
    lines[place] = json.dumps(mutate_json(json.loads(lines[place]), rng))
    path.write_text("\n".join(lines))


def damage_export(folder: Path, rng: Random) -> None:
    """Change the export of a labelling tool."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        with suppress(*NOTHING_TO_CHANGE):
            rng.choice([change_json, change_json, change_line, change_line, *OTHER])(folder, rng)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder with its links."""
    shutil.copytree(source, target, symlinks=True)
    os.utime(target)
