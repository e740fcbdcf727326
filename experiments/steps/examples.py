"""The worked examples as files and on the terminal: examples.csv, pictures, and walks through one or own matrices."""

from functools import partial
from pathlib import Path

from experiments.examples import ExampleError, example_names, load_example, spelled
from experiments.folders import EXAMPLES, HOME, WALK, example_path
from experiments.harness.files import write_atomically, write_files
from experiments.harness.tables import csv_bytes
from experiments.steps.reporter import ALOUD, Reporter
from experiments.steps.saying import tell
from experiments.steps.sweeps import DRAWN


def write_examples(results: Path, report: Reporter = ALOUD) -> None:
    """Write examples.csv, the numbers of all examples, and the picture of each, unless they are up to date.

    Args:
        results: the step writes to its folder `examples`.
        report: told about each file.
    """
    from experiments.harness.products import Product, build

    names, table = example_names(), example_path(results, EXAMPLES, ".csv")
    products = [Product((table,), _numbers)]
    products += [
        Product(tuple(example_path(results, name, end) for end in DRAWN), partial(_drawn, name)) for name in names
    ]
    build(results, products, report.made)


def _numbers() -> list[bytes]:
    import pandas as pd

    from experiments.examples.steps import long_table

    tables = [long_table(name, load_example(name).steps()) for name in example_names()]
    return [csv_bytes(pd.concat(tables, ignore_index=True))]


def _drawn(name: str) -> list[bytes]:
    from experiments.examples.picture import draw

    example = load_example(name)
    return [*draw(example.title, example.source, example.steps(), example.draws).values()]


def walk_any(
    example: str | None,
    q: Path | None,
    k: Path | None,
    v: Path | None,
    *,
    scaling: str | None,
    mask: str | None,
    out: Path | None,
) -> None:
    """The command `walk`: the list of examples, a walk through one, or through one's own matrices.

    Args:
        example: name of an example.
        q, k, v: CSV files of queries, keys and values; values are optional.
        scaling: a scaling rule; None for d_k^1/2.
        mask: `causal`, `none` or None.
        out: the folder for the numbers and the picture of one's own matrices; None for results/walk.

    Raises:
        ExampleError: options that exclude each other, an unknown name or rule, or a file without a valid matrix.
    """
    of_own = {"--q": q, "--k": k, "--v": v, "--scaling": scaling, "--mask": mask, "--out": out}
    given = [name for name, value in of_own.items() if value is not None]
    if example is not None and given:
        raise ExampleError(f"expected either an example or your own matrices, got {example} and {given[0]}")
    if example is not None:
        _walk_example(example.replace("-", "_"))
    elif q is not None and k is not None:
        _walk_own(q, k, v, scaling or "d_k^1/2", mask or "none", out or HOME / WALK)
    elif given:
        problem = "expected both queries and keys, as --q FILE --k FILE (make walk Q=FILE K=FILE)"
        raise ExampleError(f"{given[0]}: {problem}")
    else:
        lines = [(f"make walk EXAMPLE={spelled(name)}", load_example(name).title) for name in example_names()]
        lines.append(("make walk Q=q.csv K=k.csv V=v.csv", "Your own matrices, as CSV files; V= is optional"))
        width = max(len(command) for command, _ in lines)
        tell("\n".join(f"{command:<{width}}  {title}" for command, title in lines))


def _walk_example(name: str) -> None:
    """Print an example step by step, and name its picture, which is drawn here only if it does not exist."""
    from experiments.examples.text import text

    example = load_example(name)
    steps = example.steps()
    tell(f"{text(example.title, example.source, steps)}\n")
    picture = example_path(HOME, name, ".png")
    if not picture.exists():
        from experiments.examples.picture import draw

        write_files(example_path(HOME, name, ""), draw(example.title, example.source, steps, example.draws))
    tell(f"figure: {picture}")


def _walk_own(q: Path, k: Path, v: Path | None, scaling: str, mask: str, out: Path) -> None:
    """Print attention of the matrices in these files step by step, and write walk.csv and walk.png."""
    from experiments.examples.own import DRAWS, own_steps
    from experiments.examples.picture import draw
    from experiments.examples.steps import long_table
    from experiments.examples.text import text
    from sdpa.attention import is_causal

    try:
        causal = is_causal(mask)
    except ValueError as error:
        raise ExampleError(str(error)) from None
    steps = own_steps(q, k, v, scaling=scaling, causal=causal)
    title, given = "Attention of your own matrices", ", ".join(str(path) for path in (q, k, v) if path)
    tell(f"{text(title, given, steps)}\n")
    write_atomically(out / f"{WALK}.csv", csv_bytes(long_table(WALK, steps)))
    write_files(out / WALK, draw(title, given, steps, DRAWS))
    tell(f"wrote {out / WALK}.csv\ndrew {out / WALK}.png")
