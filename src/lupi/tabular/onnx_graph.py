"""ONNX operators that turn the columns of a table into features. Needs the extra `export`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
"""Domains of operators: ONNX-ML, and those that onnxruntime adds."""
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
MONTHS = r"(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31"
LEAP = r"(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29"
TIME = r"[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?|Z)?"
DATE = rf"(\d{{4}}-({MONTHS})|{LEAP})({TIME})?"
"""Dates and times in ISO format, such as 2026-12-31, 2026-12-31 10:00 and 2026-12-31T10:00:00.5+01:00."""


class OnnxGraph:
    """A graph under construction, whose inputs are columns. Every method returns the name of a tensor.

    Parameters
    ----------
    stored : mapping of str to str
        The family of the data type of columns in training (`lupi.tabular.values.stored_as`), where it is known.
    """

    def __init__(self, stored: Mapping[str, str] | None = None) -> None:
        self.stored = stored or {}
        self.columns: dict[str, dict[str, Any]] = {}
        """The input of each column: its type, its width if it is a vector, and the value that stands for missing."""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def read(self, name: str, kind: str, *, width: int | None = None, missing: str = "NaN") -> str:
        """Add the input of a column: float64 if NaN stands for missing, else strings."""
        facts = {"kind": kind, "type": "float64" if missing == "NaN" else "string"}
        self.columns[name] = facts | ({"missing": missing} if width is None else {"width": width})
        return name

    def read_number(self, name: str, kind: str, *, text: bool) -> str:
        """Add the input of a column of numbers; dates, and numbers that were strings in training, are strings."""
        stored = self.stored.get(name, "string" if text else "number")
        if stored in ("string", "date"):
            return self.parse_number(self.read(name, kind, missing=""))
        return self.read(name, kind)

    def constant(self, values: Any) -> str:
        """Add a constant."""
        from onnx import numpy_helper

        name = f"lupi/constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def apply(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output."""
        from onnx import helper

        name = f"lupi/{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def cast(self, tensor: str, dtype: Any) -> str:
        """Convert a tensor to another type."""
        from onnx import helper

        return self.apply("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def tokenize(self, texts: str, pattern: str, longest: str, padding: str) -> str:
        """Split texts, [rows], into the matches of a pattern, [rows + 1, matches]; the last row is for `longest`."""
        more = self.apply("Concat", texts, self.constant(np.array([longest], dtype=object)), axis=0)
        return self.apply(
            "Tokenizer", more, domain=MICROSOFT, mark=0, mincharnum=1, pad_value=padding, tokenexp=pattern
        )

    def drop_last(self, tensor: str) -> str:
        """Leave out the last row."""
        return self.apply("Slice", tensor, self.constant([0]), self.constant([-1]), self.constant([0]))

    def parse_number(self, text: str) -> str:
        """Return numbers, and dates in seconds since 1970, of strings; empty ones are NaN, and others an error."""
        is_date, known, empty = (self.apply("RegexFullMatch", text, pattern=one) for one in (DATE, NUMBER, r"\s*"))
        no_number = self.apply("Or", is_date, empty)
        blank, nan, epoch = (self.constant(np.array(one, dtype=object)) for one in ("", "nan", "1970-01-01"))
        checked = self.apply("Where", known, text, blank)  # which is no number
        number = self.cast(self.apply("Where", no_number, nan, checked), np.float64)
        return self.apply("Where", is_date, self.parse_date(self.apply("Where", is_date, text, epoch)), number)

    def parse_date(self, text: str) -> str:
        """Return the seconds since 1970 of dates in ISO format, in the proleptic Gregorian calendar."""
        west = self.apply("RegexFullMatch", text, pattern=".*:.*-.*")
        parts = self.tokenize(text, r"\d+(\.\d+)?", "1970-01-01T00:00:00.0+00:00", "0")
        parts = self.cast(self.drop_last(parts), np.float64)
        year, month, day, hour, minute, second, zone_hour, zone_minute = (
            self.apply("Gather", parts, self.constant(place), axis=1) for place in range(8)
        )

        def combine(operator: str, left: str, right: str | float) -> str:
            return self.apply(operator, left, right if isinstance(right, str) else self.constant(float(right)))

        def whole(left: str, divisor: float) -> str:
            return self.apply("Floor", combine("Div", left, divisor))

        # Years begin in March, so that a leap day is the last day of a year.
        early = self.cast(combine("Less", month, 3.0), np.float64)
        year = combine("Sub", year, early)
        month = combine("Add", combine("Sub", month, 3.0), combine("Mul", early, 12.0))
        days = combine("Add", combine("Mul", year, 365.0), whole(year, 4.0))
        days = combine("Add", combine("Sub", days, whole(year, 100.0)), whole(year, 400.0))
        days = combine("Add", days, whole(combine("Add", combine("Mul", month, 153.0), 2.0), 5.0))
        days = combine("Sub", combine("Add", days, day), 719_469.0)
        hours = combine("Add", combine("Mul", days, 24.0), hour)
        minutes = combine("Add", combine("Mul", hours, 60.0), minute)
        zone = combine("Add", combine("Mul", zone_hour, 60.0), zone_minute)
        sign = self.apply("Where", west, self.constant(-1.0), self.constant(1.0))
        minutes = combine("Sub", minutes, combine("Mul", zone, sign))
        return combine("Add", combine("Mul", minutes, 60.0), second)
