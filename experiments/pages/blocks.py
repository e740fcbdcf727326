"""Generated parts of Markdown pages, between markers, from the files in results/ and the
declarations in the code.

A page has the markers `<!-- begin NAME -->` and `<!-- end NAME -->` in separate lines. Each of
`BLOCKS` appears exactly once in all pages together; a missing or repeated marker is an error.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from experiments.analysis.derived import known_metrics
from experiments.config.loader import load_config
from experiments.declarations import FIGURES, figures_of
from experiments.declarations.figure import Default
from experiments.errors import Problem
from experiments.examples.examples import EXAMPLES as DECLARED
from experiments.examples.walk import spelled
from experiments.kinds import experiment_names
from experiments.measuring.experiment import load_experiment
from experiments.models.diagnosis import COLUMNS
from experiments.models.heads import QUANTITIES
from experiments.pages import numbers
from experiments.pages.parts import Source, code, codes, formulas, markdown, pictures
from experiments.paths import EXAMPLES, STORED_CONFIG, drawn_texts

_BLOCK = re.compile(r"(<!-- begin (?P<name>[a-z-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)
_SHOWN = {"crossing", "dimension", "network"}  # sweeps with a block of their own


class BlockError(Problem):
    """A marker without a block, or a block without its marker."""


def rewrite(pages: Mapping[Path, str], results: Path) -> dict[Path, str]:
    """Markdown pages, by path, with every marked block generated from the files in a results
    folder.

    Links in a block start at the folder of its page. Nothing is written.

    Raises:
        BlockError: a block does not have exactly one marker in all pages together, the config
            lacks a sweep that has a block, or the results lack a table that it shows.
    """
    config = load_config(results / STORED_CONFIG)
    if missing := _SHOWN - {sweep.name for sweep in config.sweeps}:
        raise BlockError(
            f"pages show the sweeps {', '.join(sorted(missing))}, which the config does not have"
        )
    names = sorted(match["name"] for text in pages.values() for match in _BLOCK.finditer(text))
    if names != sorted(BLOCKS):
        raise BlockError(
            f"expected the blocks {', '.join(sorted(BLOCKS))}, once each, got {', '.join(names)}"
        )
    filled = {}
    for path, text in pages.items():
        source = Source(config, results, path.parent)

        def block(found: re.Match[str], source: Source = source) -> str:
            name = found["name"]
            try:
                return f"{found[1]}{BLOCKS[name](source)}\n{found[3]}"
            except FileNotFoundError as error:
                missing = f"block {name}: found no {error.filename}; make all writes the tables"
                raise BlockError(missing) from error

        filled[path] = _BLOCK.sub(block, text)
    return filled


def _gallery(source: Source) -> str:
    trained = _trained(source)
    others = [sweep.name for sweep in source.config.sweeps if sweep.name not in trained]
    return _figures_of(source, *others)


def _gallery_trained(source: Source) -> str:
    return _figures_of(source, *_trained(source))


def _trained(source: Source) -> list[str]:
    """The sweeps of training."""
    sweeps = source.config.sweeps
    return [sweep.name for sweep in sweeps if sweep.experiment.name == "language"]


def _figures_of(source: Source, *names: str) -> str:
    """The figures of sweeps: title, first sentence and picture, and a link to the table."""
    drawn = pictures(source.config, source.results)
    parts = []
    for path in (path for name in names for path in drawn[name]):
        title, caption = map(formulas, drawn_texts(path))
        sentence = caption.partition(". ")[0].rstrip(".")
        tables = (source.results / f"{path.parent.name}.csv", path.with_suffix(".csv"))
        for table in filter(Path.exists, tables):
            sentence += f" ([table]({source.link(table)}))"
        parts.append(f"## {title}\n\n{sentence}.\n\n![Figure {path.stem}]({source.link(path)})")
    return "\n\n".join(parts)


def _examples(source: Source) -> str:
    """Every worked example with its figure and the kind of its source."""
    rows = []
    for path in pictures(source.config, source.results)[EXAMPLES]:
        example = DECLARED[path.stem]
        figure = f"[{formulas(example.title)}]({source.link(path)})"
        kind = example.source.removeprefix("the ").split()[0]
        rows.append((code(spelled(path.stem)), figure, kind))
    return markdown(["EXAMPLE", "figure", "source"], rows)


def _diagnosis(_: Source) -> str:
    """The meaning of each column of a diagnosis, without standard errors and exact values."""
    rows = [
        (code(column.name), column.unit, column.meaning, code(column.formula)) for column in COLUMNS
    ]
    return markdown(["column", "unit", "meaning", "formula"], rows)


def _model_columns(_: Source) -> str:
    rows = [(code(name), meaning) for name, meaning in QUANTITIES.items()]
    return markdown(["column", "meaning"], rows)


def _without_exact(_: Source) -> str:
    """The metrics of each experiment of rows that theory does not know, and where the exact values
    of others are empty; training has no exact values at all.
    """
    rows = []
    for experiment in map(load_experiment, experiment_names()):
        unknown = [metric.name for metric in experiment.metrics if metric.exact is None]
        empty: dict[str, list[str]] = {}
        for metric, exact in known_metrics(experiment):
            where = exact.formula.partition("; empty ")[2]
            empty.setdefault(where, []).append(metric.name)
        others = [f"{codes(metrics)}: {where}" for where, metrics in empty.items() if where]
        if len(unknown) < len(experiment.metrics):
            rows.append((code(experiment.name), codes(unknown), "; ".join(others)))
    return markdown(["experiment", "metrics", "others, empty"], rows)


def _figures(_: Source) -> str:
    """Every possible figure of a sweep, and the sweeps that get it by default."""
    rows = [
        (code(experiment), code(name), FIGURES[name].shows, _by_default(FIGURES[name].default))
        for experiment in experiment_names()
        for name in figures_of(experiment)
    ]
    return markdown(["sweeps of", "figure", "shows", "by default"], rows)


def _by_default(default: Default | None) -> str:
    """The sweeps that get a figure without naming it, in words."""
    if default is None:
        return "only if named"
    parts = {
        "that vary": default.varied,
        "with a single": default.single,
        "with": [code(rule) for rule in default.rules],
    }
    conditions = [f"{words} {' and '.join(names)}" for words, names in parts.items() if names]
    return f"sweeps {' '.join(conditions)}" if conditions else "all"


BLOCKS: dict[str, Callable[[Source], str]] = {
    "gallery": _gallery,
    "gallery-trained": _gallery_trained,
    "examples": _examples,
    "first": numbers.first,
    "crossings": numbers.crossings,
    "network-growth": numbers.network_growth,
    "network-starts": numbers.network_starts,
    "network-others": numbers.network_others,
    "network-limits": numbers.network_limits,
    "trained": numbers.trained,
    "statements": numbers.statements,
    "diagnosis": _diagnosis,
    "model-columns": _model_columns,
    "without-exact": _without_exact,
    "figures": _figures,
}
