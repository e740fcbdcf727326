"""Tables of numbers in generated Markdown, from the files in results/."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.config.paths import FULL, csv_name
from experiments.figures.words import short
from experiments.measuring.experiment import Cell, load_experiment
from experiments.publication.pages.parts import Source, code, digits, formulas, markdown
from experiments.publication.pages.statements import counts, read_statements
from experiments.tables.results import SweepAxes

_NETWORKS = ("networks", "starts", "llama")  # of config.full.yaml
_TRAINED = (
    "language",
    "language_rates",
    "language_optimizers",
    "language_sizes",
    "language_wide",
    "language_uniform",
    "language_replacements",
    "language_replacements_small",
    "language_long",
    "language_long_norm",
)
_USUAL = 64  # d_k
_FIRST = {
    "score_variance_exact": "variance of a score",
    "max_weight_exact": "largest weight, mean",
    "entropy_exact": "entropy of a row, nats",
    "query_gradient_norm_median_exact": "gradient to the median query, |dL/dq|",
    "query_gradient_norm_exact": "gradient to a query, root mean square",
}


def first(source: Source) -> str:
    """The values of the sweep `dimension` under each rule at a usual d_k and at its largest."""
    table = pd.read_csv(source.results / "dimension.csv").set_index("scaling")
    usual = table[table["d_k"] == _USUAL]
    widest = table[table["d_k"] == table["d_k"].max()]
    head = [f"d_k = {_USUAL} → {widest['d_k'].iloc[0]}", *widest.index]
    rows = []
    for column, words in _FIRST.items():
        pairs = zip(usual[column], widest[column], strict=True)
        rows.append([formulas(words), *(f"{digits(low)} → {digits(high)}" for low, high in pairs)])
    return markdown([*map(formulas, head)], rows, "-" + "r" * len(widest))


def network_growth(source: Source) -> str:
    """The growth of the gradient through a network with its interval, and its law, by rule."""
    measured = pd.read_csv(source.results / "network.csv")
    layers = pd.read_csv(source.results / csv_name("network", "by_layer"))
    bottom = layers[layers["layer"] == 1].set_index("layers")
    rules = measured["scaling"].unique()
    rows = []
    for depth, of_depth in measured.groupby("layers"):
        found = of_depth.set_index("scaling").apply(_growth, axis=1)
        law = np.sqrt(bottom.loc[depth].set_index("scaling")["stream_gradient_law"])
        rows.append([depth, "measured", *found[rules]])
        rows.append(["", "law", *law[rules].map(digits).map(formulas)])
    head = ["layers", "r.m.s. gradient, bottom over top", *map(code, rules)]
    return markdown(head, rows, "rl" + "r" * len(rules))


def networks(source: Source) -> str:
    """The growth of the gradient through networks of other starts and parts, by case and rule."""
    return _by_case(
        source,
        {name: f"{name}.csv" for name in _NETWORKS},
        load_experiment("network").cell,
        _growth,
    )


def trained(source: Source) -> str:
    """The loss of trained decoders at the best rate of each rule, and this rate, by case.

    With ≤ where the best rate is an end of the grid of rates, so that a better one may lie outside.
    """
    bands = {name: csv_name(name, "bands") for name in _TRAINED}
    return _by_case(source, bands, load_experiment("language").cell, _loss)


def _by_case(
    source: Source,
    files: Mapping[str, str],
    cell: type[Cell],
    field: Callable[["pd.Series[Any]"], str],
) -> str:
    """A field of each row of tables of config.full.yaml, by sweep and rule; a case is named by the
    axes that vary in its sweep, and by its unusual values.
    """
    tables = {name: pd.read_csv(source.results / FULL / file) for name, file in files.items()}
    axes = SweepAxes.of_cell(cell)
    rules = pd.concat(tables.values())["scaling"].unique()
    rows = []
    for sweep, table in tables.items():
        varied = axes.varied(table)
        for _, of_case in table.groupby(axes.among(table), sort=False):
            first = of_case.iloc[0]
            named = {*varied, *axes.changed(first)}
            shown = [name for name in axes.among(table) if name in named]
            case = ", ".join(f"{code(name)} {short(first[name])}" for name in shown)
            fields = of_case.set_index("scaling").apply(field, axis=1)
            rows.append([code(sweep), case, *fields.reindex(rules, fill_value="")])
    return markdown(["sweep", "case", *map(code, rules)], rows, "--" + "r" * len(rules))


def _growth(row: "pd.Series[Any]") -> str:
    """The growth of a gradient with its interval."""
    ends = (row[f"stream_gradient_growth{end}"] for end in ("", "_low", "_high"))
    return "{} ({} to {})".format(*map(formulas, map(digits, ends)))


def _loss(row: "pd.Series[Any]") -> str:
    """A loss with its interval and its rate."""
    at_end = row["best_rate"] in (row["lowest_rate"], row["highest_rate"])
    loss, low, high = (row[f"final_loss{end}"] for end in ("", "_low", "_high"))
    most = "≤ " if at_end else ""
    return f"{most}{loss:.3f} ({low:.3f} to {high:.3f}) at {row['best_rate']:g}"


def statements(source: Source) -> str:
    """The number of statements by source and verdict."""
    by_source = counts(read_statements(source.results))
    return markdown(["source", *by_source], by_source.itertuples(), "-" + "r" * by_source.shape[1])
