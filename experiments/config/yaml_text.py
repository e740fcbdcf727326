"""YAML text as plain values with their positions: only lists, mappings, numbers and text.

YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90 and `1e-3` as text. Here a plain scalar is a number if it looks
like one (`8`, `0.5`, `1e-3`, `1/3`, `2^6`, without leading zeros), and text otherwise. The reader refuses anchors,
aliases and tags, so that no text can build an object or grow while it is read.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import yaml

_WHOLE = r"(?:0|[1-9][0-9]*)"
POWER = r"(?:0|[1-9][0-9]{0,11})\^(?:0|[1-9][0-9]?)"
FRACTION = rf"[-+]?{_WHOLE}/[1-9][0-9]*"
_NUMBER = re.compile(rf"{POWER}|{FRACTION}|[-+]?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,2}})?")
_END = rf"(?:{POWER}|{_WHOLE})"
RANGE = rf"({_END}) *\.\. *({_END}) *([*+]) *({_END})"
_EXPECTED_RANGE = "expected a range such as 4..512*2 or 16..64+16"
_MAX_RANGE = 100_000
_MAX_NUMBER_LENGTH = 40
_MAX_LEVELS = 10
_MAX_CHARACTERS = 10**6

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """A fault at a position of the text; line and column count from 1, and are 0 for a file that is unreadable."""

    line: int
    column: int
    message: str


class YamlError(ValueError):
    """Unreadable text; the argument is its fault."""


class Document:
    """A YAML text: its value, the position of every part, and the faults that its readers find.

    YamlError if the text is not YAML, or contains more than plain keys, lists, numbers and text.

    >>> document = Document("sweeps: {wide: {d_k: [8, 1/4, 2^6, 010]}}")
    >>> document.value, document.place(("sweeps", "wide", "d_k", 1))
    ({'sweeps': {'wide': {'d_k': [8, 0.25, 64, '010']}}}, (1, 26))
    """

    def __init__(self, text: str) -> None:
        self.faults: list[Fault] = []
        self._nodes: dict[KeyPath, tuple[yaml.Node, yaml.Node]] = {}  # the key and the value at each path
        root = _compose(text)
        self.value = self._read((), root, root)

    def place(self, path: KeyPath, *, of_key: bool = False) -> tuple[int, int]:
        """Line and column of the value at a path, or of its key; of a mapping, its key; if missing, a key above it."""
        path = nearest = self._known(path)
        while nearest not in self._nodes:
            nearest = nearest[:-1]
        key, value = self._nodes[nearest]
        at_key = of_key or nearest != path or isinstance(value, yaml.MappingNode)
        return _place((key if at_key else value).start_mark)

    def written(self, path: KeyPath) -> str:
        """The value at a path as written, including quotes; nothing, a list or a mapping in these words."""
        _, node = self._nodes[self._known(path)]
        if not isinstance(node, yaml.ScalarNode):
            return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        return repr(node.value)[:80] if node.style else node.value[:80] or "nothing"

    def fault(self, path: KeyPath, message: str, *, of_key: bool = False, mark: Any = None) -> None:
        """Note a fault of a path, such as sweeps.wide.d_k[2], at its value, at its key, or at a mark of PyYAML."""
        path = self._known(path)
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
        place = _place(mark) if mark else self.place(path, of_key=of_key)
        self.faults.append(Fault(*place, f"{name}: {message}" if name else message))

    def _known(self, path: KeyPath) -> KeyPath:
        """A path without final indices of a single value or a range, which stand for a list."""
        while path not in self._nodes and isinstance(path[-1], int):
            path = path[:-1]
        return path

    def _read(self, path: KeyPath, key: yaml.Node, node: yaml.Node) -> Any:
        """The plain value of a node; notes positions. Duplicate keys, and keys that are no names, become faults."""
        self._nodes[path] = key, node
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style else _plain_scalar(node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self._read((*path, i), item, item) for i, item in enumerate(node.value)]
        mapping = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self.fault((), "got a list or mapping as a key, expected a name", mark=name.start_mark)
                continue
            below = (*path, name.value)
            if below in self._nodes:
                line, _ = self.place(below, of_key=True)
                self.fault(below, f"got a duplicate key, expected it only on line {line}", mark=name.start_mark)
            else:
                mapping[name.value] = self._read(below, name, value)
        return mapping


def with_range(value: Any) -> list[Any]:
    """The whole numbers of a range, both ends included; any other value as the only one.

    `a..b*f` multiplies by f, and `a..b+s` adds s.

    Raises:
        ValueError: the range has another form, no end at b, or too many values.

    >>> with_range("4..32*2"), with_range("2^4..64+16"), with_range(8)
    ([4, 8, 16, 32], [16, 32, 48, 64], [8])
    """
    if not isinstance(value, str) or ".." not in value:
        return [value]
    parts = re.fullmatch(RANGE, value)
    if not parts:
        raise ValueError(_EXPECTED_RANGE)
    first, last, step = (int(_plain_scalar(parts[i]) or 0) for i in (1, 2, 4))
    multiplies = parts[3] == "*"
    if first > last or step < 1 + multiplies or (multiplies and not first):
        raise ValueError(f"{_EXPECTED_RANGE}, which grows from its start to its end")
    if not multiplies and (last - first) // step >= _MAX_RANGE:
        raise ValueError(f"expected a range of at most {_MAX_RANGE} values")
    values = [first]
    while values[-1] < last:
        values.append(values[-1] * step if multiplies else values[-1] + step)
    if values[-1] > last:
        raise ValueError(f"expected a range that ends at one of its values, such as {values[-2]}")
    return values


def _plain_scalar(text: str) -> int | float | str | None:
    """The value of a scalar without quotes: a number if it looks like one, None if it is empty, and otherwise the text.

    >>> [_plain_scalar(text) for text in ("1/4", "2e3", "2^6", "1:30", "")]
    [0.25, 2000, 64, '1:30', None]
    """
    if text == "":
        return None
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return text
    base, _, exponent = text.partition("^")
    number = Fraction(base) ** int(exponent or 1)
    return int(number) if number.denominator == 1 else float(number)


def _place(mark: Any) -> tuple[int, int]:
    """Line and column of a position that PyYAML marks, from 1; the beginning if it marks none."""
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


class _Loader(yaml.SafeLoader):
    """PyYAML's composer, but only of plain keys, lists, numbers and text of few levels."""

    _levels = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor:
            got = "an anchor or alias"
        elif event.tag:
            got = f"the tag {event.tag}"
        else:
            got = f"more than {_MAX_LEVELS} levels" if self._levels > _MAX_LEVELS else ""
        if got:
            message = f"got {got}, expected plain keys, lists, numbers and text"
            raise YamlError(Fault(*_place(event.start_mark), message))
        self._levels += 1
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node


def _compose(text: str) -> yaml.Node:
    """The nodes of a YAML text, from PyYAML; YamlError if it is too long, is not YAML, or has a part to refuse."""
    if len(text) > _MAX_CHARACTERS:
        raise YamlError(Fault(1, 1, f"got {len(text)} characters, expected at most {_MAX_CHARACTERS}"))
    try:
        return yaml.compose(text, Loader=_Loader) or yaml.ScalarNode("", "")
    except yaml.MarkedYAMLError as error:
        raise YamlError(
            Fault(*_place(error.problem_mark), f"not YAML: {str(error.problem).removeprefix('but ')}")
        ) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        fault = Fault(len(before), len(before[-1]) + 1, f"got the character U+{error.character:04X}, expected text")
        raise YamlError(fault) from None
