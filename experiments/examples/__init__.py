"""Worked examples of scaled dot-product attention, step by step, and their starting data.

A module that binds `EXAMPLE` is an example and gives it its name. The other modules hold code that examples share. The
figure of an example is the module of the same name in `experiments.figures.examples`.
"""

import importlib
from pathlib import Path

from experiments.examples.example import Example, ExampleError


def example_names() -> list[str]:
    """The names of all examples, in alphabetical order; the function imports none, because `table` loads pandas."""
    return sorted(path.stem for path in Path(__path__[0]).glob("*.py") if "\nEXAMPLE = " in path.read_text("utf-8"))


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
