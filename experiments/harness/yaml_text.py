"""YAML text to plain values and the places where they stand: lists, mappings, numbers and text, nothing else.

YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90 and `1e-3` as text. Here a plain scalar is a number when it
reads as one (`8`, `0.5`, `1e-3`, `1/3`, without leading zeros), and text otherwise. Anchors, aliases and tags are
refused, so no text can build an object or grow when it is read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import yaml

_WHOLE = r"(?:0|[1-9]\d*)"
_NUMBER = re.compile(rf"[-+]?(?:{_WHOLE}/[1-9]\d*|(?:{_WHOLE}(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{{1,2}})?)")
_LONGEST_NUMBER = 40
_DEEPEST = 10
_LONGEST_TEXT = 10**6

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """Something wrong at a place of the text; line and column count from 1."""

    line: int
    column: int
    message: str


class YamlError(ValueError):
    """Text that cannot be read at all."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


class Document:
    """A YAML text: its value, the faults in its form, and the place of every part of it."""

    def __init__(self, text: str) -> None:
        self.faults: list[Fault] = []
        self._keys: dict[int, dict[str, yaml.Node]] = {}
        self._root = _compose(text)
        self.value = self._read(self._root, ())

    def place(self, path: KeyPath, *, of_key: bool = False) -> tuple[int, int]:
        """Line and column of the value at a path, or of its key; of the nearest part above it where it is missing."""
        node, key = self._root, self._root
        for part in path:
            below = self._below(node, part)
            if below is None:
                return _place(key)
            key, node = below
        return _place(key if of_key else node)

    def name(self, path: KeyPath) -> str:
        """A path as it is named in messages, without the 0 of a value that stands for a list of one."""
        node: yaml.Node | None = self._root
        kept: list[str | int] = []
        for part in path:
            if part != 0 or not isinstance(node, yaml.ScalarNode | yaml.MappingNode):
                kept.append(part)
            below = self._below(node, part) if node else None
            node = below[1] if below else None
        return dotted(tuple(kept))

    def written(self, path: KeyPath) -> str | None:
        """The scalar at a path as it is written, quotes and all; None where something else stands there."""
        node = self._root
        for part in path:
            below = self._below(node, part)
            if below is None:
                return None
            node = below[1]
        if not isinstance(node, yaml.ScalarNode):
            return None
        return repr(node.value) if node.style else node.value

    def _below(self, node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
        if isinstance(node, yaml.MappingNode) and isinstance(part, str):
            key = self._keys[id(node)].get(part)
            return None if key is None else (key, next(value for k, value in node.value if k is key))
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            return node.value[part], node.value[part]
        # What is no list stands for the list of one that holds it.
        return (node, node) if part == 0 else None

    def _read(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return [self._read(item, (*path, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style else _plain_scalar(node.value)
        keys = self._keys[id(node)] = {}
        mapping = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._fault(key, "got a list or mapping as a key, expected a name")
            elif key.value in keys:
                first = keys[key.value].start_mark.line + 1
                self._fault(key, f"{dotted((*path, key.value))}: got this key again, expected it once (line {first})")
            else:
                keys[key.value] = key
                mapping[key.value] = self._read(value, (*path, key.value))
        return mapping

    def _fault(self, node: yaml.Node, message: str) -> None:
        self.faults.append(Fault(*_place(node), message))


def dotted(path: KeyPath) -> str:
    """A path as it is named in messages: `sweeps.scaling.d_k[2]`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def _place(part: yaml.Node | yaml.Event) -> tuple[int, int]:
    mark = part.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _plain_scalar(text: str) -> int | float | str | None:
    if text == "":
        return None
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return text
    number = Fraction(text)
    return int(number) if number.denominator == 1 else float(number)


def _compose(text: str) -> yaml.Node:
    if len(text) > _LONGEST_TEXT:
        raise YamlError([Fault(1, 1, f"got {len(text)} characters, expected at most {_LONGEST_TEXT}")])
    try:
        events = list(yaml.parse(text, Loader=yaml.SafeLoader))
        faults = list(_refused(events))
        if faults:
            raise YamlError(faults)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlError([Fault(line, column, f"not YAML: {error.problem}")]) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1) + 1
        fault = Fault(before.count("\n") + 1, column, f"got the character U+{error.character:04X}, expected text")
        raise YamlError([fault]) from None
    if node is None:
        raise YamlError([Fault(1, 1, "got an empty file, expected the keys seed and sweeps")])
    return node


def _refused(events: list[yaml.Event]) -> Iterator[Fault]:
    depth = documents = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            what = "an anchor or alias"
        elif tag := getattr(event, "tag", None):
            what = f"the tag {tag}"
        elif depth > _DEEPEST:
            what = f"more than {_DEEPEST} levels"
        elif documents > 1:
            what = "a second document"
        else:
            continue
        yield Fault(*_place(event), f"got {what}, expected plain keys, lists, numbers and text")
        if depth > _DEEPEST or documents > 1:
            return
