"""The steps of the worked examples: write their table, draw their figures, walk through one or a user's matrices.

The steps of an example (`experiments.examples`) come in; examples.csv, its figure and text on the terminal go out.
"""

from collections.abc import Sequence
from pathlib import Path

from experiments.examples import example_names, load_example, spelled
from experiments.examples.example import ExampleError
from experiments.folders import EXAMPLES, HOME, WALK, drawn_texts, example_path
from experiments.harness.artifacts import Artifact, Ledger
from experiments.harness.files import locked, write_atomically
from experiments.harness.tables import csv_bytes
from experiments.steps.drawing import drawing
from experiments.steps.reporter import ALOUD, Reporter
from experiments.steps.saying import tell

_COMPUTED_WITH = ("numpy", "scipy")


def write_examples(results: Path, report: Reporter = ALOUD) -> None:
    """Write examples.csv, the numbers of all examples, unless it is up to date.

    Args:
        results: the step writes to its folder `examples`.
        report: told whether the table changed.
    """
    from experiments.harness.compare import update

    path = example_path(results, EXAMPLES, ".csv")
    modules = [f"experiments.examples.{name}" for name in (*example_names(), "table")]
    table, ledger = Artifact((path,), tuple(modules), _COMPUTED_WITH), Ledger(results / EXAMPLES)
    with locked(results / EXAMPLES):
        if ledger.is_current(table):
            report.current(path)
            return
        from experiments.examples.table import examples

        report.table(path, update(path, csv_bytes(examples())))
        ledger.note(table)


def draw_examples(
    results: Path, names: Sequence[str] = (), *, jobs: int | None = None, report: Reporter = ALOUD
) -> None:
    """Draw the outdated figures of the named examples, or of all examples; nothing without examples.csv.

    Args:
        results: the step reads and writes its folder `examples`.
        names: modules of examples, with underscores; none for all.
        jobs: number of processes that draw; by default one per processor.
        report: told about each figure.
    """
    from experiments.harness.local import helpers

    table = example_path(results, EXAMPLES, ".csv")
    if not table.exists():
        return
    ledger = Ledger(results / EXAMPLES)
    drawings = {
        name: drawing(example_path(results, name, ""), f"{EXAMPLES}.{name}", [table])
        for name in names or example_names()
    }
    with locked(results / EXAMPLES):
        due = [name for name, drawn in drawings.items() if not ledger.is_current(drawn)]
        with helpers(jobs, len(due)) as submit:
            renderings = {name: submit(_draw, name, table, example_path(results, name, "")) for name in due}
            for name, drawn in drawings.items():
                if name in renderings:
                    renderings[name].result()
                    ledger.note(drawn)
                path = example_path(results, name, ".png")
                report.figure(path, drawn_texts(path).caption, drawn=name in renderings)


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
        out: the folder for the numbers and figure of one's own matrices; None for results/walk.

    Raises:
        ExampleError: options that exclude each other, an unknown name or rule, or a file without a valid matrix.
    """
    of_own = {"--q": q, "--k": k, "--v": v, "--scaling": scaling, "--mask": mask, "--out": out}
    given = [name for name, value in of_own.items() if value is not None]
    if example is not None and given:
        raise ExampleError(f"expected either an example or your own matrices, got {example} and {given[0]}")
    if example is not None:
        walk_example(example, HOME)
    elif q is not None and k is not None:
        from sdpa.attention import is_causal

        try:
            causal = is_causal(mask or "none")
        except ValueError as error:
            raise ExampleError(str(error)) from None
        walk_own(
            q,
            k,
            v,
            scaling="d_k^1/2" if scaling is None else scaling,
            causal=causal,
            out=out or HOME / WALK,
        )
    elif given:
        raise ExampleError(
            f"{given[0]}: expected both queries and keys, as --q FILE --k FILE (make walk Q=FILE K=FILE)"
        )
    else:
        tell(walk_list())


def walk_list() -> str:
    """Every example with the command that walks through it."""
    lines = [(f"make walk EXAMPLE={spelled(name)}", load_example(name).title) for name in example_names()]
    lines.append(("make walk Q=q.csv K=k.csv V=v.csv", "Your own matrices, as CSV files; V= is optional"))
    width = max(len(command) for command, _ in lines)
    return "\n".join(f"{command:<{width}}  {title}" for command, title in lines)


def walk_example(name: str, results: Path) -> None:
    """Print an example step by step, and name its figure, which is drawn here only if it does not exist.

    `make all` decides whether a figure is up to date; the packages for that and for drawing take seconds to load.

    Raises:
        ExampleError: no example has the name.
    """
    from experiments.examples.text import text

    module = name.replace("-", "_")
    example = load_example(module)
    tell(f"{text(example.title, example.source, example.steps())}\n")
    figure = example_path(results, module, ".png")
    if not figure.exists():
        report = Reporter(verbose=True, say=tell)
        write_examples(results, report)
        draw_examples(results, [module], report=report)
    tell(f"figure: {figure}")


def walk_own(q: Path, k: Path, v: Path | None, *, scaling: str, causal: bool, out: Path) -> None:
    """Print attention of the matrices in these files step by step, and write their numbers and figure.

    Args:
        q, k, v: CSV files; values are optional.
        scaling: a scaling rule.
        causal: True if each query sees only the keys up to its own position.
        out: the folder of walk.csv and of the figure walk.png.

    Raises:
        ExampleError: the files do not hold valid inputs of attention; nothing is written.
    """
    from experiments.examples.own import own_steps
    from experiments.examples.table import long_table
    from experiments.examples.text import text

    steps = own_steps(q, k, v, scaling=scaling, causal=causal)
    given = ", ".join(str(path) for path in (q, k, v) if path)
    tell(f"{text('Attention of your own matrices', given, steps)}\n")
    table, stem = out / f"{WALK}.csv", out / WALK
    write_atomically(table, csv_bytes(long_table(WALK, steps)))
    tell(f"wrote {table}")
    tell(f"drew {stem}.png: {_draw(WALK, table, stem)}")


def _draw(name: str, table: Path, stem: Path) -> str:
    """Draw the figure of an example from the table; its caption.

    Args:
        name: module of the example.
        table: the file of numbers.
        stem: path of the figure without its suffix.
    """
    from experiments.examples.table import matrices, read_table
    from experiments.figures.figure import load_figure
    from experiments.figures.rendering import render

    return render(load_figure(f"{EXAMPLES}.{name}"), matrices(read_table(table), name), stem)
