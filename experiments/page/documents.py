"""Markdown pages with `>>>` examples that run, and with the numbers that they print.

The tests run these examples too, so a page cannot show a number that its code no longer gives.
"""

import contextlib
import doctest
import io
import re
from pathlib import Path
from typing import Any

from experiments.harness.files import write_atomically
from experiments.harness.problems import Problem

_FENCE = re.compile(r"^[ \t]*(```|~~~).*$", re.MULTILINE)


class DocumentError(Problem):
    """An example that does not run; the message names its line."""


def rerun(text: str) -> str:
    """The text with the current output of every `>>>` example; all examples share one namespace.

    Raises:
        DocumentError: an example raises, or doctest cannot read it (the message names its line).

    >>> rerun(">>> 3 / 2\\n1.6\\n")
    '>>> 3 / 2\\n1.5\\n'
    """
    lines = text.split("\n")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    # Without fences, which doctest would read as output; every line keeps its number.
    try:
        examples = doctest.DocTestParser().get_examples(_FENCE.sub("", text))
    except ValueError as error:
        raise DocumentError(str(error)) from error
    outputs = [_output(example, namespace) for example in examples]
    for example, output in reversed(
        list(zip(examples, outputs, strict=True))
    ):  # from the end, so that earlier lines keep their numbers
        first = example.lineno + example.source.count("\n")
        lines[first : first + example.want.count("\n")] = [" " * example.indent + line for line in output]
    return "\n".join(lines)


def rewrite_documents(folder: Path) -> None:
    """Rerun every Markdown page of a folder, and write the pages with changed numbers.

    Raises:
        DocumentError: an example raises, or doctest cannot read it (the message names the file and the line).
    """
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        try:
            rewritten = rerun(text)
        except DocumentError as error:
            raise DocumentError(f"{path}: {error}") from error
        if rewritten != text:
            write_atomically(path, rewritten.encode())


def _output(example: doctest.Example, namespace: dict[str, Any]) -> list[str]:
    """The lines that an example prints, with empty lines marked as in doctest."""
    line = example.lineno + 1
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(compile(example.source, f"<example at line {line}>", "single"), namespace)
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
            raise DocumentError(f"line {line}: expected an example that runs, got {got}") from error
    return [shown or "<BLANKLINE>" for shown in printed.getvalue().splitlines()]
