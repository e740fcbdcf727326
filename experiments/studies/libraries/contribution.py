"""What the audits of public packages give: one of them in README."""

import csv
from pathlib import Path

from experiments.figures.markup import Source
from experiments.studies import Contribution

_TABLE = Path(__file__).parents[3] / "docs" / "audited.csv"
_SHOWN = "local-attention"


def _audited(_: Source) -> str:
    """The findings on a function of a package, from docs/audited.csv."""
    with _TABLE.open(newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["package"] == _SHOWN)
    options = row["options"].replace("dtype=", "--dtype ").replace(", mask=", " --mask ")
    findings = row["fact"].replace("; ", "\n  ")
    command = f"$ sdpa audit local:attention {options}"
    return f"```text\n{command}\naudit of attention: {row['verdict']}\n  {findings}\n  ...\n```"


CONTRIBUTION = Contribution(blocks={"audited": _audited})
