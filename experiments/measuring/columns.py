"""Columns of tables and axes of cells: each declared once, with its meaning, by the code that makes
it.

An experiment declares its cell as a dataclass. The functions here read its fields: their names and
types become keys of the config, columns of tables and parts of messages.
"""

import dataclasses
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

Type = Literal["int", "float", "str"]
Hint: TypeAlias = Any  # the type of a field, with its annotations
Json = int | float | str
DIGITS = "%.10g"  # of numbers in files
RULES = "scaling"  # the field of a cell with its rules, which all apply to one draw


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: the heading of the column.
        type: type of its values.
        meaning: what a value is, in words.
        formula: the same in symbols, if that adds something.
        unit: unit of its values; empty for a number without one.
        may_be_empty: True if a value may be missing; every other field must hold text or a finite
            number.
    """

    name: str
    type: Type
    meaning: str
    formula: str = ""
    unit: str = ""
    may_be_empty: bool = False


@dataclass(frozen=True)
class Meaning:
    """The meaning of a field of a cell, among its annotations: `Annotated[int, Ge(1),
    Meaning("width of ...")]`.
    """

    text: str


def names(columns: Iterable[Column]) -> list[str]:
    """The names of columns, in order.

    >>> names([Column("d_k", "int", "width of queries and keys")])
    ['d_k']
    """
    return [column.name for column in columns]


def axis_columns(cell: type) -> tuple[Column, ...]:
    """The columns of a cell's axes, with which every table of its cells begins; a type besides int
    and float is `str`.

    Raises:
        TypeError: an axis has no `Meaning`, or more than one.
    """
    types: dict[Hint, Type] = {int: "int", float: "float"}
    columns = []
    for name in axis_names(cell):
        bare, *notes = typing.get_args(kind := cell_fields(cell)[name]) or [kind]
        meanings = [note.text for note in notes if isinstance(note, Meaning)]
        if len(meanings) != 1:
            raise TypeError(
                f"field {name} of a cell: expected Annotated[..., Meaning(...)], got {kind}"
            )
        columns.append(Column(name, types.get(bare, "str"), meanings[0]))
    return tuple(columns)


def cell_fields(cell: type) -> dict[str, Hint]:
    """The fields of a cell with their types, annotations included, in the order of declaration."""
    return _cell_fields(cell)


@cache  # a wrapper, because mypy takes no class as an argument of a cached function
def _cell_fields(cell: type) -> dict[str, Hint]:
    hints = typing.get_type_hints(cell, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cell)}


def axis_names(cell: type) -> list[str]:
    """The fields whose every value makes its own cell; they alone determine the draws.

    >>> @dataclass
    ... class Cell:
    ...     d_k: int
    ...     scaling: tuple[str, ...]
    >>> axis_names(Cell)
    ['d_k']
    """
    return [name for name in cell_fields(cell) if name != RULES]


def defaults(cell: type) -> dict[str, object]:
    """The default of each field that a config may leave out; fields without one are required."""
    return {
        f.name: f.default for f in dataclasses.fields(cell) if f.default is not dataclasses.MISSING
    }


def axis_defaults(cell: type) -> dict[str, Json]:
    """The axes with a default and this default, as in a table: what a table that is older than an
    axis has there.
    """
    return {name: as_json(value) for name, value in defaults(cell).items()}


def as_json(value: object) -> Json:
    """A parameter as in tables and JSON: numbers stay numbers, everything else becomes its name.

    >>> from sdpa import Scaling
    >>> as_json(0.5), as_json(Scaling.parse("d_k^1/2"))
    (0.5, 'd_k^1/2')
    """
    return value if isinstance(value, int | float) else str(value)


@cache
def written(value: object) -> str:
    """A value as text of a CSV file: numbers, also those given as text, have ten significant digits.

    >>> written(0.12345678901), written("0"), written(0.0), written("none")
    ('0.123456789', '0', '0', 'none')
    """
    try:
        return DIGITS % float(str(value))
    except ValueError:
        return str(value)


def axis_values(cell: object) -> dict[str, Json]:
    """The axes of a cell and their values, as in a table."""
    return {name: as_json(getattr(cell, name)) for name in axis_names(type(cell))}


def with_error_columns(columns: Iterable[Column], between: str) -> tuple[Column, ...]:
    """Columns, each followed by its standard error between runs or stacks."""
    extended: list[Column] = []
    for column in columns:
        meaning = f"standard error of {column.name} between {between}"
        extended += [column, Column(f"{column.name}_se", "float", meaning)]
    return tuple(extended)


def describe(cell: object) -> str:
    """The name of a cell in messages: its sizes, and other axes unless they have their default.

    >>> from experiments.measuring.sampling import SampledCell
    >>> describe(SampledCell(d_k=8, n_keys=64, scaling=(), key_std=2.0))
    'd_k=8, n_keys=64, n_queries=64, key_std=2.0'
    """
    usual = axis_defaults(type(cell))
    return ", ".join(
        f"{name}={value}"
        for name, value in axis_values(cell).items()
        if isinstance(value, int) or value != usual.get(name)
    )
