"""Tables of numbers in generated Markdown, from the tables of sweeps."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.config.errors import TableError
from experiments.figures.markup import Source, code, digits, formulas, markdown
from experiments.figures.words import short
from experiments.kinds.support import widest
from experiments.measuring.metric import Metric
from experiments.page.statements import counts, read_statements
from experiments.tables.analyse import agreement
from experiments.tables.results import Results
from experiments.tables.verdicts import ALARM, verdicts

_USUAL = 64  # d_k
_METRICS = {
    "score_variance_exact": "variance of a score",
    "max_weight_exact": "largest weight, mean",
    "entropy_exact": "entropy of a row, nats",
    "query_gradient_norm_median_exact": "gradient to the median query, |dL/dq|",
    "query_gradient_norm_exact": "gradient to a query, root mean square",
}

_ENDS = "", "_low", "_high"  # of an interval
_FACTORS = 1.01, 1.03, 1.1  # of planted faults


def dimension(source: Source) -> str:
    """The values of the sweep `dimension` under each rule at a usual d_k and at its largest.

    Raises:
        TableError: it lacks the usual d_k, or has several numbers of keys.
    """
    table = source.shipped.require("dimension").measured.set_index("scaling")
    usual = table[table["d_k"] == _USUAL]
    if usual.empty or len({*table["n_keys"]}) > 1:
        got = f"d_k {[*table['d_k'].unique()]}, n_keys {[*table['n_keys'].unique()]}"
        raise TableError(f"dimension: expected d_k = {_USUAL} and one n_keys, got {got}")
    last = widest(table)
    head = [f"d_k = {_USUAL} → {last['d_k'].iloc[0]}", *last.index]
    rows = []
    for column, words in _METRICS.items():
        low, high = (rows_at[column].map(digits) for rows_at in (usual, last))
        rows.append([formulas(words), *(low + " → " + high)])
    return markdown([*map(formulas, head)], rows, "-" + "r" * len(last))


def network_growth(source: Source) -> str:
    """The growth of the gradient through a network with its interval, and its law, by rule."""
    results = source.shipped.require("network")
    layers = results["by_layer"]
    bottom = layers[layers["layer"] == 1].set_index("layers")
    rules = results.measured["scaling"].unique()
    rows = []
    for depth, group in results.measured.groupby("layers"):
        measured = group.set_index("scaling").apply(_growth, axis=1)
        law = bottom.loc[depth].set_index("scaling")["stream_gradient_law"]
        growth = np.sqrt(law[rules])
        rows.append([depth, "measured", *measured[rules]])
        rows.append(["", "law", *growth.map(digits).map(formulas)])
    head = ["layers", "r.m.s. gradient, bottom over top", *map(code, rules)]
    return markdown(head, rows, "rl" + "r" * len(rules))


def networks(source: Source) -> str:
    """The growth of the gradient through networks of other starts and parts, by sweep, case and rule; a
    case is named by the axes that vary in its sweep, and by its unusual values.
    """
    sweeps = source.full.require_all(lambda sweep: "growth" in sweep.figures)
    rules = pd.concat(results.measured for results in sweeps)["scaling"].unique()
    rows = []
    for results in sweeps:
        table, axes = results.measured, results.axes
        varied = axes.varied(table)
        names = axes.among(table)
        for _, group in table.groupby(names, sort=False):
            first = group.iloc[0]
            phrases = [
                f"{code(name)} {short(first[name])}"
                for name in names
                if name in varied or axes.usual[name] not in (None, first[name])
            ]
            fields = group.set_index("scaling").apply(_growth, axis=1)
            values = fields.reindex(rules, fill_value="")
            rows.append([code(results.name), ", ".join(phrases), *values])
    return markdown(["sweep", "case", *map(code, rules)], rows, "--" + "r" * len(rules))


def _growth(row: pd.Series) -> str:
    """The growth of a gradient with its interval."""
    ends = (row[f"stream_gradient_growth{end}"] for end in _ENDS)
    return "{} ({} to {})".format(*map(formulas, map(digits, ends)))


def statement_counts(source: Source) -> str:
    """The number of statements by source and verdict."""
    by_source = counts(read_statements(source.shipped.folder))
    return markdown(["source", *by_source], by_source.itertuples(), "-" + "r" * by_source.shape[1])


def power(source: Source) -> str:
    """The number of metrics of sweeps that the check finds if one alone is off by a factor, and those
    that it misses at the last factor.

    A metric without an exact value, or with none but 0, stays as it was.
    """
    sweeps = source.shipped.values()
    tests = len(agreement(sweeps).values)
    planted = [
        (results, metric)
        for results in sweeps
        for metric in results.metrics.values()
        if metric.exact and results.measured[f"{metric.name}_exact"].fillna(0).any()
    ]
    shares = []
    for factor in _FACTORS:
        missed = [pair for pair in planted if not (_p_values(*pair, factor) * tests < ALARM).any()]
        shares.append([factor, f"{len(planted) - len(missed)} of {len(planted)}"])
    by_sweep = defaultdict(list)
    for results, metric in missed:
        by_sweep[code(results.name)].append(code(metric.name))
    rows = ([sweep, ", ".join(names)] for sweep, names in by_sweep.items())
    lost = markdown(["sweep", f"not found at {factor}"], rows)
    return f"{markdown(['a metric of a sweep times', 'found'], shares, 'rr')}\n\n{lost}"


def _p_values(results: Results, metric: Metric, factor: float) -> pd.Series:
    """Of the tests of a metric that is off by a factor, with its interval."""
    columns = [f"{metric.name}{end}" for end in _ENDS]
    faulty = results.measured.assign(**results.measured[columns] * factor)
    return verdicts(replace(results.experiment, metrics=(metric,)), faulty)["p_value"]
