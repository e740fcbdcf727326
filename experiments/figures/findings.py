"""The title and the sentence of a drawing, if its sweep and its tables support them.

A finding belongs to one figure of one sweep. It appears if the sweep has the values that it speaks
of, and if its tables give its numbers; otherwise the figure has its plain title, and `draw` says
why.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from experiments.analysis.results import Results
from experiments.config.sweep import Sweep
from experiments.declarations import FINDINGS
from experiments.declarations.figure import Needs
from experiments.errors import Problem
from experiments.measuring.columns import as_json, axis_names, defaults

_ROWS = "n_queries"  # of a draw; their number changes errors, and no expectation


class FindingError(Problem):
    """A table does not support the title of its figure."""


class Ends(NamedTuple):
    """The smallest and the largest value of an axis."""

    least: Any
    most: Any


def mismatch(sweep: Sweep, needs: Needs) -> str:
    """The first reason why sentences are not about a sweep; empty if they are.

    Args:
        sweep: any sweep.
        needs: the axes and treatments that the sentences speak of. Any other axis must have one
            value: its default, if it has one.
    """
    values = {name: {*map(as_json, given)} for name, given in sweep.spanned().items()}
    for name, needed in needs.items():
        if isinstance(needed, tuple):
            missing = [value for value in needed if value not in values[name]]
        else:
            missing = [needed] if values[name] != {needed} else []
        if missing:
            return f"expected {name} = {missing[0]}"
    usual = defaults(sweep.experiment.cell)
    for name in axis_names(sweep.experiment.cell):
        is_usual = name == _ROWS or name not in usual or values[name] == {as_json(usual[name])}
        if name not in needs and not (len(values[name]) == 1 and is_usual):
            return f"got {name} = {', '.join(sorted(map(str, values[name])))}"
    return ""


def finding_of(drawing: str, results: Results) -> tuple[str, str] | None:
    """Title and sentence for a drawing; None if no finding is about it, or its sweep or tables do
    not support it.

    Args:
        drawing: the sweep, or `all-sweeps`, and the figure, as `dimension/slide`.
        results: of the sweep.
    """
    finding = FINDINGS.get(drawing)
    if not finding or (results.sweep and mismatch(results.sweep, finding.needs)):
        return None
    numbers = finding.numbers(results)
    if numbers is None:
        return None
    columns = {name: results.measured[name] for name in results.axes.usual}
    sizes = {name: Ends(values.min(), values.max()) for name, values in columns.items()}
    return finding.title, finding.sentence.format(**sizes, **numbers).replace(" -", " −")


def lost_findings(results: Results) -> Iterator[str]:
    """The drawings of a sweep whose findings do not appear, each with the reason."""
    for figure in results.block.figures:
        drawing = f"{results.name}/{figure}"
        if drawing in FINDINGS and not finding_of(drawing, results):
            reason = mismatch(results.block, FINDINGS[drawing].needs)
            yield f"{drawing} ({reason or 'its intervals do not support it'})"
