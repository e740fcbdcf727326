"""The benchmarks in a few numbers, as ratios within one run: seconds differ from machine to machine.

The rows of speed.csv (see `experiments.benchmarks.speed`) go in; tables for pages, figures and the terminal come out.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from experiments.benchmarks.instructions import CHOSEN, FIXED

BUSY = 0.9  # share of their time in which workers measure, if the client keeps up with them
SIZE = ["d_k", "n_keys", "n_queries"]
_OTHERS = ("article, powers", "article, products", "pytorch")  # in double precision


def ratios(bench: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, with gradients and without: the suite over the floor, and other ways over the suite.

    Args:
        bench: the rows of speed.csv.

    Returns:
        `d_k`, `n_keys`, `n_queries`, `gradients`, `suite over floor`; `float32 over float64`, the time of the suite in
        single precision over that in double, below 1 where single precision is faster; and `WAY over suite` for each
        other way that was measured, above 1 where the suite is faster. `pytorch over suite, float32` has both in
        single precision; in all other columns, both ways are in double precision.
    """
    over = over_floor(bench)
    single = over["suite, float32"]
    table = over[[*SIZE, "gradients"]].assign(
        **{"suite over floor": over["suite"], "float32 over float64": single / over["suite"]}
    )
    for name in _OTHERS:
        if name in over:
            table[f"{name} over suite"] = over[name] / over["suite"]
    if "pytorch, float32" in over:
        table["pytorch over suite, float32"] = over["pytorch, float32"] / single
    return table


def precision_line(bench: pd.DataFrame) -> str:
    """The medians over cells of `float32 over float64`, as a sentence."""
    by_gradients = ratios(bench).groupby("gradients")["float32 over float64"]
    medians = by_gradients.median()
    return (
        f"In float32, the suite takes {medians[False]:.2f} of its time in float64 without gradients, and "
        f"{medians[True]:.2f} with gradients (medians over the {by_gradients.size()[False]} sizes)."
    )


def instructions_line(bench: pd.DataFrame) -> str:
    """The cost of the same instructions on every processor, as a sentence."""
    rows = bench[bench["part"] == "instructions"]
    if rows.empty:
        return "The processor of this run keeps its own instructions."
    seconds = rows.pivot_table(index=SIZE, columns="what", values="seconds", sort=False)
    cost = seconds[FIXED] / seconds[CHOSEN]
    return (
        f"With the same instructions on every processor, the suite takes {cost.median():.2f} times as long as with "
        f"those that the libraries choose on the processor of this run ({cost.min():.2f} to {cost.max():.2f} over "
        f"{len(cost)} sizes, with gradients)."
    )


def over_floor(bench: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, with gradients and without: seconds of each way over those of the floor.

    The floor is the sum of the parts that `experiments.benchmarks.floor` times, in double precision for all ways. Cells
    without gradients come first.
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
    """Seconds per normal number in every way over those of SFC64 in double precision, shortest first."""
    seconds = bench[bench["part"] == "normals"].set_index("what")["seconds"]
    return (seconds / seconds["SFC64"]).sort_values()


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
        precision_line(bench),
        instructions_line(bench),
        "peak memory above imports, in MiB:",
        peaks(bench).to_string(index=False, float_format="{:.0f}".format, na_rep=""),
        *exponent_lines(growth(bench)),
        "normal numbers, time relative to SFC64 in float64: " + _listed(normals(bench), "{:.2f}"),
        f"two workers measure the whole config {speedup(bench):.2f} times as fast as one worker",
        "make all on one core: " + _listed(shares(bench), "{:.1%}"),
    ]
    return "\n".join(lines)


def cluster_rates(found: pd.DataFrame) -> pd.DataFrame:
    """Records per second of one client, for each number of workers that only wait and each time of a chunk.

    Args:
        found: the rows of cluster.csv (see `experiments.benchmarks.cluster`).

    Returns:
        `workers`, `chunk_seconds`, `per_second`, `share` of the records that workers deliver which never idle, and
        `client` and `scheduler`: the processor time of each over the time.
    """
    scale = found[found["part"] == "scale"]
    per_second = scale["chunks"] / scale["seconds"]
    return scale[["workers", "chunk_seconds"]].assign(
        workers=scale["workers"].astype(int),
        per_second=per_second,
        share=per_second * scale["chunk_seconds"] / scale["workers"],
        client=scale["client_cpu"] / scale["seconds"],
        scheduler=scale["scheduler_cpu"] / scale["seconds"],
    )


def cluster_lines(found: pd.DataFrame) -> list[str]:
    """What the rows of cluster.csv show beside `cluster_rates`, as sentences.

    Args:
        found: the rows of cluster.csv.
    """
    by_part = dict(list(found.groupby("part", sort=False)))
    sweep = by_part["sweep"].set_index("what")
    (writing,) = by_part["writing"].to_dict("records")
    local, cluster = sweep.loc["local"], sweep.loc["cluster"]
    rates = cluster_rates(found)
    busy = rates[rates["share"] >= BUSY].groupby("chunk_seconds")["workers"].max().map("{:,}".format)
    fewer = f"fewer than {rates['workers'].min()}"
    most = [f"{busy.get(seconds, fewer)} with chunks of {seconds:g} s" for seconds in sorted({*rates["chunk_seconds"]})]
    scale = found[found["part"] == "scale"]
    fastest = scale.loc[(scale["chunks"] / scale["seconds"]).idxmax()]
    client, scheduler = fastest["client_cpu"] / fastest["chunks"], fastest["scheduler_cpu"] / fastest["chunks"]
    return [
        f"A sweep of {local['chunks']:.0f} chunks of about 0.2 s takes {cluster['seconds'] / local['seconds']:.2f} "
        f"times as long on {cluster['workers']:.0f} workers of a cluster as on {local['workers']:.0f} local processes.",
        f"Without measuring, a run writes {writing['chunks'] / writing['seconds']:,.0f} records per second; its "
        f"processor is busy for {writing['client_cpu'] / writing['seconds']:.0%} of that time, and waits for the disk "
        "for the rest.",
        f"In the row with the most records per second, a record takes {1000 * client:.2f} ms of processor time in the "
        f"client and {1000 * scheduler:.2f} ms in the scheduler. With a core for each and a fast disk, that allows "
        f"about {1 / max(client, scheduler):,.0f} records per second.",
        f"Of the numbers of workers in the table, one client keeps the following busy for at least {BUSY:.0%} of the "
        f"time: {', '.join(most)}.",
    ]


def _listed(values: pd.Series, form: str) -> str:
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())
