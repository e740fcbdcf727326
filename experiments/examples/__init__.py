"""Worked examples of scaled dot-product attention, step by step, and their starting data.

A module that binds `EXAMPLE` is an example and gives it its name. The other modules hold code that examples share. The
figure of an example is the module of the same name in `experiments.figures.examples`.
"""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

from experiments.examples.example import Example, ExampleError


@cache
def example_titles() -> dict[str, str]:
    """The title of every example by name, in alphabetical order; read, not imported: some examples load SciPy."""
    sources = {path.stem: path.read_text("utf-8") for path in sorted(Path(__path__[0]).glob("*.py"))}
    found = {name: re.search(r'^EXAMPLE = Example\((".*?"),', text, re.MULTILINE) for name, text in sources.items()}
    return {name: ast.literal_eval(declared[1]) for name, declared in found.items() if declared}


def example_names() -> list[str]:
    """The names of all examples, in alphabetical order."""
    return list(example_titles())


def load_example(name: str) -> Example:
    """The example of that name.

    Raises:
        ExampleError: no example has the name; the message lists all examples.
    """
    if name not in example_names():
        raise ExampleError(
            f"got the example {spelled(name)}, expected one of {', '.join(map(spelled, example_names()))}"
        )
    example: Example = importlib.import_module(f"{__name__}.{name}").EXAMPLE
    return example


def spelled(name: str) -> str:
    """A name as users type it in a command, with hyphens."""
    return name.replace("_", "-")
