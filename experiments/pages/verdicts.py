"""The verdicts on the first screen, with their numbers from the tables of the sweeps behind them."""

from collections.abc import Callable, Mapping

from experiments.analysis.crossings import EQUAL, SCALED, UNSCALED
from experiments.analysis.results import Results
from experiments.declarations import FINDINGS
from experiments.declarations.tables import widest
from experiments.figures.findings import finding_of

Numbers = dict[str, str]


def verdicts(found: Mapping[str, Results]) -> dict[str, Numbers]:
    """The numbers of each verdict by name; only of those that the tables support.

    Means of the sweep `dimension` at its largest d_k are exact; the d_k of `crossing` at which the
    medians of |J|_F are equal is measured.
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
        sizes = {name: str(rows[name].iloc[0]) for name in ("d_k", "n_keys")}
        rules = {"unscaled": UNSCALED, "scaled": SCALED}
        return sizes | {
            name: f"{rows.loc[rule, f'{metric}_exact']:.3g}" for name, rule in rules.items()
        }

    return numbers


def _gradients(results: Results) -> Numbers:
    table = results["crossings"]
    of_medians = table[(table["norm"] == "jacobian") & (table["statistic"] == "median")]
    equal = of_medians[of_medians["level"] == EQUAL].sort_values("n_keys")
    numbers = {}
    for name, place in (("shortest", 0), ("longest", -1)):
        row = equal.iloc[place]
        numbers[name] = f"{row['n_keys']:,}"
        numbers[f"crossing_{name}"] = f"{row['crossing']:.0f}"
    return numbers


def _network(results: Results) -> Numbers:
    growth = FINDINGS["network/growth"].numbers(results) or {}
    return {
        "layers": str(results.measured["layers"].max()),
        "d_k": str(results.measured["d_k"].iloc[0]),
        "millions": f"{growth['plain']:.1f}",
        "scaled": f"{growth['root']:.1f}",
    }


VERDICTS = {
    "variance": ("dimension", "variance", _both("score_variance")),
    "saturation": ("dimension", "saturation", _both("max_weight")),
    "gradients": ("crossing", "map", _gradients),
    "network": ("network", "growth", _network),
}
