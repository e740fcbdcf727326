"""Cut-offs: one place for those that are chosen by hand."""

import ast
from pathlib import Path

from experiments.statements import cutoffs
from sdpa import metrics


def test_a_saturated_row_is_that_of_the_suite():
    assert cutoffs.SATURATED == metrics.SATURATED


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
