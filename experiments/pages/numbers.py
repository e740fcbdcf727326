"""Tables of numbers in generated Markdown, from the files in results/."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.crossings import EQUAL, NORM_NAMES, TENTH
from experiments.analysis.results import SweepAxes
from experiments.analysis.written import significant
from experiments.declarations.tables import BOTH
from experiments.figures.words import short
from experiments.kinds.language import Cell
from experiments.pages.parts import Source, code, digits, formulas, markdown
from experiments.pages.statements import counts, read_statements, severities
from experiments.paths import FULL, csv_name

_LEVELS = {EQUAL: "equal", TENTH: "a tenth"}
_CROSSINGS = (  # norm, statistic and level of the columns of the table of crossings
    *(("jacobian", "median", level) for level in _LEVELS),
    *(("query_gradient", "median", level) for level in _LEVELS),
    ("undivided_query_gradient", "median", EQUAL),
    *((norm, "r.m.s.", EQUAL) for norm in ("jacobian", "query_gradient")),
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


def crossings(source: Source) -> str:
    """The d_k above which each norm is smaller unscaled than under d_k^1/2, with an interval, by
    n_keys.
    """
    table = pd.read_csv(source.results / csv_name("crossing", "crossings"))
    head = ["n_keys"]
    for norm, statistic, level in _CROSSINGS:
        head.append(f"{statistic} of {formulas(NORM_NAMES[norm])}: {_LEVELS[level]}")
    rows = []
    for n_keys, found in table.groupby("n_keys"):
        by_kind = found.set_index(["norm", "statistic", "level"], drop=False)
        rows.append([n_keys, *(_crossing(by_kind.loc[kind]) for kind in _CROSSINGS)])
    return markdown(head, rows, "r" * len(head))


def _crossing(row: "pd.Series[Any]") -> str:
    """The exact crossing before the measured one and its interval; `>2048` or `<8` outside a sweep.

    Two digits of an exact crossing do not depend on the d_k between which it is interpolated.
    """
    below = f"<{row['smallest_d_k']:.0f}"
    above = f">{row['largest_d_k']:.0f}"
    middle, low, high, exact = row[["crossing", "crossing_low", "crossing_high", "crossing_exact"]]
    if np.isnan(middle):
        return above if row["ratio_at_largest"] > row["level"] else below
    reach = np.nanmax([middle - low, high - middle])
    places = 1 if reach < 2 else 0
    start = below if np.isnan(low) else f"{low:.{places}f}"
    end = above if np.isnan(high) else f"{high:.{places}f}"
    measured = f"{middle:.{places}f}"
    return f"{significant(exact, 2):g} ({measured}; {start} to {end})"


def network_growth(source: Source) -> str:
    """The growth of the gradient through a network with its interval, and its law, by rule."""
    measured = pd.read_csv(source.results / "network.csv")
    layers = pd.read_csv(source.results / csv_name("network", "by_layer"))
    bottom = layers[layers["layer"] == 1].set_index("layers")
    rules = measured["scaling"].unique()
    rows = []
    for depth, of_depth in measured.groupby("layers"):
        by_rule = bottom.loc[depth].set_index("scaling")
        law = np.sqrt(by_rule["stream_gradient_law"])
        rows.append([depth, "measured", *_by_rule(of_depth, rules)])
        rows.append(["", "law", *law[rules].map(digits).map(formulas)])
    head = ["layers", "r.m.s. gradient, bottom over top", *map(code, rules)]
    return markdown(head, rows, "rl" + "r" * len(rules))


_NETWORKS: dict[str, dict[str, dict[str, str | float]]] = {
    "networks": {
        "start `xavier_packed`": {"scheme": "xavier_packed"},
        "start `kaiming`": {"scheme": "kaiming"},
        "tokens of cosine 0.9": {"token_cosine": 0.9},
        "64 layers": {"layers": 64},
        "causal mask": {"mask": "causal", "position": "none"},
        "RoPE": {"mask": "none", "position": "rope"},
        "ReLU MLP": {"mlp": "relu"},
        "SwiGLU MLP": {"mask": "none", "mlp": "swiglu"},
        "causal mask, RoPE and SwiGLU MLP": {"mask": "causal", "mlp": "swiglu"},
    },
    "llama": {
        "Llama's kind, q and k of variance 1": {"scheme": "lecun", "output_scale": "none"},
        "Llama's kind, matrices N(0, 0.02<sup>2</sup>)": {"scheme": "gpt2", "output_scale": "none"},
    },
}
_STARTS: dict[str, dict[str, dict[str, str | float]]] = {
    "starts": {
        "q and k of variance 1 (`lecun`)": {"scheme": "lecun", "layers": 48},
        "`xavier`": {"scheme": "xavier", "layers": 48},
        "`kaiming`": {"scheme": "kaiming", "layers": 48},
        "`gpt2`, N(0, 0.02<sup>2</sup>)": {"scheme": "gpt2", "layers": 48},
        "`lecun`, 12 layers": {"scheme": "lecun", "layers": 12},
        "`lecun`, 24 layers": {"scheme": "lecun", "layers": 24},
        "`lecun`, 96 layers": {"scheme": "lecun", "layers": 96},
    },
    "llama": {
        "Llama's kind, `lecun`": {"scheme": "lecun"},
        "Llama's kind, `smollm2`, N(0, 1/24<sup>2</sup>)": {"scheme": "smollm2"},
        "Llama's kind, `gpt2`": {"scheme": "gpt2"},
    },
}


def network_starts(source: Source) -> str:
    """The growth of the gradient by start, with and without `output_scale`, and its law, from the
    folder of config.full.yaml.
    """
    columns = [*itertools.product(BOTH, ("none", "depth"))]
    rows = []
    for sweep, starts in _STARTS.items():
        folder = source.results / FULL
        measured = pd.read_csv(folder / f"{sweep}.csv")
        layers = pd.read_csv(folder / csv_name(sweep, "by_layer"))
        bottom = layers[layers["layer"] == 1]
        for name, start in starts.items():
            fields = []
            for rule, scale in columns:
                case = {**start, "scaling": rule, "output_scale": scale}
                fields.append(_with_law(_rows_of(measured, case), _rows_of(bottom, case)))
            rows.append([name, *fields])
    heads = [f"{code(rule)}{', depth' * (scale == 'depth')}" for rule, scale in columns]
    return markdown(["start", *heads], rows, "-" + "r" * len(columns))


def _rows_of(table: pd.DataFrame, values: dict[str, str | float]) -> pd.DataFrame:
    """The rows of a table with these values."""
    return table[(table[list(values)] == pd.Series(values)).all(axis=1)]


def _with_law(measured: pd.DataFrame, bottom: pd.DataFrame) -> str:
    """A growth with its interval, and the law where there is one; empty without a row."""
    if measured.empty:
        return ""
    (found,) = _by_rule(measured, measured["scaling"])
    law = float(np.sqrt(bottom["stream_gradient_law"].iloc[0]))
    return found if math.isnan(law) else f"{found}; law {formulas(digits(law))}"


def network_others(source: Source) -> str:
    """The growth of the gradient through networks with other parts, from the folder of
    config.full.yaml.
    """
    rows = []
    for sweep, networks in _NETWORKS.items():
        measured = pd.read_csv(source.results / FULL / f"{sweep}.csv")
        rules = measured["scaling"].unique()
        for name, parts in networks.items():
            rows.append([name, *_by_rule(_rows_of(measured, parts), rules)])
    return markdown(["network", *map(code, rules)], rows, "-" + "r" * len(rules))


def network_limits(source: Source) -> str:
    """The gradient at the bottom of small networks over the law, by rule, from the folder of
    config.full.yaml.
    """
    layers = pd.read_csv(source.results / FULL / csv_name("few_heads", "by_layer"))
    bottom = layers[layers["layer"] == 1]
    root = np.sqrt(bottom["stream_gradient"])
    law = np.sqrt(bottom["stream_gradient_law"])
    # The standard error of a root is that of its square over twice the root.
    errors = bottom["stream_gradient_se"] / (2 * root * law)
    pairs = zip(root / law, errors, strict=True)
    words = [f"{ratio:.2f} ± {error:.2f}" for ratio, error in pairs]
    shown = bottom.assign(shown=words)
    axes = ["norm", "residual", "n_heads", "n_keys"]
    rules = shown["scaling"].unique()
    rows = []
    for values, of_rules in shown.groupby(axes, sort=False):
        by_rule = of_rules.set_index("scaling")["shown"]
        rows.append([*values, *by_rule[rules]])
    head = [*map(code, axes), *map(code, rules)]
    return markdown(head, rows, "-" + "r" * (3 + len(rules)))


def _by_rule(rows: pd.DataFrame, rules: Any) -> list[str]:
    """The growth of the gradient with its interval, for each rule."""
    ends = [f"stream_gradient_growth{end}" for end in ("", "_low", "_high")]
    values = rows.set_index("scaling").loc[rules, ends].map(digits).map(formulas)
    return [f"{value} ({low} to {high})" for value, low, high in values.to_numpy()]


_TRAINED = (
    "language",
    "language_rates",
    "language_optimizers",
    "language_sizes",
    "language_wide",
    "language_uniform",
)  # of config.full.yaml


def trained(source: Source) -> str:
    """The loss of trained decoders at the best rate of each rule, and this rate, by sweep and case.

    With ≤ where the best rate is an end of the grid of rates, so that a better one may lie outside.
    """
    folder = source.results / FULL
    tables = {sweep: pd.read_csv(folder / csv_name(sweep, "bands")) for sweep in _TRAINED}
    axes = SweepAxes.of_cell(Cell)
    rules = pd.concat(tables.values())["scaling"].unique()
    rows = []
    for sweep, table in tables.items():
        varied = axes.varied(table)
        for _, of_case in table.groupby(axes.among(table), sort=False):
            first = of_case.iloc[0]
            named = {*varied, *axes.changed(first)}
            shown = [name for name in axes.among(table) if name in named]
            case = ", ".join(f"{code(name)} {short(first[name])}" for name in shown)
            of_rules = of_case.set_index("scaling").apply(_loss, axis=1)
            rows.append([code(sweep), case, *of_rules.reindex(rules, fill_value="")])
    return markdown(["sweep", "case", *map(code, rules)], rows, "--" + "r" * len(rules))


def _loss(row: "pd.Series[Any]") -> str:
    """A loss with its interval and its rate."""
    at_end = row["best_rate"] in (row["lowest_rate"], row["highest_rate"])
    loss, low, high = (row[f"final_loss{end}"] for end in ("", "_low", "_high"))
    most = "≤ " if at_end else ""
    return f"{most}{loss:.3f} ({low:.3f} to {high:.3f}) at {row['best_rate']:g}"


def statements(source: Source) -> str:
    """The number of statements by source and verdict and by severity, and verdicts that other
    cut-offs change.
    """
    table = read_statements(source.results)
    by_source = counts(table)
    grave = severities(table)
    changes = table.set_index("id")["other_cutoffs"].str.split("; ").explode()
    changes = changes[changes != ""].sort_values(kind="stable")
    parts = changes.str.split(": ", n=1, expand=True)
    others = parts.reset_index()[[0, 1, "id"]]
    n_ids = table["id"].str.split().explode().size
    tables = [
        markdown(["source", *by_source], by_source.itertuples(), "-" + "r" * 8),
        markdown(["severity", *grave], grave.itertuples(), "-rr"),
        f"The {n_ids} ids form {len(table)} entries. Another value of a cut-off changes these "
        f"verdicts:",
        markdown(["cut-off", "verdict", "entry"], others.to_numpy()),
    ]
    return "\n\n".join(tables)
