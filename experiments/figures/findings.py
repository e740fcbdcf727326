"""The title and the sentence of a drawing, if its sweep and its tables support them.

A finding belongs to one sweep of the shipped configs, by name, or to all sweeps together. Any other
sweep has the plain title, and so has an edited one without the values or the effect that the finding
speaks of; `draw` then says why.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from experiments.analysis.results import Results
from experiments.config.sweep import Sweep
from experiments.declarations import FIGURES
from experiments.declarations.figure import Finding, Needs
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


def finding_of(figure: str, results: Results) -> tuple[str, str] | None:
    """Title and sentence of a figure; None unless these are results that it is about, and support
    it.
    """
    finding = FIGURES[figure].finding
    if not finding or not _is_about(finding, results) or _lacking(finding, results):
        return None
    numbers = finding.numbers(results)
    if numbers is None:
        return None
    columns = {name: results.measured[name] for name in results.axes.usual}
    sizes = {name: Ends(values.min(), values.max()) for name, values in columns.items()}
    return finding.title, finding.sentence.format(**sizes, **numbers).replace(" -", " −")


def lost_findings(results: Results) -> Iterator[str]:
    """The figures of a shipped sweep whose findings do not appear, each with the reason."""
    for figure in results.sweep.figures:
        finding = FIGURES[figure].finding
        if finding and _is_about(finding, results) and not finding_of(figure, results):
            reason = _lacking(finding, results) or "its tables do not support it"
            yield f"{results.name}/{figure} ({reason})"


def _is_about(finding: Finding, results: Results) -> bool:
    """True for the shipped sweep of its name, edited or not."""
    return results.sweep.is_shipped and results.name == finding.sweep


def _lacking(finding: Finding, results: Results) -> str:
    """The value or the table that a finding speaks of and its results lack; empty if none."""
    missing = [f"expected a table {kind}" for kind in finding.reads if kind not in results]
    return mismatch(results.sweep, finding.needs) or "".join(missing)
