"""The pages of docs/ print what their `>>>` examples print; all examples of a page share one namespace."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
_FENCE = re.compile(r"^[ \t]*(```|~~~).*$", re.MULTILINE)


def failures(text: str, name: str, report: list[str]) -> int:
    """The number of examples that print something else than the page says; what they print goes into `report`."""
    # Without fences, which doctest would read as output; every line keeps its number.
    test = doctest.DocTestParser().get_doctest(_FENCE.sub("", text), {"__name__": "__main__"}, name, name, 0)
    return doctest.DocTestRunner().run(test, out=report.append).failed


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_a_page_prints_what_its_examples_print(path):
    report: list[str] = []
    assert failures(path.read_text(encoding="utf-8"), path.name, report) == 0, "".join(report)


def test_a_planted_wrong_output_is_found():
    page = "# A page\n\n```python\n>>> x = 2\n>>> x + 1\n3\n```\n\nProse.\n\n    >>> x * 0.5\n    1.0\n"
    assert failures(page, "right", []) == 0
    for right, wrong in (("3\n", "4\n"), ("3\n", ""), ("1.0", "1.5"), ("x + 1", "y + 1")):
        assert failures(page.replace(right, wrong, 1), "wrong", []) == 1
