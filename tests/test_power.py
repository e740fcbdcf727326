"""The factors in shipped metrics that the check finds, as docs/methods.md has them."""

from collections import defaultdict
from dataclasses import replace

from experiments.tables.verdicts import ALARM, verdicts
from tests.shipped import ROOT, shipped_only, tables_of_results

FACTORS = (1.01, 1.03, 1.1)


def p_values(results, metric, factor):
    """Those of the verdicts on a metric that is off by a factor, with its interval."""
    columns = [f"{metric.name}{end}" for end in ("", "_low", "_high")]
    faulty = results.measured.assign(**results.measured[columns] * factor)
    return verdicts(replace(results.experiment, metrics=(metric,)), faulty)["p_value"].dropna()


def in_docs(sweeps):
    """The tables of docs/methods.md."""
    known = {
        (name, metric.name): (results, metric)
        for name, results in sweeps.items()
        for metric in results.metrics.values()
        if metric.exact
    }
    honest = {key: len(p_values(*one, 1.0)) for key, one in known.items()}
    everywhere = sum(honest.values())
    planted = {
        key: (results, metric)
        for key, (results, metric) in known.items()
        if results.measured[f"{metric.name}_exact"].fillna(0).any()
    }
    lines = ["| a metric of a sweep times | found |", "|---:|---:|"]
    for factor in FACTORS:
        missed = defaultdict(list)
        for (sweep, metric), one in planted.items():
            found = p_values(*one, factor)
            tests = everywhere - honest[sweep, metric] + len(found)
            if not (found * tests < ALARM).any():
                missed[sweep].append(f"`{metric}`")
        count = len(planted) - sum(map(len, missed.values()))
        lines.append(f"| {factor:g} | {count} of {len(planted)} |")
    lines += ["", f"| sweep | not found at {FACTORS[-1]:g} |", "|---|---|"]
    return [*lines, *(f"| `{sweep}` | {', '.join(names)} |" for sweep, names in missed.items())]


@shipped_only
def test_docs_have_the_factors_that_the_check_finds():
    expected = "\n".join(in_docs(tables_of_results()))
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    assert expected in page, f"docs/methods.md: expected the table\n{expected}"
