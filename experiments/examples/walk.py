"""The worked examples as files and on the terminal: examples.csv, pictures, and walks through one or own matrices."""

import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.examples.examples import EXAMPLES as DECLARED
from experiments.examples.steps import ExampleError, Step, long_table, own_steps
from experiments.paths import DRAWN, EXAMPLES, HOME
from experiments.run.files import write_atomically, write_files
from experiments.run.products import Product, build
from experiments.run.reporter import ALOUD, WIDTH, Reporter, tell, wrapped


def write_examples(results: Path, report: Reporter = ALOUD) -> None:
    """Write examples.csv, the numbers of all examples, and the picture of each, unless they are up to date."""
    products = [Product((results / EXAMPLES / "examples.csv",), _numbers)]
    for name in DECLARED:
        files = tuple(results / EXAMPLES / f"{name}{end}" for end in DRAWN)
        products.append(Product(files, partial(_drawn, name)))
    build(results, products, report)


def _numbers() -> list[bytes]:
    tables = [long_table(name, DECLARED[name].steps()) for name in sorted(DECLARED)]
    return [csv_bytes(pd.concat(tables, ignore_index=True))]


def _drawn(name: str) -> list[bytes]:
    title, source, draws, steps = DECLARED[name]
    return [*_draw(title, source, steps(), draws).values()]


def _draw(title: str, source: str, steps: list[Step], draws: str) -> dict[str, bytes]:
    from experiments.examples.picture import draw  # takes a second to load

    return draw(title, source, steps, draws)


def list_all() -> None:
    """Print the names of all examples as commands, each with its title."""
    lines = [(f"make walk EXAMPLE={spelled(name)}", DECLARED[name].title) for name in sorted(DECLARED)]
    lines.append(("make walk Q=q.csv K=k.csv V=v.csv", "Your own matrices, as CSV files; V= is optional"))
    tell("\n".join(f"{command:<34}  {title}" for command, title in lines))


def walk(typed: str) -> None:
    """Print an example step by step, and name its picture, which is drawn here only if it does not exist."""
    name = typed.replace("-", "_")
    if name not in DECLARED:
        raise ExampleError(f"got the example {typed}, expected one of {', '.join(map(spelled, sorted(DECLARED)))}")
    title, source, draws, of_example = DECLARED[name]
    steps, picture = of_example(), HOME / EXAMPLES / f"{name}.png"
    tell(f"{text(title, source, steps)}\n")
    if not picture.exists():
        write_files(picture.with_suffix(""), _draw(title, source, steps, draws))
    tell(f"figure: {picture}")


def walk_own(q: Path, k: Path, v: Path | None, scaling: str, mask: str, out: Path) -> None:
    """Print attention of the matrices in these files step by step, and write walk.csv and walk.png."""
    steps = own_steps(q, k, v, scaling=scaling, mask=mask)
    title, source = "Attention of your own matrices", ", ".join(str(path) for path in (q, k, v) if path)
    tell(f"{text(title, source, steps)}\n")
    write_atomically(out / "walk.csv", csv_bytes(long_table("walk", steps)))
    write_files(out / "walk", _draw(title, source, steps, "scores undivided_weights weights output"))
    tell(f"wrote {out / 'walk.csv'}\ndrew {out / 'walk.png'}")


def spelled(name: str) -> str:
    """A name as users type it in a command, with hyphens."""
    return name.replace("_", "-")


def text(title: str, source: str, steps: Sequence[Step]) -> str:
    """A whole example in at most 100 columns: its steps, numbered from 1, with aligned numbers."""
    lines = [title, f"From: {source}"]
    for place, (_, says, table, digits) in enumerate(steps, start=1):
        shown = table.map(lambda value, digits=digits: number(value, digits))
        numbers = shown.to_string(line_width=WIDTH - 3)
        lines += ["", wrapped(f"{place}. {says} ({len(table)} x {table.shape[1]})"), textwrap.indent(numbers, "   ")]
    return "\n".join(lines)


def number(value: float, digits: int) -> str:
    """A number with this many decimals; with a power of ten if it would show as zero.

    >>> number(-0.25, 2), number(3.7e-44, 4), number(0.0, 1)
    ('-0.25', '3.7e-44', '0.0')
    """
    fixed = f"{value:.{digits}f}"
    return fixed if value == 0 or float(fixed) else f"{value:.1e}"
