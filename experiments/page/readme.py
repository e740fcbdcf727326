"""The measured parts of README.md: each stands between markers and is made anew from results/."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments.analysis.growth import exponents
from experiments.analysis.slopes import LEVEL
from experiments.bench.summary import SIZE, growth, normals, peaks, ratios, shares, speedup
from experiments.figures import RECORD_FIGURES, SUITE_FIGURES
from experiments.harness.grid import Sweep
from experiments.harness.paths import BENCHMARKS, RECORD, SUITE, figure_path
from experiments.page.numbers import like_measured, with_error
from experiments.record.summary import counts_by_source

_BLOCK = re.compile(r"(<!-- begin (?P<name>[a-z-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)

SweepTables = Mapping[str, Mapping[str, pd.DataFrame]]


class ReadmeError(ValueError):
    """A marker that no block answers, or a block without its marker."""


def rewrite(text: str, sweeps: Sequence[Sweep], tables: SweepTables, results: Path) -> str:
    """The README with every marked block as the tables, captions and columns in results/ have it."""
    blocks = {
        "findings": lambda: _findings(sweeps, results),
        "measured": lambda: _measured(tables["scaling"]["measured"]),
        "slopes": lambda: _slopes(tables["scaling"]["slopes"]),
        "record": lambda: counts_by_source(results / "record.csv"),
        "cost": lambda: _cost(results),
        "performance": lambda: _performance(pd.read_csv(results / f"{BENCHMARKS}.csv")),
        "calibration": lambda: _calibration(results),
        "columns": lambda: _columns(results),
    }
    names = [match["name"] for match in _BLOCK.finditer(text)]
    if sorted(names) != sorted(blocks):
        raise ReadmeError(f"README.md: expected one block each of {', '.join(blocks)}, got {', '.join(names)}")
    return _BLOCK.sub(lambda m: f"{m[1]}{blocks[m['name']]()}\n{m[3]}", text)


def _findings(sweeps: Sequence[Sweep], results: Path) -> str:
    """Every figure with the caption that was computed for it."""
    figures = [(sweep.name, figure) for sweep in sweeps for figure in sweep.figures]
    lines = []
    figures += [(SUITE, figure) for figure in SUITE_FIGURES] + [(RECORD, figure) for figure in RECORD_FIGURES]
    for sweep, figure in figures:
        caption = figure_path(results, sweep, figure, ".txt").read_text(encoding="utf-8").strip()
        lines.append(f"- [{figure}]({figure_path(results, sweep, figure, '.png').as_posix()}): {caption}")
    return "\n".join(lines)


def _measured(table: pd.DataFrame) -> str:
    """Measured and exact values of the smallest, a middle and the largest d_k."""
    shown = table[table["d_k"].isin(table["d_k"].quantile([0, 0.5, 1], interpolation="higher"))]
    metrics = {
        "score_variance": "variance",
        "max_weight": "largest weight",
        "entropy": "entropy",
        "jacobian_norm": "r.m.s. \\|J\\|_F",
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


def _cost(results: Path) -> str:
    """How time and memory grew in the run whose table is there."""
    lines = ["| grows with | time as | memory as |", "|---|---:|---:|"]
    for _, row in exponents(pd.read_csv(results / "cost.csv")).iterrows():
        name = row["swept"]
        lines.append(f"| {name} | {name}^{row['seconds']:.2f} | {name}^{row['peak_bytes']:z.2f} |")
    return "\n".join(lines)


def _performance(bench: pd.DataFrame) -> str:
    """Ratios within the shipped run of the benchmark."""
    *_, (size, peak) = _peaks_of_suite(bench).items()
    d_k, n_keys, n_queries = size
    grown = [f"{row['swept']}^{row['seconds']:.2f}" for _, row in growth(bench).iterrows()]
    generators = [f"{name} {value:.2f}" for name, value in normals(bench).items()]
    parts = [f"{name} {share:.0%}" for name, share in shares(bench).items()]
    lines = [
        f"Time grows as {', '.join(grown)} over the three largest sizes.",
        f"Two workers measure the whole config {speedup(bench):.2f} times as fast as one.",
        f"At d_k = {d_k}, {n_keys} keys and {n_queries} queries a worker takes {peak:.0f} MiB above its imports, of "
        f"which K is {d_k * n_keys / 2**17:.0f}.",
        f"Time for a normal number over the fastest generator's: {', '.join(generators)}.",
        f"`make all` on one core: {', '.join(parts)}.",
    ]
    return "\n".join([*_ratios(bench), "", *(f"- {line}" for line in lines)])


def _ratios(bench: pd.DataFrame) -> list[str]:
    table, of_suite = ratios(bench), _peaks_of_suite(bench)
    beside = [str(name) for name in table if str(name).endswith(" over suite")]
    ways = "".join(f" {name.removesuffix(' over suite')} |" for name in beside)
    lines = [
        f"| d_k | keys | queries | gradients | suite over floor |{ways} MiB |",
        f"|---:|---:|---:|---|---:|{'---:|' * len(beside)}---:|",
    ]
    for _, row in table.iterrows():
        size = (row["d_k"], row["n_keys"], row["n_queries"])
        others = [f"{row[name]:.1f}" if row[name] < 10 else f"{row[name]:.0f}" for name in beside]
        gradients, memory = ("yes", f"{of_suite[size]:.0f}") if row["gradients"] else ("no", "")
        fields = [*map(str, size), gradients, f"{row['suite over floor']:.2f}", *others, memory]
        lines.append(f"| {' | '.join(fields)} |")
    return lines


def _peaks_of_suite(bench: pd.DataFrame) -> pd.Series:
    return peaks(bench).set_index(SIZE)["suite"]


def _calibration(results: Path) -> str:
    """How often the check raised its alarm, and whether its p-values are uniform, from calibration.csv."""
    table = pd.read_csv(results / "calibration.csv")
    lines = ["| planted | runs | with an alarm |", "|---|---:|---:|"]
    lines += [f"| {row['fault']} | {row['runs']} | {row['alarms']} |" for _, row in table.iterrows()]
    uniform = table["uniform_p"].iloc[0]
    lines += ["", f"Kolmogorov and Smirnov's test of the first line's p-values against uniform: p = {uniform:.2f}."]
    return "\n".join(lines)


def _columns(results: Path) -> str:
    """What each column means, from columns.csv; standard errors and exact values once for all."""
    columns = pd.read_csv(results / "columns.csv", keep_default_na=False)
    shown = columns[~columns["column"].str.contains("_se$|_exact$") | columns["table"].str.contains("-")]
    lines = ["| table of | column | unit | meaning | formula |", "|---|---|---|---|---|"]
    for (column, meaning), same in shown.groupby(["column", "meaning"], sort=False):
        first = same.iloc[0]
        formula = f"`{first['formula']}`".replace("|", "\\|") if first["formula"] else ""
        lines.append(f"| {', '.join(same['table'])} | `{column}` | {first['unit']} | {meaning} | {formula} |")
    return "\n".join(lines)
