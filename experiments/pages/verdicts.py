"""The verdicts on the first screen, with their numbers from the tables of the sweeps behind them."""

from collections.abc import Callable, Mapping

from experiments.analysis.crossings import EQUAL, SCALED, UNSCALED
from experiments.analysis.results import Results
from experiments.declarations import FINDINGS
from experiments.declarations.tables import widest
from experiments.figures.findings import finding_of

Numbers = dict[str, float]


def verdicts(found: Mapping[str, Results]) -> dict[str, Numbers]:
    """The numbers of each verdict by name; only of those that the tables support.

    Exact are means of the sweep `dimension` at its largest d_k, and the d_k of `crossing` at
    which the medians of |J|_F are equal. The growth through a network is measured.
    """
    judged = {}
    for name, (sweep, figure, numbers) in VERDICTS.items():
        if sweep in found and finding_of(f"{sweep}/{figure}", found[sweep]):
            judged[name] = numbers(found[sweep])
    return judged


def _both(metric: str) -> Callable[[Results], Numbers]:
    """The exact means of a metric under both rules at the largest d_k of a sweep."""

    def numbers(results: Results) -> Numbers:
        rows = widest(results.measured).set_index("scaling")
        sizes = {name: rows[name].iloc[0] for name in ("d_k", "n_keys")}
        rules = {"unscaled": UNSCALED, "scaled": SCALED}
        return sizes | {name: rows.loc[rule, f"{metric}_exact"] for name, rule in rules.items()}

    return numbers


def _gradients(results: Results) -> Numbers:
    table = results["crossings"]
    of_medians = table[(table["norm"] == "jacobian") & (table["statistic"] == "median")]
    equal = of_medians[of_medians["level"] == EQUAL].sort_values("n_keys")
    numbers = {}
    for name, place in (("shortest", 0), ("longest", -1)):
        row = equal.iloc[place]
        numbers[name] = row["n_keys"]
        numbers[f"crossing_{name}"] = row["crossing_exact"]
    return numbers


def _network(results: Results) -> Numbers:
    growth = FINDINGS["network/growth"].numbers(results) or {}
    return {
        "layers": results.measured["layers"].max(),
        "d_k": results.measured["d_k"].iloc[0],
        "unscaled": 1e6 * growth["plain"],
        "scaled": growth["root"],
    }


VERDICTS = {
    "variance": ("dimension", "variance", _both("score_variance")),
    "saturation": ("dimension", "saturation", _both("max_weight")),
    "gradients": ("crossing", "map", _gradients),
    "network": ("network", "growth", _network),
}
