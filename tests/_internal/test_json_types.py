import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from typing_extensions import TypeAliasType, TypeVar

from lupi._internal.json_types import check_attributes, from_json


@dataclass(frozen=True)
class Column:
    kind: Literal["number", "text"]
    widths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table:
    name: str
    rows: int
    share: float
    sorted: bool
    columns: dict[str, Column]
    notes: list[str]
    key: str | None = None
    other: Any = field(default=None)


class Facts(TypedDict):
    table: Table
    seed: NotRequired[int]


texts = st.text(max_size=5)
columns = st.builds(Column, st.sampled_from(["number", "text"]), st.lists(st.integers(), max_size=3).map(tuple))
tables = st.builds(
    Table,
    name=texts,
    rows=st.integers(),
    share=st.floats(allow_nan=False),
    sorted=st.booleans(),
    columns=st.dictionaries(texts, columns, max_size=3),
    notes=st.lists(texts, max_size=3),
    key=st.none() | texts,
    other=st.none() | st.integers() | st.lists(st.booleans()),
)


@given(tables)
def test_what_was_written_comes_back(table):
    assert from_json(json.loads(json.dumps(asdict(table))), Table) == table


GOOD = asdict(Table("t", 3, 0.5, True, {"a": Column("text", (1, 2))}, ["x"], "id"))
GOOD = json.loads(json.dumps(GOOD))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["name"], 3, "`table.name` to be a string, but got 3"),
        (["rows"], 3.5, "`table.rows` to be an integer, but got 3.5"),
        (["rows"], True, "`table.rows` to be an integer, but got True"),
        (["share"], "0.5", "`table.share` to be a number, but got '0.5'"),
        (["sorted"], 1, "`table.sorted` to be true or false, but got 1"),
        (["columns"], [], "`table.columns` to be an object, but got []"),
        (["columns", "a", "kind"], "date", "`table.columns.a.kind` to be one of 'number', 'text', but got 'date'"),
        (["columns", "a", "widths"], [1, None], "`table.columns.a.widths[1]` to be an integer, but got None"),
        (["columns", "a", "widths"], 7, "`table.columns.a.widths` to be a list, but got 7"),
        (["columns", "a", "more"], 7, "only known fields, but got `table.columns.a.more`"),
        (["notes"], "x" * 100, "`table.notes` to be a list, but got 'xxx"),
        (["key"], 7, "`table.key` to be a string, but got 7"),
    ],
)
def test_the_place_of_what_is_wrong_is_named(path, value, message):
    changed = json.loads(json.dumps(GOOD))
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=f"^Expected {re.escape(message)}") as caught:
        from_json({"table": changed}, Facts)
    assert len(str(caught.value)) < 200


def test_a_missing_field_is_named():
    with pytest.raises(ValueError, match=r"`table\.rows` to be there, but it is missing"):
        from_json({"table": {name: value for name, value in GOOD.items() if name != "rows"}}, Facts)
    with pytest.raises(ValueError, match="`table` to be there"):
        from_json({}, Facts)


def test_what_is_not_required_may_be_missing():
    assert from_json({"table": GOOD}, Facts) == {"table": from_json(GOOD, Table)}
    assert from_json({"table": GOOD, "seed": 7}, Facts)["seed"] == 7


class Kind:
    """The kind of an encoder."""


class Encoder:
    kind: Kind
    labels: list[str]
    edges: NDArray[np.float64]
    sign: ClassVar[str] = "="
    missing: bool = False


ATTRIBUTES = {"kind": Kind(), "labels": ["a"], "edges": np.zeros(2)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "x"}, "`Encoder.kind` to be a Kind, but got 'x'"),
        ({"labels": ["a", 1]}, "`Encoder.labels[1]` to be a string, but got 1"),
        ({"edges": np.zeros(2, np.int64)}, "`Encoder.edges` to be an array of float64, but got array"),
        ({"edges": [0.0]}, "`Encoder.edges` to be an array of float64, but got [0.0]"),
        ({"sign": " in "}, "only known attributes, but got `Encoder.sign`"),
    ],
)
def test_attributes_are_those_that_a_class_declares(change, message):
    check_attributes(Encoder, ATTRIBUTES)
    check_attributes(Encoder, ATTRIBUTES | {"missing": True})
    with pytest.raises(ValueError, match=f"^Expected {re.escape(message)}"):
        check_attributes(Encoder, ATTRIBUTES | change)
    with pytest.raises(ValueError, match=r"`Encoder\.labels` to be there, but it is missing"):
        check_attributes(Encoder, {name: value for name, value in ATTRIBUTES.items() if name != "labels"})


def test_aliases_are_what_they_stand_for():
    """Numpy's own, `NDArray`, is one since 2.5."""
    of = TypeVar("of")
    row = TypeAliasType("row", list[of], type_params=(of,))
    assert from_json([1, 2], row[int]) == [1, 2]
    with pytest.raises(ValueError, match="`a\\[1\\]` to be an integer"):
        from_json([1, "2"], row[int], "a")
