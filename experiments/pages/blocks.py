"""Generated parts of README.md and docs/, between markers, from the files in results/ and the
declarations in the code.

A page has the markers `<!-- begin NAME -->` and `<!-- end NAME -->` in separate lines. Each block
of `_blocks` appears exactly once in all pages together; a missing or repeated marker is an error.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.crossings import EQUAL, TENTH
from experiments.analysis.results import Axes
from experiments.claims.table import counts, read_statements, severities
from experiments.config.loader import Config, load_config
from experiments.diagnosis.minilm import LAYERS
from experiments.diagnosis.model import LENGTH, NAMES, QUANTITIES, read_model
from experiments.diagnosis.model_figures import REACH
from experiments.diagnosis.table import COLUMNS
from experiments.errors import Problem
from experiments.figures.declared import FIGURES, figures_of
from experiments.figures.figure import Default
from experiments.kinds import experiment_names
from experiments.measuring.experiment import load_experiment
from experiments.pages.parts import pictures, typeset
from experiments.paths import (
    ALL_SWEEPS,
    BENCHMARKS,
    DIAGNOSIS,
    EXAMPLES,
    STORED_CONFIG,
    THEORY,
    csv_name,
    drawn_texts,
)
from experiments.theory.tables import MAIN
from sdpa import Scaling
from sdpa.theory import attention_expectations, limits
from sdpa.theory import poisson_dirichlet as frozen
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.three_scales import SCALES

_BLOCK = re.compile(r"(<!-- begin (?P<name>[a-z-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)
_UNLIKELY = 0.01
_FEW_KEYS = (16, 64, 256, 1024, 4096)
_DEPLOYED = Path(__file__).with_name("deployed.csv")
_FULL = "config.full"  # the folder of config.full.yaml, of which the sweeps on training are shipped
_NORMS = {
    "jacobian": "|J|_F",
    "query_gradient": "|dL/dq|",
    "undivided_query_gradient": "divisor · |dL/dq|",
}
_CROSSINGS = (  # norm, statistic and level of the columns of the table of crossings
    *(("jacobian", "median", level) for level in (EQUAL, TENTH)),
    *(("query_gradient", "median", level) for level in (EQUAL, TENTH)),
    ("undivided_query_gradient", "median", EQUAL),
    *((norm, "r.m.s.", EQUAL) for norm in ("jacobian", "query_gradient")),
)


class BlockError(Problem):
    """A marker without a block, or a block without its marker."""


def rewrite(pages: Mapping[Path, str], results: Path) -> dict[Path, str]:
    """Markdown pages, by path, with every marked block generated from the files in a results
    folder.

    Links in a block start at the folder of its page. Nothing is written.

    Raises:
        BlockError: a block does not have exactly one marker in all pages together.
    """
    blocks = _blocks(load_config(results / STORED_CONFIG), results)
    names = sorted(match["name"] for text in pages.values() for match in _BLOCK.finditer(text))
    if names != sorted(blocks):
        raise BlockError(
            f"expected the blocks {', '.join(sorted(blocks))}, once each, got {', '.join(names)}"
        )

    def filled(path: Path, text: str) -> str:
        return _BLOCK.sub(
            lambda found: f"{found[1]}{blocks[found['name']](path.parent)}\n{found[3]}", text
        )

    return {path: filled(path, text) for path, text in pages.items()}


def _blocks(config: Config, results: Path) -> dict[str, Callable[[Path], str]]:
    """The blocks by name, as functions of the folder of a page."""
    drawn = pictures(config, results)
    if missing := {"crossing", "training"} - {sweep.name for sweep in config.sweeps}:
        raise BlockError(
            f"docs/ shows the sweeps {', '.join(sorted(missing))}, which the config does not have"
        )
    trained = [sweep.name for sweep in config.sweeps if sweep.experiment.name == "training"]
    others = [sweep.name for sweep in config.sweeps if sweep.name not in trained]

    def gallery(*names: str) -> Callable[[Path], str]:
        paths = [path for name in names for path in drawn[name]]
        return lambda page: "\n\n".join(_in_gallery(path, results, page) for path in paths)

    return {
        "gallery": gallery(*others, ALL_SWEEPS, THEORY),
        "gallery-trained": gallery(*trained, DIAGNOSIS),
        "examples": lambda page: _examples(drawn[EXAMPLES], page),
        "crossings": lambda _: _crossings(pd.read_csv(results / csv_name("crossing", "crossings"))),
        "bands": lambda _: _bands(results, "training"),
        "bands-long": lambda _: _bands(results / _FULL, "training_long"),
        "statements": lambda _: _statements(read_statements(results)),
        "calibration": lambda _: _calibration(results),
        "diagnosis": lambda _: _diagnosis(),
        "model": lambda _: _model(results),
        "model-columns": lambda _: markdown(
            ["column", "meaning"], ((_code(name), text) for name, text in QUANTITIES.items())
        ),
        "deployed": lambda _: _deployed(),
        "bugs": lambda _: _bugs(),
        "scales": lambda _: _scales(results, _FEW_KEYS),
        "all-scales": lambda _: _scales(results, (16, 256, 4096, 2**20), whole=True),
        "frozen": lambda _: _frozen(),
        "error-bounds": lambda _: _error_bounds(),
        "without-exact": lambda _: _without_exact(),
        "figures": lambda _: _figures(),
    }


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]], right: str = "") -> str:
    """A table in Markdown, with an `r` in `right` for a column that is aligned to the right; a |
    stays a character.

    >>> print(markdown(["a", "b"], [["|x|", 2]], "-r"))
    | a | b |
    |---|---:|
    | \\|x\\| | 2 |
    """
    lines = [[*head], *([str(field).replace("|", "\\|") for field in row] for row in rows)]
    text = [f"| {' | '.join(line)} |" for line in lines]
    sides = "|".join(
        "---:" if side == "r" else "---" for side in right.ljust(len(head))[: len(head)]
    )
    return "\n".join([text[0], f"|{sides}|", *text[1:]])


def _formulas(text: str) -> str:
    """A text with its formulas as the HTML that Markdown allows.

    >>> _formulas("d_k^1/2 'here'")
    "√d<sub>k</sub> 'here'"
    """
    return (
        re.sub("</?span[^>]*>", "", str(typeset(text))).replace("&#39;", "'").replace("&#34;", '"')
    )


def _in_gallery(path: Path, results: Path, page: Path) -> str:
    """The title, the first sentence and the picture of a figure, and a link to its table."""
    title, caption = map(_formulas, drawn_texts(path))
    sentence = caption.partition(". ")[0].rstrip(".")
    tables = (results / f"{path.parent.name}.csv", path.with_suffix(".csv"))
    links = [f" ([table]({os.path.relpath(table, page)}))" for table in tables if table.exists()]
    return f"## {title}\n\n{sentence}{''.join(links)}.\n\n![{drawn_texts(path)[0]}]({os.path.relpath(path, page)})"


def _examples(paths: Sequence[Path], page: Path) -> str:
    """Every worked example with its figure and the kind of its source, which the caption names in
    full.
    """
    rows = []
    for path in paths:
        title, caption = map(_formulas, drawn_texts(path))
        source = caption.removeprefix("From the ").split()[0]
        rows.append(
            [
                f"`{path.stem.replace('_', '-')}`",
                f"[{title}]({os.path.relpath(path, page)})",
                source,
            ]
        )
    return markdown(["EXAMPLE", "figure", "source"], rows)


def _crossings(table: pd.DataFrame) -> str:
    """The d_k above which each norm is smaller unscaled than under d_k^1/2, with an interval, by
    n_keys.
    """
    levels = {EQUAL: "equal", TENTH: "a tenth"}
    head = [
        f"{statistic} of {_formulas(_NORMS[norm])}: {levels[level]}"
        for norm, statistic, level in _CROSSINGS
    ]
    found = table.set_index(["n_keys", "norm", "statistic", "level"], drop=False)
    lengths = sorted(table["n_keys"].unique())
    rows = [
        [n_keys, *(_crossing(found.loc[(n_keys, *kind)]) for kind in _CROSSINGS)]
        for n_keys in lengths
    ]
    return markdown(
        ["n_keys", *(name.replace("|", "\\|") for name in head)], rows, "r" * (1 + len(head))
    )


def _crossing(row: "pd.Series[Any]") -> str:
    """A crossing with its interval and the exact value, if known; `>2048` or `<8` outside the
    sweep.
    """
    below, above = f"<{row['smallest_d_k']:.0f}", f">{row['largest_d_k']:.0f}"
    if np.isnan(row["crossing"]):
        return above if row["ratio_at_largest"] > row["level"] else below
    low, high = row["crossing_low"], row["crossing_high"]
    reach = np.nanmax([row["crossing"] - low, high - row["crossing"]])
    places = 1 if reach < 2 else 0
    ends = (
        end if np.isnan(value) else f"{value:.{places}f}"
        for value, end in ((low, below), (high, above))
    )
    exact = (
        "" if np.isnan(row["crossing_exact"]) else f"; exactly {row['crossing_exact']:.{places}f}"
    )
    return f"{row['crossing']:.{places}f} ({' to '.join(ends)}{exact})"


def _bands(results: Path, sweep: str) -> str:
    """One row per combination of the varied axes, one column per rule: steps at the best rate, and
    decades of the band.

    Where most runs do not solve the task: the share of those that do, and the loss. With ≤ and ≥
    where the best rate is an end of the grid of rates, so that a better one may lie outside.
    """
    table = pd.read_csv(results / csv_name(sweep, "bands"))
    axes = [*Axes.of_cell(load_experiment("training").cell).varied(table, "d_k"), "d_k"]
    fields: dict[Any, dict[str, str]] = {}
    for _, row in table.iterrows():
        solving = f"{row['solved']:.0%} solve" if row["solved"] else "–"
        at_end = row["best_rate"] in (row["lowest_rate"], row["highest_rate"])
        solved = (
            f"{'≤ ' * at_end}{row['steps_to_solve']:.0f}; {'≥ ' * at_end}{row['band_decades']:.1f}"
        )
        field = solved if row["steps_to_solve"] > 0 else f"{solving} (loss {row['final_loss']:.2f})"
        fields.setdefault(tuple(row[axes]), {})[row["scaling"]] = field
    rules = table["scaling"].unique()
    rows = [[*key, *(of_rule.get(rule, "") for rule in rules)] for key, of_rule in fields.items()]
    return markdown(
        [*axes, *(f"`{rule}`" for rule in rules)], rows, "-" * len(axes) + "r" * len(rules)
    )


def _statements(table: pd.DataFrame) -> str:
    """The number of statements by source and verdict and by severity, and verdicts that other
    cut-offs change.
    """
    by_source, grave = counts(table), severities(table)
    changes = table.assign(change=table["other_cutoffs"].str.split("; ")).explode("change")
    changes = changes[changes["change"] != ""].sort_values("change", kind="stable")
    others = [[*row["change"].split(": ", 1), row["id"]] for _, row in changes.iterrows()]
    parts = [
        markdown(
            ["source", *by_source],
            [[name, *row] for name, row in by_source.iterrows()],
            "-" + "r" * 8,
        ),
        markdown(["severity", *grave], [[name, *row] for name, row in grave.iterrows()], "-rr"),
        f"The {table['id'].str.split().explode().size} ids form {len(table)} entries. Another "
        f"value of a cut-off "
        "changes these verdicts:",
        markdown(["cut-off", "verdict", "entry"], others),
    ]
    return "\n\n".join(parts)


def _calibration(results: Path) -> str:
    """False alarms, coverage and planted faults, from the tables of the calibration."""
    alarms, coverage, faults = (
        pd.read_csv(results / BENCHMARKS / f"calibration{part}.csv")
        for part in ("", "-coverage", "-faults")
    )
    whole, configs = alarms.set_index("config").loc["all"], alarms[alarms["config"] != "all"]
    covered = coverage[coverage["metric"] == "all"].set_index("config")
    shares, every = covered["coverage"].drop("all"), covered.loc["all"]
    rows = [
        ["honest runs, configs", f"{whole['runs']:,}, {len(configs)}"],
        [
            "runs with an alarm; at most, as promised",
            f"{whole['alarms']}; {whole['runs'] / 1000:.1f}",
        ],
        ["probability of as many alarms or more", f"{whole['p_value']:.2g}"],
        ["smallest such probability of a single config", f"{configs['p_value'].min():.2g}"],
        [
            f"configs whose p-values are not uniform (p < {_UNLIKELY:g})",
            (configs["uniform_p"] < _UNLIKELY).sum(),
        ],
        [
            "coverage of 95% intervals that are not flagged",
            f"{every['coverage']:.1%} of {every['intervals']:,.0f}",
        ],
        ["the same by config", f"{shares.min():.1%} to {shares.max():.1%}"],
        [
            "share of flagged intervals",
            f"{every['flagged'] / (every['flagged'] + every['intervals']):.0%}",
        ],
    ]
    of_metrics, mistakes = faults[faults["metric"].notna()], faults[faults["metric"].isna()]
    sums = (
        of_metrics.groupby("fault", sort=False)[["runs", "alarms", "sure", "missed"]]
        .sum()
        .astype(int)
    )
    head = ["runs", "runs with an alarm", "at least 7 errors off", "missed among these"]
    found = mistakes["alarms"].astype(str) + " of " + mistakes["runs"].astype(str)
    wide = pd.crosstab(mistakes["fault"], mistakes["trials"], found, aggfunc="first").iloc[:, ::-1]
    wide = wide.loc[mistakes["fault"].unique()]
    planted = [[f"a metric off by {fault}", *row] for fault, row in sums.iterrows()]
    trials = [f"alarms with {number} trials" for number in wide]
    tables = [
        markdown(["without faults", "found"], rows, "-r"),
        markdown(["planted fault", *head], planted, "-rrrr"),
        markdown(
            ["mistake in the code", *trials],
            [[fault, *row] for fault, row in wide.iterrows()],
            "-rrr",
        ),
    ]
    return "\n\n".join(tables)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _diagnosis() -> str:
    """The meaning of each column of a diagnosis, without standard errors and exact values."""
    shown = [column for column in COLUMNS if not column.name.endswith(("_se", "_exact"))]
    rows = [
        [f"`{column.name}`", column.unit, column.meaning, _code(column.formula)] for column in shown
    ]
    return markdown(["column", "unit", "meaning", "formula"], rows)


def _model(results: Path) -> str:
    """Means over the heads of each layer of the pretrained model, and half the width of their 95%
    intervals.
    """
    layers = read_model(results)["layers"].set_index([*NAMES, "layer"])

    def mean(layer: int, name: str, text: str = "prose", keys: str = "recorded") -> str:
        row = layers.loc["trained", text, keys, "d_k^1/2", LENGTH, layer]
        return f"{row[name]:.3f} ± {REACH * row[f'{name}_se']:.3f}".replace("-", "−")

    columns = {
        "spread": ("spread",),
        **{
            f"distance: {text}": ("entropy_share_distance", text)
            for text in ("prose", "code", "shuffled")
        },
        "distance: content": ("entropy_share_distance", "prose", "content"),
        "without first key": ("rest_distance",),
        **{
            f"ratio: {keys}": ("variance_ratio", "prose", keys)
            for keys in ("recorded", "centred", "content")
        },
    }
    rows = (
        [layer, *(mean(layer, *column) for column in columns.values())] for layer in range(LAYERS)
    )
    return markdown(["layer", *columns], rows, "r" * 10)


def _scales(results: Path, n_keys: Sequence[int], *, whole: bool = False) -> str:
    """The three scales of d_k: laws, with computed values behind them; the whole table also has
    refined laws.
    """
    table = pd.read_csv(results / THEORY / "scales.csv").set_index(["scale", "n_keys"])
    rows = []
    for name in SCALES if whole else MAIN:
        found = table.loc[name].loc[[*n_keys]].to_numpy()
        numbers = (
            _law(law) + ("" if math.isnan(value) else f" ({_law(value)})") for law, value in found
        )
        rows.append([_formulas(f"{SCALES[name].what}: {SCALES[name].formula}"), *numbers])
    head = ["scale of d<sub>k</sub>: law (value)", *(f"n = {n}" for n in n_keys)]
    return markdown(head, rows, "-" + "r" * len(n_keys))


def _law(value: float) -> str:
    """Three digits.

    >>> _law(22.18), _law(10929.3), _law(4.584e11)
    ('22.2', '10,900', '4.58e+11')
    """
    return (
        f"{value:.3g}"
        if not 1000 <= value < 1e7
        else f"{round(value, 2 - int(math.log10(value))):,.0f}"
    )


def _deployed() -> str:
    """Scales of deployed models as rules, and the exact entropy of standard normal q and k."""
    lengths = {"1k": 2**10, "32k": 2**15, "1M": 2**20}
    table, rows = pd.read_csv(_DEPLOYED, keep_default_na=False), []
    for name, source, d_k, text, fewest, _ in table[table["got"] == ""].itertuples(index=False):
        row = [f"[{name}](https://github.com/{source})" if source else name, d_k, f"`{text}`"]
        for n in lengths.values():
            divisor = Scaling.parse(text).divisor(d_k, n)
            row.append(
                f"{attention_expectations(d_k, n, divisor).entropy:.3f}" if n >= fewest else "–"
            )
        rows.append(row)
    return markdown(["model", "d<sub>k</sub>", "rule", *lengths], rows, "-r-rrr")


def _bugs() -> str:
    """Public bugs, and the spread of the program's scores over that of the model's."""
    table, rows = pd.read_csv(_DEPLOYED, keep_default_na=False), []
    for name, source, d_k, text, _, got in table[table["got"] != ""].itertuples(index=False):
        _, repository, _, number = source.split("/")
        ratio = Scaling.parse(text).divisor(d_k, 1) / Scaling.parse(got).divisor(d_k, 1)
        link = f"[{repository}#{number}](https://github.com/{source})"
        rows.append([f"{link}: {name}", d_k, f"`{got}`", f"`{text}`", f"{ratio:.2f}"])
    return markdown(["bug", "d<sub>k</sub>", "got", "expected", "spread"], rows, "-r--r")


def _frozen() -> str:
    """Exact values of rows in the frozen phase, and their limits."""
    rows = []
    for ratio in (1.5, 3.0):
        m = 1 / ratio
        limit = [
            frozen.max_weight(m),
            frozen.entropy(m),
            frozen.jacobian_square(m) ** 0.5,
            frozen.share_above(m, 0.99),
        ]
        for n in (4096, 2**20):
            exact = gaussian_rows(np.array([ratio * limits.freezing_sigma(n)]), np.array([n]))[0]
            exact[2] **= 0.5
            rows.append([ratio, n, *(f"{value:.3f}" for value in exact)])
        rows.append([ratio, "limit", *(f"{value:.3f}" for value in limit)])
    head = [
        "sigma / sigma_c",
        "n",
        "largest weight",
        "entropy, nats",
        "r.m.s. |J|_F",
        "rows with a weight above 0.99",
    ]
    return markdown([_formulas(name).replace("|", "\\|") for name in head], rows, "r" * 6)


def _error_bounds() -> str:
    """The bound of the error of every exact column, and the columns that share it."""
    columns: dict[tuple[str, str], dict[str, None]] = {}
    for experiment in map(load_experiment, experiment_names()):
        for metric in experiment.metrics:
            for bound in metric.exact.bounds if metric.exact else ():
                columns.setdefault((bound.where, str(bound)), {})[f"`{metric.name}_exact`"] = None
    rows = [
        [", ".join(names), where or "all others", bound]
        for (where, bound), names in columns.items()
    ]
    return markdown(["column", "cells", "error at most"], rows)


def _without_exact() -> str:
    """The metrics of each experiment of rows whose means theory does not know; training has no
    exact values at all.
    """
    unknown = {
        experiment.name: [
            f"`{metric.name}`" for metric in experiment.metrics if metric.exact is None
        ]
        for experiment in map(load_experiment, experiment_names())
        if any(metric.exact for metric in experiment.metrics)
    }
    return markdown(
        ["experiment", "metrics"],
        ([f"`{name}`", ", ".join(found)] for name, found in unknown.items()),
    )


def _figures() -> str:
    """Every possible figure of a sweep, and the sweeps that get it by default."""
    rows = [
        [f"`{experiment}`", f"`{name}`", FIGURES[name].shows, _by_default(FIGURES[name].default)]
        for experiment in experiment_names()
        for name in figures_of(experiment)
    ]
    return markdown(["sweeps of", "figure", "shows", "by default"], rows)


def _by_default(default: Default | None) -> str:
    """The sweeps that get a figure without naming it, in words."""
    if default is None:
        return "only if named"
    parts = (
        ("that vary", default.varied),
        ("with a single", default.single),
        ("with", [_code(r) for r in default.rules]),
    )
    conditions = [f"{words} {' and '.join(names)}" for words, names in parts if names]
    return f"sweeps {' '.join(conditions)}" if conditions else "all"
