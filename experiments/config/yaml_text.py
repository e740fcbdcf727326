"""YAML text as plain values with their positions: only lists, mappings, numbers and text.

YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90 and `1e-3` as text. Here a plain scalar is a
number if it looks like one, such as 8, 0.5, 1e-3, 1/3 or 2^6, and text otherwise. Tags have no
meaning, so that no text can build an object.
"""

import re
from fractions import Fraction
from typing import TypeAlias

import yaml

_WHOLE = r"(?:0|[1-9][0-9]*)"
_POWER = r"(?:0|[1-9][0-9]{0,11})\^(?:0|[1-9][0-9]?)"
_FRACTION = rf"[-+]?{_WHOLE}/[1-9][0-9]*"
_DECIMAL = rf"[-+]?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,2}})?"
_NUMBER = re.compile(rf"{_POWER}|{_FRACTION}|{_DECIMAL}")
_END = rf"(?:{_POWER}|{_WHOLE})"
_RANGE = rf"({_END}) *\.\. *({_END}) *([*+]) *({_END})"
_A_RANGE = "a range such as 4..512*2 or 16..64+16"
_EXPECTED = f"expected a whole number such as 64 or 2^6, or {_A_RANGE}"
# Patterns in PyYAML's messages, and what we say instead.
_OUR_WORDS = {
    r"expected <block end>, but found '[<?-].*": "wrong indentation, expected all keys of a block in "
    "one column",
    "mapping values are not.*": "expected one KEY: VALUE in a line, indented as its neighbours are",
    r"found character '\\t'.*": "got a tab, expected spaces",
    "expected (.*), but (?:got|found) (.*)": r"got \2, expected \1",
    "'?<block end>'?": "the end of the block",
    "'?<stream end>'?": "the end of the file",
}
_MAX_RANGE = 100_000
_MAX_NUMBER_LENGTH = 40

# A plain value: a number, text, or a list or mapping of such values.
Plain: TypeAlias = "int | float | str | list[Plain] | dict[str, Plain]"
KeyPath = tuple[str | int, ...]


class Fault(Exception):  # noqa: N818
    """A fault at a mark of PyYAML, whose line and column count from 0."""

    def __init__(self, mark: yaml.Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark


class Document:
    """A YAML text: its value, and the faults that its readers find.

    Raises:
        Fault: the text is no YAML mapping.

    >>> Document("sweeps: {wide: {d_k: [8, 1/4, 2^6, 010]}}").value
    {'sweeps': {'wide': {'d_k': [8, 0.25, 64, '010']}}}
    """

    def __init__(self, text: str) -> None:
        self.faults: list[Fault] = []
        self._nodes: dict[
            KeyPath, tuple[yaml.Node, yaml.Node]
        ] = {}  # of the key and the value at each path
        root = _compose(text)
        self._nodes[()] = root, root
        self.value = self._read_mapping((), root)

    def fault(self, path: KeyPath, message: str, *, is_key: bool = False) -> None:
        """Note a fault of a path, such as sweeps.wide.d_k[2], at its value or its key.

        A mapping counts as its key, and so does the mapping that misses the last key of the path.
        """
        path = self._known(path)
        key, value = self._nodes.get(path) or self._nodes[path[:-1]]
        at_key = is_key or isinstance(value, yaml.MappingNode)
        self._note(key if at_key else value, path, message)

    def written(self, path: KeyPath) -> str:
        """The value at a path as written, with quotes; nothing, a list or a mapping, empty
        or not, in these words.
        """
        _, node = self._nodes[self._known(path)]
        if isinstance(node, yaml.CollectionNode):
            kind = "list" if isinstance(node, yaml.SequenceNode) else "mapping"
            return f"a {kind}" if node.value else f"an empty {kind}"
        text = repr(node.value) if _is_quoted(node) else str(node.value)
        return text[:80] or "nothing"

    def _known(self, path: KeyPath) -> KeyPath:
        """A path without final indices of a single value or a range, which stand for a list."""
        while path not in self._nodes and isinstance(path[-1], int):
            path = path[:-1]
        return path

    def _note(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        name = ""
        for part in path:
            name += f"[{part}]" if isinstance(part, int) else f".{part}"
        if len(name) > 1:
            message = f"{name[1:]}: {message}"
        self.faults.append(Fault(node.start_mark, message))

    def _read(self, path: KeyPath, key: yaml.Node, node: yaml.Node) -> Plain:
        """The plain value of a node; notes positions."""
        self._nodes[path] = key, node
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(path, node)
        if isinstance(node, yaml.SequenceNode):
            return [self._read((*path, i), item, item) for i, item in enumerate(node.value)]
        return str(node.value) if _is_quoted(node) else number_or_text(node.value)

    def _read_mapping(self, path: KeyPath, node: yaml.MappingNode) -> dict[str, Plain]:
        """The values by key. Duplicate keys, and keys that are no names, become faults."""
        mapping: dict[str, Plain] = {}
        for key, value in node.value:
            below = (*path, key.value)
            if not isinstance(key, yaml.ScalarNode):
                self._note(key, (), "got a list or mapping as a key, expected a name")
            elif key.value in mapping:
                first, _ = self._nodes[below]
                line = first.start_mark.line + 1
                self._note(key, below, f"got a duplicate key, expected it only on line {line}")
            else:
                mapping[key.value] = self._read(below, key, value)
        return mapping


def _is_quoted(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and bool(node.style)


def _compose(text: str) -> yaml.MappingNode:
    """The nodes of a YAML text, from PyYAML."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        message = str(error.problem).removeprefix("but ")
        for theirs, ours in _OUR_WORDS.items():
            message = re.sub(theirs, ours, message)
        raise Fault(error.problem_mark or _mark(""), f"not YAML: {message}") from None
    except yaml.reader.ReaderError as error:
        message = f"got the character U+{error.character:04X}, expected text"
        raise Fault(_mark(text[: error.position]), message) from None
    if not isinstance(root, yaml.MappingNode):
        raise Fault(_mark(""), "got no mapping, expected the keys seed and sweeps")
    return root


def _mark(before: str) -> yaml.Mark:
    """The mark after a part of a text."""
    *lines, last = before.split("\n")
    return yaml.Mark("", len(before), len(lines), len(last), None, 0)


def number_or_text(text: str) -> int | float | str:
    """The number that a text spells; any other text itself.

    >>> [number_or_text(text) for text in ("1/4", "2e3", "2^6", "1:30")]
    [0.25, 2000, 64, '1:30']
    """
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return text
    base, _, exponent = text.partition("^")
    number = Fraction(base) ** int(exponent or 1)
    if number.denominator == 1:
        return int(number)
    return float(number)


def range_or_value(value: Plain) -> tuple[Plain, ...]:
    """The whole numbers of a range, both ends included; a value that is no text alone.

    `a..b*f` multiplies by f, and `a..b+s` adds s.

    Raises:
        ValueError: the text is no range, or one with no end at b or too many values.

    >>> range_or_value("4..32*2"), range_or_value("2^4..64+16"), range_or_value(8)
    ((4, 8, 16, 32), (16, 32, 48, 64), (8,))
    """
    if not isinstance(value, str):
        return (value,)
    match = re.fullmatch(_RANGE, value)
    if not match:
        raise ValueError(_EXPECTED)
    first, last, step = (int(number_or_text(match[i])) for i in (1, 2, 4))
    adds = match[3] == "+"
    growth = step if adds else first * (step - 1)
    if first > last or growth < 1:
        raise ValueError(f"expected {_A_RANGE}, which grows from its start to its end")
    if adds and (last - first) // step >= _MAX_RANGE:
        raise ValueError(f"expected a range of at most {_MAX_RANGE} values")
    values = [first]
    while values[-1] < last:
        values.append(values[-1] + step if adds else values[-1] * step)
    if values[-1] > last:
        raise ValueError(f"expected a range that ends at one of its values, such as {values[-2]}")
    return tuple(values)
