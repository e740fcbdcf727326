"""YAML text as plain values with their positions: only lists, mappings, numbers and text.

YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90 and `1e-3` as text. Here a plain scalar is a
number if it looks like one (see `spelling`), and text otherwise. The reader refuses anchors,
aliases and tags, so that no text can build an object or grow while it is read.
"""

from typing import Any

import yaml

from experiments.config.spelling import number_or_text

_MAX_LEVELS = 10  # PyYAML takes time in proportion to the square of the depth of brackets
_PLAIN = "expected plain keys, lists, numbers and text"
# Parts of PyYAML's messages, and ours.
_PROBLEMS = {
    r"'\t'": "got a tab, expected spaces",
    "but found '<block mapping start>'": "got another indentation than the keys above",
    "could not find expected ':'": "got no `: `, expected `key: value`",
    "mapping values are not allowed here": "got a second colon, expected one `key: value` per line",
    "expected ',' or ']'": "got a list without its closing bracket",
}
# Of these, PyYAML marks the next line, and gives the place meant as their context.
_EARLIER = "while scanning a simple key", "while parsing a flow sequence"

KeyPath = tuple[str | int, ...]


class Fault(Exception):  # noqa: N818
    """A fault at a mark of PyYAML, whose line and column count from 0."""

    def __init__(self, mark: Any, message: str) -> None:
        super().__init__(message)
        self.mark = mark


class Document:
    """A YAML text: its value, and the faults that its readers find.

    Raises:
        Fault: the text is no YAML mapping, or contains more than plain keys, lists, numbers and
        text.

    >>> Document("sweeps: {wide: {d_k: [8, 1/4, 2^6, 010]}}").value
    {'sweeps': {'wide': {'d_k': [8, 0.25, 64, '010']}}}
    """

    def __init__(self, text: str) -> None:
        self.faults: list[Fault] = []
        self._nodes: dict[KeyPath, tuple[Any, Any]] = {}  # of the key and the value at each path
        root = _compose(text)
        self.value = self._read((), root, root)

    def fault(self, path: KeyPath, message: str, *, of_key: bool = False) -> None:
        """Note a fault of a path, such as sweeps.wide.d_k[2], at its value or its key.

        A mapping counts as its key, and so does the mapping that misses the last key of the path.
        """
        path = self._known(path)
        key, value = self._nodes.get(path) or self._nodes[path[:-1]]
        at_key = of_key or isinstance(value, yaml.MappingNode)
        self._note(key if at_key else value, path, message)

    def written(self, path: KeyPath) -> str:
        """The value at a path as written, with quotes; nothing, a list or a mapping in these
        words.
        """
        _, node = self._nodes[self._known(path)]
        if isinstance(node, yaml.SequenceNode):
            return "a list"
        if isinstance(node, yaml.MappingNode):
            return "a mapping"
        text = repr(node.value) if node.style else node.value
        return text[:80] or "nothing"

    def _known(self, path: KeyPath) -> KeyPath:
        """A path without final indices of a single value or a range, which stand for a list."""
        while path not in self._nodes and isinstance(path[-1], int):
            path = path[:-1]
        return path

    def _note(self, node: Any, path: KeyPath, message: str) -> None:
        name = ""
        for part in path:
            name += f"[{part}]" if isinstance(part, int) else f".{part}"
        if len(name) > 1:
            message = f"{name[1:]}: {message}"
        self.faults.append(Fault(node.start_mark, message))

    def _read(self, path: KeyPath, key: Any, node: Any) -> Any:
        """The plain value of a node; notes positions."""
        self._nodes[path] = key, node
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(path, node)
        if isinstance(node, yaml.SequenceNode):
            return [self._read((*path, i), item, item) for i, item in enumerate(node.value)]
        return node.value if node.style else number_or_text(node.value)

    def _read_mapping(self, path: KeyPath, node: yaml.MappingNode) -> dict[str, Any]:
        """The values by key. Duplicate keys, and keys that are no names, become faults."""
        mapping: dict[str, Any] = {}
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


def _compose(text: str) -> yaml.MappingNode:
    """The nodes of a YAML text, from PyYAML."""
    try:
        _refuse_more_than_plain(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error) from None
    except yaml.reader.ReaderError as error:
        message = f"got the character U+{error.character:04X}, expected text"
        raise Fault(_mark(text[: error.position]), message) from None
    if not isinstance(root, yaml.MappingNode):
        raise Fault(_mark(""), "got no mapping, expected the keys seed and sweeps")
    return root


def _not_yaml(error: yaml.MarkedYAMLError) -> Fault:
    """The fault of a text that PyYAML cannot read, in our words if it is a frequent one."""
    problem = str(error.problem).removeprefix("but ")
    ours = [words for part, words in _PROBLEMS.items() if part in problem]
    mark = error.context_mark if error.context in _EARLIER else error.problem_mark
    return Fault(mark, f"not YAML: {(ours or [problem])[0]}")


def _mark(before: str) -> yaml.Mark:
    """The mark after a part of a text."""
    *lines, last = before.split("\n")
    return yaml.Mark("", len(before), len(lines), len(last), None, 0)


def _refuse_more_than_plain(text: str) -> None:
    """Raise the first anchor, alias, tag or excess of levels, before PyYAML reads on."""
    levels = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
        if isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
        if levels > _MAX_LEVELS:
            raise Fault(event.start_mark, f"got more than {_MAX_LEVELS} levels, {_PLAIN}")
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise Fault(event.start_mark, f"got an anchor, alias or tag, {_PLAIN}")
