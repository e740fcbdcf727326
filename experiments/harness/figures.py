"""Figures as the harness knows them: every module that binds FIGURE declares one.

The harness reads the subject, the metrics and the default of a figure from the source of its module. It does not import
the module, because workers and most commands do not need the packages for drawing. So these three must be literals.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from experiments.harness.discovery import experiment_names, modules_binding
from experiments.harness.experiment import load_experiment


@dataclass(frozen=True)
class Default:
    """The sweeps that get a figure without naming it; `Default()` holds for every sweep of its experiment.

    Attributes:
        varied: axes with more than one value in such a sweep.
        single: axes with exactly one value.
        rules: scaling rules that the sweep must include.
    """

    varied: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    def holds(self, values: Mapping[str, Sequence[Any]]) -> bool:
        """True for a sweep with these values of the fields of its cells.

        >>> Default(varied=("d_k",), single=("n_keys",)).holds({"d_k": (4, 8), "n_keys": (64,)})
        True
        """
        return (
            all(len(values[name]) > 1 for name in self.varied)
            and all(len(values[name]) == 1 for name in self.single)
            and all(rule in map(str, values.get("scaling", ())) for rule in self.rules)
        )


@dataclass(frozen=True)
class Declaration:
    """The part of a figure that the harness reads: some of the fields of its `Figure`.

    Attributes:
        of: its experiment, or another subject, such as `benchmarks`.
        metrics: columns of the measured table that it shows.
        default: the sweeps that get it without naming it; None if a sweep must name it.
    """

    of: str
    metrics: tuple[str, ...] = ()
    default: Default | None = None


@cache
def declarations() -> dict[str, Declaration]:
    """Every figure by its name, in alphabetical order: its module's path below the package of figures."""
    return {name.partition(".")[2]: read_declaration(path) for name, path in modules_binding("FIGURE").items()}


def figures_of(of: str) -> tuple[str, ...]:
    """The figures of an experiment, or of another subject of figures, by name.

    The figures of an experiment follow the order of their first metrics in its table; those without one come first.
    """
    found = {name: declared.metrics for name, declared in declarations().items() if declared.of == of}
    columns = [column.name for column in load_experiment(of).columns] if of in experiment_names() else []
    place = {column: i for i, column in enumerate(columns)}
    return tuple(sorted(found, key=lambda name: [place[metric] for metric in found[name][:1] if metric in place]))


def default_figures(experiment: str, values: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """The figures of a sweep that names none, from the values of the fields of its cells."""
    defaults = {name: declarations()[name].default for name in figures_of(experiment)}
    return tuple(name for name, default in defaults.items() if default and default.holds(values))


def read_declaration(path: Path) -> Declaration:
    """The figure that a module declares.

    Raises:
        TypeError: the module binds FIGURE to something else than a call with literals.
    """
    values = {ast.unparse(target): value for target, value in _assigned(ast.parse(path.read_bytes()))}
    try:
        return Declaration(**dict(_literals(values["FIGURE"], "Figure", Declaration)))
    except ValueError as error:
        raise TypeError(f"{path}:{values['FIGURE'].lineno}: FIGURE: {error}") from None


def _assigned(module: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What the statements at the top of a module assign to, and its value."""
    for node in module.body:
        if isinstance(node, ast.AnnAssign) and node.value:
            yield node.target, node.value
        elif isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)


def _literals(node: ast.expr, name: str, kind: type[Declaration | Default]) -> Iterator[tuple[str, Any]]:
    """The keywords of a call `name(...)` that are fields of a kind, with their values.

    Raises:
        ValueError: the node is no such call, or one of these keywords is no literal.
    """
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != name:
        raise ValueError(f"expected {name}(...), got {ast.unparse(node)}")
    for keyword in node.keywords:
        if keyword.arg in kind.__dataclass_fields__:
            yield keyword.arg, _value(keyword)


def _value(keyword: ast.keyword) -> Any:
    """The value of a keyword: a `Default` for `default`, else a literal."""
    if keyword.arg == "default":
        return Default(**dict(_literals(keyword.value, "Default", Default)))
    try:
        return ast.literal_eval(keyword.value)
    except ValueError:
        raise ValueError(f"expected {keyword.arg} as a literal, got {ast.unparse(keyword.value)}") from None
