"""Tables of numbers in generated Markdown, from the files in results/ and from exact laws."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.crossings import EQUAL, NORM_NAMES, TENTH
from experiments.analysis.results import SweepAxes
from experiments.claims.table import counts, read_statements, severities
from experiments.figures.words import short
from experiments.kinds.language import Cell
from experiments.pages.parts import Source, code, digits, formulas, markdown
from experiments.paths import FULL, THEORY, csv_name
from sdpa import Scaling
from sdpa.theory import attention_expectations, limits
from sdpa.theory import poisson_dirichlet as frozen_rows
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.three_scales import SCALES

_DEPLOYED = Path(__file__).with_name("deployed.csv")
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
    """The exact crossing before the measured one and its interval; `>2048` or `<8` outside a sweep."""
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
    return f"{exact:.{places}f} ({measured}; {start} to {end})"


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
        "Llama's kind, q and k of variance 1": {"scheme": "lecun"},
        "Llama's kind, matrices N(0, 0.02<sup>2</sup>)": {"scheme": "gpt2"},
    },
}


def network_others(source: Source) -> str:
    """The growth of the gradient through networks with other parts, from the folder of
    config.full.yaml.
    """
    rows = []
    for sweep, networks in _NETWORKS.items():
        measured = pd.read_csv(source.results / FULL / f"{sweep}.csv")
        rules = measured["scaling"].unique()
        for name, parts in networks.items():
            is_meant = (measured[list(parts)] == pd.Series(parts)).all(axis=1)
            rows.append([name, *_by_rule(measured[is_meant], rules)])
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


def all_scales(source: Source) -> str:
    """The scales of d_k up to a million keys: laws, with computed values behind them."""
    n_keys = (16, 256, 4096, 2**20)
    table = pd.read_csv(source.results / THEORY / "scales.csv").set_index(["scale", "n_keys"])
    rows = []
    for name, scale in SCALES.items():
        fields = [formulas(f"{scale.what}: {scale.formula}")]
        values = table.loc[name].loc[[*n_keys]]
        for law, value in values.to_numpy():
            computed = "" if math.isnan(value) else f" ({digits(value)})"
            fields.append(digits(law) + computed)
        rows.append(fields)
    head = ["scale of d<sub>k</sub>: law (value)", *(f"n = {n}" for n in n_keys)]
    return markdown(head, rows, "-" + "r" * len(n_keys))


def deployed(_: Source) -> str:
    """Scales of deployed models as rules, and the exact entropy of standard normal q and k."""
    lengths = {"1k": 2**10, "32k": 2**15, "1M": 2**20}
    table = _deployed()
    rows = []
    for model in table[table["got"] == ""].itertuples():
        source = f"[{model.what}](https://github.com/{model.source})"
        fields = [source if model.source else model.what, model.d_k, code(model.rule)]
        rule = Scaling.parse(model.rule)
        for n in lengths.values():
            divisor = rule.divisor(model.d_k, n)
            entropy = attention_expectations(model.d_k, n, divisor).entropy
            fields.append(f"{entropy:.3f}")
        rows.append(fields)
    return markdown(["model", "d<sub>k</sub>", "rule", *lengths], rows, "-r-rrr")


def bugs(_: Source) -> str:
    """Public bugs, and the spread of the program's scores over that of the model's."""
    table = _deployed()
    rows = []
    for bug in table[table["got"] != ""].itertuples():
        _, repository, _, number = bug.source.split("/")
        expected = Scaling.parse(bug.rule).divisor(bug.d_k, 1)
        got = Scaling.parse(bug.got).divisor(bug.d_k, 1)
        link = f"[{repository}#{number}](https://github.com/{bug.source}): {bug.what}"
        rows.append((link, bug.d_k, code(bug.got), code(bug.rule), f"{expected / got:.2f}"))
    return markdown(["bug", "d<sub>k</sub>", "got", "expected", "spread"], rows, "-r--r")


def _deployed() -> pd.DataFrame:
    return pd.read_csv(_DEPLOYED, keep_default_na=False)


def frozen(_: Source) -> str:
    """Exact values of rows in the frozen phase, and their limits."""
    head = ["sigma / sigma_c", "n", "largest weight", "entropy, nats", "r.m.s. |J|_F"]
    head.append("rows with a weight above 0.99")
    rows = []
    for ratio in (1.5, 3.0):
        for n in (4096, 2**20):
            sigma = ratio * limits.freezing_sigma(n)
            values = gaussian_rows(np.array([sigma]), np.array([n]))
            rows.append([ratio, n, *values[0]])
        m = 1 / ratio
        largest = frozen_rows.max_weight(m)
        entropy = frozen_rows.entropy(m)
        square = frozen_rows.jacobian_square(m)
        saturated = frozen_rows.share_above(m, 0.99)
        rows.append([ratio, "limit", largest, entropy, square, saturated])
    for row in rows:
        row[4] **= 0.5
        row[2:] = map("{:.3f}".format, row[2:])
    return markdown([*map(formulas, head)], rows, "r" * len(head))
