"""Assign one role to every column of a table."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from lupi.tabular.spec import TableSpec


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The role of each column of a table."""

    target: tuple[str, ...]
    privileged: tuple[str, ...] = ()
    example: str | None = None
    ignored: tuple[str, ...] = ()
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, spec: TableSpec, names: Sequence[str]) -> Self:
        """Assign the columns of a table to the roles of a spec; columns without a role are inputs."""
        target, privileged, ignore = (split_names(v, names) for v in (spec.target, spec.privileged, spec.ignore))
        single = (spec.example, spec.gold, spec.weight, spec.annotator)
        example, gold, weight, annotator = ([] if name is None else [name] for name in single)
        ignore = [name for name in ignore if name not in gold]  # even if users also list it in `ignore`
        annotator = [name for name in annotator if name not in (*privileged, *ignore)]
        role: dict[str, str] = {}
        assigned = {"target": target, "example": example, "gold": gold, "weight": weight, "privileged": privileged}
        for argument, columns in (assigned | {"annotator": annotator, "ignore": ignore}).items():
            for column in columns:
                check_name(column, names, argument)
                if column in role:
                    both = f"`{role[column]}` and `{argument}`"
                    raise ValueError(f"Expected column {column!r} to have one role, but got {both}.")
                role[column] = argument
        inputs = tuple(name for name in names if name not in role)
        if not target:
            raise ValueError("Expected `target` to name a column, but got none.")
        if not inputs:
            raise ValueError("Expected some columns to be inputs, but every column has another role.")
        return cls(
            target=tuple(target),
            privileged=(*privileged, *annotator),
            example=spec.example,
            ignored=(*ignore, *gold, *weight),
            inputs=inputs,
        )


def check_name(column: str, names: Sequence[str], argument: str, of: str = "the table") -> None:
    """Raise a `ValueError` that suggests a similar name unless a table has the column. `of` names the table."""
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {some}."
        raise ValueError(f"Expected `{argument}` to name a column of {of}, but got {column!r}: {hint}")


def split_names(values: Sequence[str], names: Sequence[str]) -> list[str]:
    """Split comma-separated column names; a value that is the name of a column is not split."""
    parts = [[value] if value in names else value.split(",") for value in values]
    return [name.strip() for part in parts for name in part if name.strip()]
