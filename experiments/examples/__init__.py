"""Worked examples of scaled dot-product attention, step by step, one module each, which binds `EXAMPLE`.

`steps` has what examples share, `text` prints an example, `picture` draws it, and `own` reads a user's matrices.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.examples.steps import Example


class ExampleError(ValueError):
    """A missing example, or matrices that are not valid inputs of attention; the message names the expectation."""


def example_names() -> list[str]:
    """The names of all examples, in alphabetical order; the function imports none, because they load pandas."""
    return sorted(path.stem for path in Path(__path__[0]).glob("*.py") if "\nEXAMPLE = " in path.read_text("utf-8"))


def load_example(name: str) -> "Example":
    """The example of that name; ExampleError lists all examples if there is none."""
    if name not in example_names():
        names = ", ".join(map(spelled, example_names()))
        raise ExampleError(f"got the example {spelled(name)}, expected one of {names}")
    example: Example = importlib.import_module(f"{__name__}.{name}").EXAMPLE
    return example


def spelled(name: str) -> str:
    """A name as users type it in a command, with hyphens."""
    return name.replace("_", "-")
