"""What the audits of public packages give: one of them in README."""

import csv

from experiments.figures.markup import Source
from experiments.studies import Contribution
from experiments.studies.libraries.write import DOCS

_SHOWN = "local-attention"


def _audited(_: Source) -> str:
    """The findings on a function of a package, from docs/audited.csv."""
    with (DOCS / "audited.csv").open(newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["package"] == _SHOWN)
    options = row["options"].replace("dtype=", "--dtype ").replace(", mask=", " --mask ")
    findings = row["fact"].replace(", expected ", ",\n    expected ").replace("; ", "\n  ")
    command = f"$ sdpa audit local:attention {options}"
    return f"```text\n{command}\naudit of attention: {row['verdict']}\n  {findings}\n```"


CONTRIBUTION = Contribution(blocks={"audited": _audited})
