"""Values that programs stumble over: texts, numbers, paths, and places in JSON to put them."""

import copy
import math
from random import Random
from typing import Any

TEXTS = [
    "",
    " ",
    "0",
    "-1",
    "nan",
    "None",
    "null",
    "true",
    "\n",
    "two\nlines",
    "tab\there",
    "nul\x00end",
    "bell\x07\x1b[31mred\x1b[0m",
    "é",
    "e\u0301",
    "日本語",
    "🙂",
    "\u202eturned",
    "\ufeffmark",
    "=1+1",
    "@SUM(A1)",
    "+1",
    "-x",
    "--help",
    ",",
    "a,b",
    "a=b",
    "=",
    ";",
    "'",
    '"',
    '"""',
    '"begins',
    'ends"',
    'say "yes"',
    "NA",
    "N/A",
    "NULL",
    "#N/A",
    "007",
    "0x1F",
    "1,5",
    "2024-05-01T10:00:00Z",
    "2024-05-01T10:00:00+05:30",
    "1600-02-03",
    "`label`",
    "{x}",
    "{0}",
    "%s",
    "%(x)s",
    "$x^2$",
    "\\",
    "..",
    "../..",
    "~",
    "/",
    "a" * 300,
    "a" * 5000,
    "<script>alert(1)</script>",
    "| a | b |",
    "[link](x)",
    "label",
    "worker",
    "prediction",
    "probability_0",
    "index",
    "__index_level_0__",
    "row",
    "example",
    "1e400",
    "１２",
    "2024-01-01",
    "9999-12-31T23:59:59",
]
"""Texts for cells, names of columns and options."""

INTEGERS = [
    "0",
    "-1",
    "-0",
    "1",
    "2",
    "3",
    "7",
    "+1",
    "01",
    "1_0",
    " 2 ",
    "1.0",
    "1.5",
    "1e3",
    "0x10",
    "２",
    "",
    "nan",
    "inf",
    "x",
    "None",
    "true",
    "-9223372036854775808",
]
"""Texts for options that are integers; none of them asks for much work."""

HUGE_INTEGERS = [
    "1000000",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999",
    "9" * 400,
    "9" * 5000,
]
"""Texts for options that are integers; they may ask for more work or memory than there is."""

FLOATS = [
    "0",
    "-0.0",
    "-1",
    "1",
    "0.5",
    "1e-300",
    "5e-324",
    "1e6",
    "1e30",
    "1e308",
    "1e400",
    "inf",
    "-inf",
    "nan",
    "",
    "x",
    "1,5",
    "1_0",
    "0x1p3",
    "１",
]
"""Texts for options that are numbers."""

DEVICES = ["cpu", "cuda", "cuda:99", "cuda:-1", "mps", "meta", "xpu", "cpu:0", "cpu:7", "hip", "vulkan", "gpu", "CPU"]

NUMBERS = [
    0,
    -1,
    1,
    2,
    3,
    255,
    2**31,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    1700000000123456789,
    0.0,
    -0.0,
    0.5,
    1e-300,
    5e-324,
    1e30,
    1e38,
    3.5e38,
    1e308,
    -1e308,
    math.inf,
    -math.inf,
    math.nan,
]
"""Numbers for cells."""

ANYTHING: list[Any] = [None, True, False, [], {}, [[]], [None], {"": None}, "x" * 10_000, "\ud800", 10**30, 10**400]
"""Values for JSON."""


def hostile_text(rng: Random) -> str:
    """Draw a text, sometimes of random characters."""
    if rng.random() < 0.8:
        return rng.choice(TEXTS)
    return "".join(
        chr(rng.choice([rng.randrange(1, 128), rng.randrange(128, 0xD800)])) for _ in range(rng.randint(1, 12))
    )


def hostile_value(rng: Random) -> Any:
    """Draw a value that JSON can hold."""
    return copy.deepcopy(rng.choice([rng.choice(NUMBERS), hostile_text(rng), rng.choice(ANYTHING)]))


def mutate_json(value: Any, rng: Random) -> Any:
    """Change one place of a JSON value: another value, one less, one more, or a copy of another place."""
    value = copy.deepcopy(value)
    places = list(list_places(value))
    if not places:
        return hostile_value(rng)
    holder, key = rng.choice(places)
    action = rng.choice(["replace", "replace", "replace", "nudge", "nudge", "remove", "add", "copy", "nest"])
    if action == "nudge":
        holder[key] = nudge(holder[key], rng)
    elif action == "remove":
        del holder[key]
    elif action == "add":
        if isinstance(holder, dict):
            holder[hostile_text(rng)] = hostile_value(rng)
        else:
            holder.insert(rng.randint(0, len(holder)), hostile_value(rng))
    elif action == "copy":
        other, place = rng.choice(places)
        holder[key] = copy.deepcopy(other[place])
    elif action == "nest":
        holder[key] = [holder[key]]
    else:
        holder[key] = hostile_value(rng)
    return value


def nudge(value: Any, rng: Random) -> Any:
    """Return a value of the same type that is a little different."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + 1, value - 1, -value, value * 1000, float(value), str(value)])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1], value.upper(), value + " ", value[::-1]])
    if isinstance(value, list):
        return rng.choice([value * 2, value[:-1], value[::-1], value[:1]])
    if isinstance(value, dict):
        items = list(value.items())
        return dict(rng.choice([items[:-1], items[1:], items[::-1], [(f"{key}x", one) for key, one in items]]))
    return rng.choice([0, "", [], {}])


def list_places(value: Any) -> Any:
    """Yield every place of a JSON value as its holder and key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from list_places(value[key])


def mutate_bytes(content: bytes, rng: Random) -> bytes:
    """Truncate a file, flip bits, remove, repeat or insert bytes."""
    if not content:
        return rng.randbytes(rng.randint(1, 40))
    data = bytearray(content)
    action = rng.choice(["truncate", "truncate", "flip", "flip", "remove", "repeat", "insert", "zero", "empty", "head"])
    place = rng.randrange(len(data))
    length = min(rng.choice([1, 4, 30, 500]), len(data) - place)
    if action == "truncate":
        del data[place:]
    elif action == "flip":
        for _ in range(rng.choice([1, 1, 3, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif action == "remove":
        del data[place : place + length]
    elif action == "repeat":
        data[place:place] = data[place : place + length] * rng.choice([1, 5, 200])
    elif action == "insert":
        data[place:place] = rng.choice(
            [rng.randbytes(length), b"\x00" * length, b"\xff\xfe", b'"', b"\n", b"\r\n", b","]
        )
    elif action == "zero":
        data[place : place + length] = b"\x00" * length
    elif action == "empty":
        return b""
    else:
        del data[: place + 1]
    return bytes(data)
