"""The benchmarks in a few numbers, as ratios within one run: seconds differ from machine to machine.

The rows of speed.csv (see `experiments.benchmarks.speed`) go in; tables for pages, figures and the terminal come out.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

SIZE = ["d_k", "n_keys", "n_queries"]
_OTHERS = ("article, powers", "article, products", "pytorch")


def ratios(bench: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, with gradients and without: the suite over the floor, and other ways over the suite.

    Args:
        bench: the rows of speed.csv.

    Returns:
        `d_k`, `n_keys`, `n_queries`, `gradients`, `suite over floor`, and `WAY over suite` for each other way that was
        measured; the last are above 1 where the suite is faster.
    """
    over = over_floor(bench)
    table = over[[*SIZE, "gradients"]].assign(**{"suite over floor": over["suite"]})
    for name in _OTHERS:
        if name in over:
            table[f"{name} over suite"] = over[name] / over["suite"]
    return table


def over_floor(bench: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, with gradients and without: seconds of each way over those of the floor.

    The floor is the sum of the parts that `experiments.benchmarks.floor` times. Cells without gradients come first.
    """
    cells = bench[bench["part"] == "cell"]
    seconds = cells.pivot_table(index=[*SIZE, "gradients"], columns="what", values="seconds", sort=False)
    parts = [name for name in seconds if name.startswith("floor: ")]
    table = seconds.drop(columns=parts).div(seconds[parts].sum(axis=1), axis=0)
    return table.reset_index().astype(dict.fromkeys(SIZE, int)).sort_values("gradients", kind="stable")


def peaks(bench: pd.DataFrame) -> pd.DataFrame:
    """MiB above imports of every way, one row per cell."""
    rows = bench[bench["part"] == "memory"]
    table = rows.pivot_table(index=SIZE, columns="what", values="peak_bytes", sort=False) / 2**20
    return table.reset_index().astype(dict.fromkeys(SIZE, int))


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Slopes of ln seconds and ln bytes against ln of the growing size, over its three largest values.

    Small sizes are left out, because the fixed cost of a call flattens the slope there.

    Args:
        table: `swept` names the column of the growing size; `seconds` and `peak_bytes` grow with it.

    Returns:
        One row for each growing size, with `swept` and the slopes in `seconds` and `peak_bytes`.

    >>> size = [1, 2, 4, 8]
    >>> cost = {"swept": "n", "n": size, "seconds": [n**2 for n in size], "peak_bytes": size}
    >>> exponents(pd.DataFrame(cost)).round(9).to_numpy().tolist()
    [['n', 2.0, 1.0]]
    """
    rows = []
    for swept, group in table.groupby("swept", sort=False):
        upper = group.nlargest(3, str(swept))
        size = np.log(upper[str(swept)].to_numpy(dtype=float))
        slopes = {name: np.polyfit(size, np.log(upper[name]), 1)[0] for name in ("seconds", "peak_bytes")}
        rows.append({"swept": swept, **slopes})
    return pd.DataFrame(rows)


def exponent_lines(found: pd.DataFrame) -> Iterator[str]:
    """The `exponents` in words, one line for each growing size.

    >>> list(exponent_lines(pd.DataFrame({"swept": ["n"], "seconds": [1.98], "peak_bytes": [2.0]})))
    ['time grows as n^1.98, memory as n^2.00']
    """
    for row in found.itertuples():
        yield f"time grows as {row.swept}^{row.seconds:.2f}, memory as {row.swept}^{row.peak_bytes:z.2f}"


def growth(bench: pd.DataFrame) -> pd.DataFrame:
    """The exponents of the suite's time and memory, by growing size."""
    return exponents(growth_rows(bench).rename(columns={"what": "swept"}))


def growth_rows(bench: pd.DataFrame) -> pd.DataFrame:
    """The rows in which one size grows."""
    return bench[bench["part"] == "growth"]


def normals(bench: pd.DataFrame) -> pd.Series:
    """Seconds per normal number of every bit generator over those of the fastest."""
    seconds = bench[bench["part"] == "normals"].set_index("what")["seconds"]
    return (seconds / seconds.min()).sort_values()


def speedup(bench: pd.DataFrame) -> float:
    """The time that one worker takes to measure the whole config over that of two workers."""
    seconds = bench[bench["part"] == "workers"].set_index("what")["seconds"]
    return float(seconds["1 worker"] / seconds["2 workers"])


def shares(bench: pd.DataFrame) -> pd.Series:
    """The share of each part in `make all` on one core, largest first; the shares sum to 1."""
    seconds = bench[bench["part"] == "profile"].set_index("what")["seconds"]
    return (seconds / seconds.sum()).sort_values(ascending=False)


def report(bench: pd.DataFrame) -> str:
    """The whole summary, for a terminal."""
    lines = [
        ratios(bench).to_string(index=False, float_format="{:.2f}".format),
        "peak memory above imports, in MiB:",
        peaks(bench).to_string(index=False, float_format="{:.0f}".format, na_rep=""),
        *exponent_lines(growth(bench)),
        "normal numbers, time relative to the fastest generator: " + _listed(normals(bench), "{:.2f}"),
        f"two workers measure the whole config {speedup(bench):.2f} times as fast as one worker",
        "make all on one core: " + _listed(shares(bench), "{:.1%}"),
    ]
    return "\n".join(lines)


def cluster_lines(found: pd.DataFrame) -> list[str]:
    """What the rows of cluster.csv show, as sentences.

    Args:
        found: the table of `experiments.benchmarks.cluster`.
    """
    by_part = dict(list(found.groupby("part", sort=False)))
    sweep = by_part["sweep"].set_index("what")
    (writing,) = by_part["writing"].to_dict("records")
    local, cluster = sweep.loc["local"], sweep.loc["cluster"]
    lines = [
        f"{local['chunks']:.0f} chunks take {local['seconds']:.1f} s on {local['workers']:.0f} local processes and "
        f"{cluster['seconds']:.1f} s on {cluster['workers']:.0f} workers of a cluster on the same machine: "
        f"{cluster['seconds'] / local['seconds']:.2f} times as long. Both include the imports of the local processes, "
        "which the workers of the cluster have done before.",
        f"Without measuring, a run writes and counts {writing['chunks'] / writing['seconds']:.0f} records per second.",
    ]
    for workers, rows in by_part["scale"].groupby("workers"):
        rates = [
            f"{row['chunks'] / row['seconds']:.0f} per second with chunks of {row['chunk_seconds']:g} s "
            f"({row['ideal'] / row['seconds']:.0%} of what the workers could deliver)"
            for _, row in rows.iterrows()
        ]
        lines.append(f"From {workers:.0f} workers that only wait, one client receives {', '.join(rates)}.")
    return lines


def _listed(values: pd.Series, form: str) -> str:
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())
