"""Columns of tables and axes of cells: each declared once, with its meaning, by the code that makes it."""

import dataclasses
import typing
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Type = Literal["int", "float", "str"]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    type: Type
    meaning: str
    formula: str = ""
    unit: str = ""
    may_be_empty: bool = False


@dataclass(frozen=True)
class Meaning:
    """The meaning of a field of a cell, among its annotations: `Annotated[int, Ge(1), Meaning("width of ...")]`."""

    text: str


def names(columns: Iterable[Column]) -> list[str]:
    """The names of columns, in order."""
    return [column.name for column in columns]


def axis_columns(cell: type[Any]) -> tuple[Column, ...]:
    """The columns of a cell's axes; every table of its cells begins with them."""
    return tuple(_axis_column(name, cell_fields(cell)[name]) for name in axis_names(cell))


def _axis_column(name: str, kind: Any) -> Column:
    bare, *notes = typing.get_args(kind) if typing.get_origin(kind) is typing.Annotated else (kind,)
    meanings = [note.text for note in notes if isinstance(note, Meaning)]
    if len(meanings) != 1:
        raise TypeError(f"field {name} of a cell: expected Annotated[..., Meaning(...)], got {kind}")
    types: dict[Any, Type] = {int: "int", float: "float"}
    return Column(name, types.get(bare, "str"), meanings[0])


def cell_fields(cell: type[Any]) -> dict[str, Any]:
    """The fields of a cell with their types, annotations included."""
    return _type_hints(typing.cast(Hashable, cell))


@cache
def _type_hints(cell: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cell, include_extras=True)


def treatment_names(cell: type[Any]) -> list[str]:
    """The fields whose whole list applies to one draw."""
    return [name for name, kind in cell_fields(cell).items() if typing.get_origin(kind) is tuple]


def axis_names(cell: type[Any]) -> list[str]:
    """The fields whose every value makes its own cell; they alone determine the draws."""
    return [name for name in cell_fields(cell) if name not in treatment_names(cell)]


def defaults(cell: type[Any]) -> dict[str, Any]:
    """The default of each field that a config may leave out."""
    return {f.name: f.default for f in dataclasses.fields(cell) if f.default is not dataclasses.MISSING}


def cell_of(cell: type[Any], row: Any) -> Any:
    """The cell of one row of a table, with the row's own treatment alone.

    Args:
        cell: the class of the experiment's cells.
        row: an object with the axes and treatments of the table as attributes.
    """
    values = {}
    for name, kind in cell_fields(cell).items():
        bare = typing.get_args(kind)[0] if typing.get_origin(kind) in (typing.Annotated, tuple) else kind
        parse = getattr(bare, "parse", bare)
        value = parse(getattr(row, name))
        values[name] = (value,) if name in treatment_names(cell) else value
    return cell(**values)
