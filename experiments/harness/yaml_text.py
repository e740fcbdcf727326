"""YAML text as plain values with their positions: only lists, mappings, numbers and text.

YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90 and `1e-3` as text. Here a plain scalar is a number if it looks
like one (`8`, `0.5`, `1e-3`, `1/3`, without leading zeros), and text otherwise. The reader refuses anchors, aliases and
tags, so that no text can build an object or grow while it is read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import yaml

_WHOLE = r"(?:0|[1-9]\d*)"
_NUMBER = re.compile(rf"[-+]?(?:{_WHOLE}/[1-9]\d*|(?:{_WHOLE}(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{{1,2}})?)")
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
    """Unreadable text; the arguments are its faults."""


class Document:
    """A YAML text: its value, the position of every part, and the faults that its readers find.

    YamlError if the text is not YAML, or contains more than plain keys, lists, numbers and text.

    >>> document = Document("sweeps: {wide: {d_k: [8, 1/4, no, 010]}}")
    >>> document.value, document.place(("sweeps", "wide", "d_k", 1))
    ({'sweeps': {'wide': {'d_k': [8, 0.25, 'no', '010']}}}, (1, 26))
    """

    def __init__(self, text: str) -> None:
        self.faults: list[Fault] = []
        self._nodes: dict[KeyPath, tuple[yaml.Node, yaml.Node]] = {}  # the key and the value at each path
        root = _compose(text)
        self.value = self._read((), root, root)

    def place(self, path: KeyPath, *, of_key: bool = False) -> tuple[int, int]:
        """Line and column of the value at a path, or of its key; if it is missing, of the nearest key above it."""
        path = nearest = self._canonical(path)
        while nearest not in self._nodes:
            nearest = nearest[:-1]
        key, value = self._nodes[nearest]
        return _place((key if of_key or nearest != path else value).start_mark)

    def written(self, path: KeyPath) -> str | None:
        """The scalar at a path as written, including quotes; None for anything else."""
        _, node = self._nodes.get(self._canonical(path), (None, None))
        if not isinstance(node, yaml.ScalarNode):
            return None
        return repr(node.value) if node.style else node.value

    def fault(self, path: KeyPath, message: str, place: tuple[int, int] | None = None) -> None:
        """Note a fault of a path, with its line and column unless `place` gives others."""
        name = _dotted(self._canonical(path))
        self.faults.append(Fault(*(place or self.place(path)), f"{name}: {message}" if name else message))

    def _canonical(self, path: KeyPath) -> KeyPath:
        """A path without the final 0 if a single value stands for a list of one."""
        return path[:-1] if path[-1:] == (0,) and path not in self._nodes else path

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
                self.fault((), "got a list or mapping as a key, expected a name", _place(name.start_mark))
                continue
            below = (*path, name.value)
            if below in self._nodes:
                line, _ = self.place(below, of_key=True)
                self.fault(below, f"got a duplicate key, expected it only on line {line}", _place(name.start_mark))
            else:
                mapping[name.value] = self._read(below, name, value)
        return mapping


def _dotted(path: KeyPath) -> str:
    """The name of a path in messages, such as sweeps.wide.d_k[2]."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def _place(mark: Any) -> tuple[int, int]:
    """Line and column of a position that PyYAML marks, from 1; the beginning if it marks none."""
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _plain_scalar(text: str) -> int | float | str | None:
    """The value of a scalar without quotes: a number if it looks like one, None if it is empty, and otherwise the text.

    >>> [_plain_scalar(text) for text in ("1/4", "2e3", "1:30", "")]
    [0.25, 2000, '1:30', None]
    """
    if text == "":
        return None
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return text
    number = Fraction(text)
    return int(number) if number.denominator == 1 else float(number)


def _compose(text: str) -> yaml.Node:
    """The nodes of a YAML text, from PyYAML; YamlError if it is too long, is not YAML, or has a part to refuse."""
    if len(text) > _MAX_CHARACTERS:
        raise YamlError(Fault(1, 1, f"got {len(text)} characters, expected at most {_MAX_CHARACTERS}"))
    try:
        if refused := list(_refused(text)):
            raise YamlError(*refused)
        return yaml.compose(text, Loader=yaml.SafeLoader) or yaml.ScalarNode("", "")
    except yaml.MarkedYAMLError as error:
        raise YamlError(Fault(*_place(error.problem_mark), f"not YAML: {error.problem}")) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        fault = Fault(len(before), len(before[-1]) + 1, f"got the character U+{error.character:04X}, expected text")
        raise YamlError(fault) from None


def _refused(text: str) -> Iterator[Fault]:
    """The positions of anything but plain keys, lists, numbers and text, up to the first that is too deep."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            got = "an anchor or alias"
        elif tag := getattr(event, "tag", None):
            got = f"the tag {tag}"
        elif depth > _MAX_LEVELS:
            got = f"more than {_MAX_LEVELS} levels"
        elif documents > 1:
            got = "a second document"
        else:
            continue
        yield Fault(*_place(event.start_mark), f"got {got}, expected plain keys, lists, numbers and text")
        if depth > _MAX_LEVELS or documents > 1:
            return


_SHORT = r"(?:0|[1-9][0-9]{0,11})(?:\^(?:0|[1-9][0-9]?))?"
RANGE = rf"({_SHORT}) *\.\. *({_SHORT}) *([*+]) *({_SHORT})"
POWER = rf"(?=.*\^){_SHORT}"
FRACTION = r"[-+]?(?:0|[1-9][0-9]*)/[1-9][0-9]*"
_MAX_RANGE = 100_000
_EXPECTED = "expected a range such as 4..512*2 or 16..64+16"


def with_power(value: Any) -> Any:
    """The whole number that a power such as 2^6 stands for; any other value as it is.

    >>> with_power("2^6"), with_power(64), with_power("many")
    (64, 64, 'many')
    """
    is_power = isinstance(value, str) and "^" in value and re.fullmatch(_SHORT, value)
    return _number(value) if is_power else value


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
        raise ValueError(_EXPECTED)
    first, last, step = (_number(parts[i]) for i in (1, 2, 4))
    multiplies = parts[3] == "*"
    if first > last or step < 1 + multiplies or (multiplies and not first):
        raise ValueError(f"{_EXPECTED}, which grows from its start to its end")
    if not multiplies and (last - first) // step >= _MAX_RANGE:
        raise ValueError(f"expected a range of at most {_MAX_RANGE} values")
    values = [first]
    while values[-1] < last:
        values.append(values[-1] * step if multiplies else values[-1] + step)
    if values[-1] > last:
        raise ValueError(f"expected a range that ends at one of its values, such as {values[-2]}")
    return values


def _number(text: str) -> int:
    base, _, exponent = text.partition("^")
    number: int = int(base) ** int(exponent or 1)
    return number
