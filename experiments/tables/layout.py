"""Tables as CSV: their digits, the columns that name their sweep, and those of the two files with
the main table, `all_metrics` and the summary.

The suite reads `all_metrics`; people read the summary, SWEEP.csv. Neither has the interval of a mean
or of a root mean square, which follows from other columns (`experiments.tables.rows`).
"""

from typing import TYPE_CHECKING

from experiments.config.paths import SUMMARY
from experiments.kinds.figures import SUMMARIES
from experiments.measuring.columns import DIGITS, RULES, Column, names
from experiments.measuring.experiment import MEASURED

if TYPE_CHECKING:
    import pandas as pd

    from experiments.tables.results import Results

IDENTITY = (
    Column("sweep", "str", "name of the sweep"),
    Column("experiment", "str", "experiment of the sweep"),
    Column("seed", "int", "root seed of the config"),
)
_ALWAYS = "n_keys", RULES, "divisor", "trials"  # in a summary, if the experiment has them


def csv_bytes(table: "pd.DataFrame") -> bytes:
    r"""A table as CSV: floats have ten significant digits, missing values are empty.

    >>> import pandas as pd
    >>> csv_bytes(pd.DataFrame({"d_k": [4, 8], "slope": [1 / 3, float("nan")]}))
    b'd_k,slope\n4,0.3333333333\n8,\n'
    """
    text: str = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return text.encode()


def written_columns(results: "Results") -> list[Column]:
    """The columns of `all_metrics`: those of the main table, without what it has in memory alone."""
    declared = results.experiment.table_columns
    return [column for column in declared if column.name in results.measured]


def csv_contents(results: "Results") -> dict[str, bytes]:
    """The bytes of all tables by kind, with the summary; each but that begins with `IDENTITY`."""
    sweep = results.sweep
    values = sweep.name, sweep.experiment.name, sweep.seed
    identity = dict(zip(names(IDENTITY), values, strict=True))
    measured = results.measured
    contents = {}
    for kind, table in results.items():
        own = names(written_columns(results)) if kind == MEASURED else table.columns
        whole = table.assign(**identity)
        contents[kind] = csv_bytes(whole[[*identity, *own]])
    contents[SUMMARY] = csv_bytes(measured[summary_columns(results)])
    return contents


def summary_columns(results: "Results") -> list[str]:
    """The columns of a summary among those of `all_metrics`: the axes that vary, the number of keys,
    the rule with its divisor and trials, and what the experiment declares, with exact values and
    one error: that of a mean or a root, and the interval of anything else.
    """
    declared = SUMMARIES[results.experiment.name]
    wanted = {*results.axes.varied(results.measured), *_ALWAYS, *declared}
    for name in results.metrics.keys() & declared:
        wanted.add(f"{name}_exact")
        is_average = results.metrics[name].is_average
        wanted |= {f"{name}_se"} if is_average else {f"{name}_low", f"{name}_high"}
    return [name for name in names(written_columns(results)) if name in wanted]
