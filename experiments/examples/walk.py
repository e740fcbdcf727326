"""The worked examples as files and on the terminal, and walks through a user's own matrices."""

import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.examples.examples import EXAMPLES as DECLARED
from experiments.examples.own import ExampleError, listed, own_steps
from experiments.examples.steps import Example, Step, long_table
from experiments.files import write_atomically, write_files
from experiments.output.products import Product, build
from experiments.output.reporter import WIDTH, Reporter, tell, wrapped
from experiments.paths import DRAWN, EXAMPLES, SHIPPED_RESULTS


def write_examples(results: Path, report: Reporter) -> None:
    """Write examples.csv and the picture of each example, unless they are up to date."""
    folder = results / EXAMPLES
    products = [Product((folder / "examples.csv",), _numbers)]
    for name in DECLARED:
        files = tuple(folder / f"{name}{end}" for end in DRAWN)
        products.append(Product(files, partial(_drawn, name)))
    build(results, products, report)


def _numbers() -> list[bytes]:
    tables = [long_table(name, DECLARED[name].steps()) for name in sorted(DECLARED)]
    return [csv_bytes(pd.concat(tables, ignore_index=True))]


def _drawn(name: str) -> list[bytes]:
    example = DECLARED[name]
    return [*_draw(example, example.steps()).values()]


def _draw(example: Example, steps: list[Step]) -> dict[str, bytes]:
    from experiments.examples.picture import draw  # takes a second to load

    return draw(example.title, example.source, steps, example.draws)


def list_all() -> None:
    """Print the names of all examples as commands, each with its title."""
    commands = {f"EXAMPLE={spelled(name)}": DECLARED[name].title for name in sorted(DECLARED)}
    commands["Q=q.csv K=k.csv V=v.csv"] = "Your own matrices, as CSV files; V= is optional"
    lines = [f"{'make walk ' + words:<34}  {title}" for words, title in commands.items()]
    tell("\n".join(lines))


def walk(typed: str) -> None:
    """Print an example step by step, and name its picture, which is drawn if it does not exist."""
    name = typed.replace("-", "_")
    if name not in DECLARED:
        names = ", ".join(map(spelled, sorted(DECLARED)))
        raise ExampleError(f"got the example {typed}, expected one of {names}")
    example = DECLARED[name]
    picture = SHIPPED_RESULTS / EXAMPLES / f"{name}.png"
    steps = example.steps()
    tell(f"{text(example, steps)}\n")
    if not picture.exists():
        write_files(picture.with_suffix(""), _draw(example, steps))
    tell(f"figure: {picture}")


def walk_own(q: Path, k: Path, v: Path | None, scaling: str, mask: str, out: Path) -> None:
    """Print attention of the matrices in these files; write walk.csv and walk.png."""
    steps = own_steps(q, k, v, scaling=scaling, mask=mask)
    example = Example(
        "Attention of your own matrices",
        listed(q, k, v),
        "scores undivided_weights weights output",
        lambda: steps,
    )
    tell(f"{text(example, steps)}\n")
    write_atomically(out / "walk.csv", csv_bytes(long_table("walk", steps)))
    write_files(out / "walk", _draw(example, steps))
    tell(f"wrote {out / 'walk.csv'}\ndrew {out / 'walk.png'}")


def spelled(name: str) -> str:
    """A name as users type it in a command, with hyphens."""
    return name.replace("_", "-")


def text(example: Example, steps: Sequence[Step]) -> str:
    """A whole example in at most 100 columns: its steps, numbered from 1, with aligned numbers."""
    lines = [example.title, f"From: {example.source}"]
    for place, (_, says, table, digits) in enumerate(steps, start=1):
        height, width = table.shape
        numbers = table.map(partial(number, digits=digits)).to_string(line_width=WIDTH - 3)
        lines += ["", wrapped(f"{place}. {says} ({height} x {width})")]
        lines.append(textwrap.indent(numbers, "   "))
    return "\n".join(lines)


def number(value: float, digits: int) -> str:
    """A number with this many decimals; with a power of ten if it would show as zero.

    >>> number(-0.25, 2), number(3.7e-44, 4), number(0.0, 1)
    ('-0.25', '3.7e-44', '0.0')
    """
    fixed = f"{value:.{digits}f}"
    return fixed if value == 0 or float(fixed) else f"{value:.1e}"
