"""Cut-offs: one place for those that are chosen by hand."""

import ast
from pathlib import Path

import pandas as pd

from experiments.statements import cutoffs
from experiments.statements.compute import compute_row
from experiments.statements.summary import counts_in_markdown
from sdpa import metrics


def test_a_saturated_row_is_that_of_the_suite():
    assert cutoffs.SATURATED.value == metrics.SATURATED


def test_a_verdict_that_another_cut_off_changes_is_in_the_table_and_in_the_docs(find, tables):
    """At d_k = 512, weights are not above 0.9 with every number of keys; no cut-off matters to a printed number."""
    row = compute_row(find("qa-02"), tables)
    assert (row["verdict"], row["other_cutoffs"]) == ("holds", "LARGE = 512: misleading, conceptual error")
    assert cutoffs.LARGE.value == cutoffs.LARGE.chosen
    printed = compute_row(find("article-36"), tables)
    assert not printed["other_cutoffs"]
    lines = counts_in_markdown(pd.DataFrame([row, printed])).splitlines()[-len(cutoffs.CUTOFFS) :]
    (of_large,) = (line for line in lines if line.startswith("| `LARGE`"))
    assert of_large.endswith(f"| 4096 | 512 | at 512, {row['id']}: misleading, conceptual error |")
    assert all(line.endswith("| none |") for line in lines if line != of_large)


def test_cut_offs_are_in_one_place():
    """No comparison has a fraction of its own: only the cut-offs by name, and rounding of doubles."""
    found = []
    for path in Path(cutoffs.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                fractions = [x for x in numbers if isinstance(x, float) and x % 1 and x > 1e-7]
                found += [f"{path.name}:{node.lineno}: {x}" for x in fractions]
    assert found == []
