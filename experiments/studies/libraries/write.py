"""Tables of audits: docs/audited.csv of all listed functions, docs/faults.csv of faults.

`make audit-libraries` runs this in an environment of its own.
"""

import csv
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from time import process_time

from experiments.studies.libraries.faults import FAULTS
from experiments.studies.libraries.functions import FUNCTIONS, Listed
from sdpa import audit

DOCS = Path(__file__).parents[3] / "docs"


def audited(entry: Listed) -> dict[str, str]:
    """A row: what the audit finds, or the exception; seconds are of the processor."""
    start = process_time()
    report = audit(entry.attention, **entry.options)
    words = report.findings or [f"{x}: {report.facts[x]}" for x in ("scores", "keys")]
    if report.verdict == "raises":
        errors = (x for x in report.facts.values() if " raises " in x)
        words = [re.sub(r"^.*? raises | \(\w+\.py, line \d+\)$", "", x) for x in errors]
    options = (f"{name}={value}" for name, value in entry.options.items())
    fact = " ".join("; ".join(words).split())
    seconds = f"{process_time() - start:.1f}"
    return named(entry) | {
        "options": ", ".join(options),
        "verdict": report.verdict,
        "fact": fact,
        "seconds": seconds,
    }


def named(entry: Listed) -> dict[str, str]:
    """The columns that name a function."""
    return {
        "package": entry.package,
        "version": version(entry.package),
        "function": entry.calls,
    }


def faults() -> Iterable[dict[str, str]]:
    """A row for each fault."""
    of = {entry.attention: entry for entry in FUNCTIONS}
    for fault in FAULTS:
        confirmed, difference = fault.confirmed()
        yield named(of[fault.function]) | {
            "inputs": f"{fault.n_queries} queries, {fault.n_keys} keys",
            "computes": fault.computes,
            "expected": fault.expected,
            "confirmed": confirmed,
            "difference": difference,
            "thread": fault.thread,
        }


def write(name: str, rows: Iterable[dict[str, str]]) -> None:
    """Print rows as they come, and write them."""
    written = []
    for row in rows:
        print(*row.values(), sep=" | ", flush=True)
        written.append(row)
    with (DOCS / name).open("w", newline="") as file:
        table = csv.DictWriter(file, written[0], lineterminator="\n")
        table.writeheader()
        table.writerows(written)


if __name__ == "__main__":
    write("faults.csv", faults())
    write("audited.csv", map(audited, FUNCTIONS))
