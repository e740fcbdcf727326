"""Generated parts of README.md and docs/, between markers, from the files in results/.

A page has the markers `<!-- begin NAME -->` and `<!-- end NAME -->` in separate lines. Each block of `_blocks` appears
exactly once in all pages together; a missing or repeated marker is an error.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments.analysis.crossings import of_first_map
from experiments.analysis.derived import TESTS
from experiments.analysis.slopes import LEVEL, SLOPES
from experiments.claims.summary import counts_in_markdown
from experiments.claims.table import read_statements
from experiments.diagnosis.table import COLUMNS
from experiments.examples import example_names, load_example, spelled
from experiments.figures.caption_text import listed
from experiments.figures.crossing_text import (
    NORM_NAMES,
    crossing_rows,
    crossing_with_interval,
    law_is_inside,
    three_digits,
)
from experiments.figures.figure import load_figure
from experiments.figures.formulas import latex
from experiments.folders import ALL_SWEEPS, benchmark_path, drawn_texts, example_path, figure_path
from experiments.harness.config import Config
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import MEASURED, load_experiment
from experiments.harness.figures import Default, declarations, figures_of
from experiments.harness.grid import Sweep
from experiments.harness.paths import LONG, csv_name
from experiments.harness.problems import Problem
from experiments.harness.tables import IDENTITY
from experiments.page.bands import band_table
from experiments.page.gallery import gallery
from experiments.page.numbers import like_measured, with_error

_BLOCK = re.compile(r"(<!-- begin (?P<name>[a-z-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)
_UNLIKELY = 0.01
_TRAINING = "steps_to_solve"  # the figure on training in the README
_FULL = "config.full"  # the folder of config.full.yaml, of which the sweeps on training are shipped
# Sweeps of config.yaml whose figures the README shows: independent, centred queries and keys, and other cases.
_HEADLINE = ("dimension",)
_CASES = ("assumptions", "rules", "correlation", "initialisation", "precision")
_NO_CROSSINGS = "No sweep of the config has at least four d_k, both unscaled and under `d_k^1/2`."

Block = Callable[[], str]
Pages = dict[Path, str]


class BlockError(Problem):
    """A marker without a block, or a block without its marker."""


def rewrite(pages: Mapping[Path, str], config: Config, results: Path) -> Pages:
    """Markdown pages with every marked block generated from the files in a results folder.

    Args:
        pages: the text of each page, by its path; links in a block start at the folder of its page.
        config: the config of the results.
        results: the folder.

    Returns:
        The new text of each page, by its path; nothing is written.

    Raises:
        BlockError: a block does not have exactly one marker in all pages together.
    """
    blocks = {name: path for path, text in pages.items() for name in _names(text)}
    every = {path: _blocks(config, results, path) for path in pages}
    names = sorted(name for text in pages.values() for name in _names(text))
    expected = sorted(next(iter(every.values())))
    if names != expected:
        raise BlockError(f"expected the blocks {', '.join(expected)}, once each, got {', '.join(names)}")
    return {
        path: _BLOCK.sub(lambda m: f"{m[1]}{every[blocks[m['name']]][m['name']]()}\n{m[3]}", text)
        for path, text in pages.items()
    }


def _names(text: str) -> list[str]:
    """The names of the blocks of a page, in order."""
    return [match["name"] for match in _BLOCK.finditer(text)]


def _blocks(config: Config, results: Path, page: Path) -> dict[str, Block]:
    """The blocks by name, with links from the folder of a page."""

    def link(path: Path) -> str:
        return os.path.relpath(path, page.parent)

    return {
        "crossings": lambda: _crossings(_crossing_table(config, results)),
        "headline": lambda: _titles(_drawings_of(_named(config, _HEADLINE), results), link),
        "cases": lambda: _titles(_drawings_of(_named(config, _CASES), results), link),
        "laws": lambda: _laws(_crossing_table(config, results)),
        "findings": lambda: _captions(_drawings(config.sweeps, results), link),
        "example-captions": lambda: _captions([example_path(results, n, ".png") for n in example_names()], link),
        "examples": _examples,
        "figures": _figures,
        "gallery": lambda: gallery(config, results, link),
        "measured": lambda: _measured(pd.read_csv(results / csv_name(*_HEADLINE, MEASURED))),
        "slopes": lambda: _slopes(pd.read_csv(results / csv_name(*_HEADLINE, SLOPES.kind))),
        "statements": lambda: counts_in_markdown(read_statements(results)),
        "bands": lambda: band_table(results, [sweep.name for sweep in config.sweeps]),
        "bands-adam": lambda: band_table(results / _FULL, ["training"]),
        "bands-sgd": lambda: band_table(results / _FULL, ["training_sgd"]),
        "bands-long": lambda: band_table(results / _FULL, ["training_long"]),
        "training": lambda: _titles([figure_path(results, "training", _TRAINING, ".png")], link),
        "calibration": lambda: _calibration(results),
        "columns": lambda: _columns(results),
        "diagnosis": _diagnosis,
        "error-bounds": _error_bounds,
    }


def _named(config: Config, names: Sequence[str]) -> list[Sweep]:
    """The sweeps of these names; BlockError if the config has no such sweep."""
    sweeps = {sweep.name: sweep for sweep in config.sweeps}
    if missing := [name for name in names if name not in sweeps]:
        raise BlockError(f"README.md shows the sweeps {', '.join(missing)}, which the config does not have")
    return [sweeps[name] for name in names]


def _drawings_of(sweeps: Sequence[Sweep], results: Path) -> list[Path]:
    """The PNG files of the figures of sweeps, in the order of the config."""
    return [figure_path(results, sweep.name, figure, ".png") for sweep in sweeps for figure in sweep.figures]


def _drawings(sweeps: Sequence[Sweep], results: Path) -> list[Path]:
    """Every figure of the sweeps, and those of all sweeps together if values were tested."""
    tested = any((results / csv_name(sweep.name, TESTS)).exists() for sweep in sweeps)
    of_all = [figure_path(results, ALL_SWEEPS, figure, ".png") for figure in figures_of(ALL_SWEEPS) if tested]
    return [*_drawings_of(sweeps, results), *of_all]


def _titles(drawings: Sequence[Path], link: Callable[[Path], str]) -> str:
    """Figures as a list of their findings."""
    return "\n".join(f"- [{latex(drawn_texts(path).title)}]({link(path)})" for path in drawings)


def _captions(drawings: Sequence[Path], link: Callable[[Path], str]) -> str:
    """Figures as a list of their findings, each with its caption."""
    captions = [latex(drawn_texts(path).caption) for path in drawings]
    return "\n".join(
        f"{title}. {caption}" for title, caption in zip(_titles(drawings, link).split("\n"), captions, strict=True)
    )


def _examples() -> str:
    """Every worked example with the command that walks through it."""
    lines = ["| command | example |", "|---|---|"]
    lines += [f"| `make walk EXAMPLE={spelled(name)}` | {load_example(name).title} |" for name in example_names()]
    return "\n".join([*lines, "| `make walk Q=q.csv K=k.csv V=v.csv` | Your own matrices, as CSV files |"])


def _figures() -> str:
    """Every possible figure of a sweep, and the sweeps that get it by default."""
    lines = ["| sweeps of | figure | shows | by default |", "|---|---|---|---|"]
    for experiment in experiment_names():
        for name in figures_of(experiment):
            by_default = _sweeps_of(declarations()[name].default)
            lines.append(f"| `{experiment}` | `{name}` | {load_figure(name).shows} | {by_default} |")
    return "\n".join(lines)


def _error_bounds() -> str:
    """The bound of the error of every exact column, and the columns that share it."""
    columns: dict[tuple[str, str], dict[str, None]] = {}
    for experiment in map(load_experiment, experiment_names()):
        for metric in experiment.metrics:
            for bound in metric.exact.bounds if metric.exact else ():
                columns.setdefault((bound.where, str(bound)), {})[f"`{metric.name}_exact`"] = None
    lines = ["| column | cells | error at most |", "|---|---|---|"]
    lines += [
        f"| {', '.join(names)} | {where or 'all others'} | {bound} |" for (where, bound), names in columns.items()
    ]
    return "\n".join(lines)


def _sweeps_of(default: Default | None) -> str:
    """The sweeps that get a figure without naming it, in words."""
    if default is None:
        return "only if named"
    conditions = [f"that vary {listed(default.varied)}"] if default.varied else []
    conditions += [f"with a single {listed(default.single)}"] if default.single else []
    conditions += [f"with {listed([f'`{rule}`' for rule in default.rules])}"] if default.rules else []
    return f"sweeps {' '.join(conditions)}" if conditions else "all"


def _crossing_table(config: Config, results: Path) -> pd.DataFrame | None:
    """The crossings of the first sweep with crossings; None if no sweep has any."""
    tables = [results / csv_name(sweep.name, "crossings") for sweep in config.sweeps]
    return next((of_first_map(pd.read_csv(path)) for path in tables if path.exists()), None)


def _crossings(table: pd.DataFrame | None) -> str:
    """The d_k above which each norm is smaller unscaled than under d_k^1/2, with an interval, by n_keys."""
    if table is None:
        return _NO_CROSSINGS
    head, rows = crossing_rows(table)
    lines = [f"| {' | '.join(map(latex, head))} |"]
    lines += [f"|{'---:|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def _laws(table: pd.DataFrame | None) -> str:
    """Measured crossings beside the law of theory, for every norm with a law."""
    if table is None:
        return _NO_CROSSINGS
    lines = ["| | n_keys | measured d_k | law | in the interval |", "|---|---:|---:|---:|---|"]
    for _, row in table.dropna(subset=["law", "crossing"]).iterrows():
        name = latex(f"{row['statistic']} of {NORM_NAMES[row['norm']]}")
        inside = "yes" if law_is_inside(row) else "no"
        lines.append(
            f"| {name} | {row['n_keys']} | {crossing_with_interval(row)} | {three_digits(row['law'])} | {inside} |"
        )
    return "\n".join(lines)


def _measured(table: pd.DataFrame) -> str:
    """Measured and exact values of the smallest, a middle and the largest d_k."""
    shown = table[table["d_k"].isin(table["d_k"].quantile([0, 0.5, 1], interpolation="higher"))]
    metrics = {
        "score_variance": "variance",
        "max_weight": "largest weight",
        "entropy": "entropy",
        "jacobian_norm": "r.m.s. \\|J\\|_F",
        "jacobian_norm_median": "median \\|J\\|_F",
        "query_gradient_norm": "r.m.s. \\|dL/dq\\|",
    }
    lines = [
        f"| d_k | scaling | | {' | '.join(metrics.values())} |",
        f"|---:|---|---|{'---:|' * len(metrics)}",
    ]
    for _, row in shown.iterrows():
        measured = " | ".join(with_error(row, metric) for metric in metrics)
        exact = " | ".join(like_measured(row, metric) for metric in metrics)
        lines.append(f"| {row['d_k']} | `{row['scaling']}` | measured | {measured} |")
        lines.append(f"| | | exact | {exact} |")
    return "\n".join(lines)


def _slopes(slopes: pd.DataFrame) -> str:
    """Fitted slopes with their intervals."""
    lines = [f"| scaling | slope of ln variance | {LEVEL:.1%} interval | exact |", "|---|---:|---:|---:|"]
    for _, row in slopes.iterrows():
        interval = f"{row['slope_low']:z.4f} to {row['slope_high']:z.4f}"
        lines.append(f"| `{row['scaling']}` | {row['slope']:z.4f} | {interval} | {row['slope_exact']:z.4f} |")
    return "\n".join(lines)


def _calibration(results: Path) -> str:
    """False alarms, coverage and planted faults, from the tables of the calibration."""
    alarms, coverage, faults = (
        pd.read_csv(benchmark_path(results, f"calibration{part}")) for part in ("", "-coverage", "-faults")
    )
    whole, configs = alarms.set_index("config").loc["all"], alarms[alarms["config"] != "all"]
    covered = coverage[coverage["metric"] == "all"].set_index("config")
    shares = covered.drop(index="all")["coverage"]
    flagged = covered.loc["all", "flagged"] / covered.loc["all", ["flagged", "intervals"]].sum()
    skewed = configs["config"][configs["uniform_p"] < _UNLIKELY]
    lines = [
        f"- False alarms: {whole['alarms']} in {whole['runs']:,} honest runs of {len(configs)} configs; the check "
        f"promises at most {whole['runs'] / 1000:.1f} (probability of as many or more: p = {whole['p_value']:.2g}). "
        f"A single config has at most {configs['alarms'].max()} in {configs['runs'].max()} runs (p = "
        f"{configs['p_value'].min():.2g}, the smallest of {len(configs)}).",
        f"- The p-values of cells are not uniform (Kolmogorov-Smirnov, p < {_UNLIKELY:g}) in {len(skewed)} of "
        f"{configs['uniform_p'].notna().sum()} configs with such p-values: {', '.join(skewed)}. The mean of a skewed "
        "metric over few trials is not normal.",
        f"- Unflagged 95% intervals contain the truth in {covered.loc['all', 'coverage']:.1%} of "
        f"{covered.loc['all', 'intervals']:,.0f} cases, and in {shares.min():.1%} to {shares.max():.1%} by config. "
        f"{flagged:.0%} of all intervals are flagged in these configs; many configs were chosen for saturated rows.",
        "- Planted faults, each under one rule and under all:",
        "",
        "| planted fault | runs | runs with an alarm | at least 7 errors off | missed among these |",
        "|---|---:|---:|---:|---:|",
    ]
    of_metrics = faults[faults["metric"].notna()]
    for fault, group in of_metrics.groupby("fault", sort=False):
        counts = [group["runs"].sum(), group["alarms"].sum(), f"{group['sure'].sum():.0f}", group["missed"].sum()]
        lines.append(f"| a metric off by {fault} | {' | '.join(map(str, counts))} |")
    mistakes = faults.drop(of_metrics.index)
    trials = sorted(mistakes["trials"].unique(), reverse=True)
    lines += ["", f"| mistake in the code |{''.join(f' alarms with {number} trials |' for number in trials)}"]
    lines += [f"|---|{'---:|' * len(trials)}"]
    for fault, group in mistakes.groupby("fault", sort=False):
        by_trials = group.set_index("trials").loc[trials]
        cells = [f"{row['alarms']} of {row['runs']}" for _, row in by_trials.iterrows()]
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _diagnosis() -> str:
    """The meaning of each column of a diagnosis, without standard errors and exact values."""
    lines = ["| column | unit | meaning | formula |", "|---|---|---|---|"]
    for column in COLUMNS:
        if not column.name.endswith(("_se", "_exact")):
            formula, meaning = (text.replace("|", "\\|") for text in (column.formula, column.meaning))
            lines.append(f"| `{column.name}` | {column.unit} | {meaning} | {f'`{formula}`' if formula else ''} |")
    return "\n".join(lines)


def _columns(results: Path) -> str:
    """The meaning of each column, from columns.csv.

    Standard errors, interval ends and exact values are left out, and the columns with which every table begins.
    """
    columns = pd.read_csv(results / "columns.csv", keep_default_na=False)
    own = ~columns["column"].isin([column.name for column in IDENTITY]) | (columns["table"] == LONG)
    columns = columns[own].drop_duplicates(["table", "column"])
    shown = columns[~columns["column"].str.contains("_se$|_low$|_high$|_exact$") | columns["table"].str.contains("/")]
    lines = ["| table of | column | unit | meaning | formula |", "|---|---|---|---|---|"]
    for (column, meaning), same in shown.groupby(["column", "meaning"], sort=False):
        first = same.iloc[0]
        formula = f"`{first['formula']}`".replace("|", "\\|") if first["formula"] else ""
        described = str(meaning).replace("|", "\\|")
        lines.append(f"| {', '.join(same['table'])} | `{column}` | {first['unit']} | {described} | {formula} |")
    return "\n".join(lines)
