"""The pages of docs/ print what their examples print; wrong numbers, and examples that fail, are found."""

from pathlib import Path

import pytest

from experiments.page.documents import DocumentError, rerun, rewrite_documents

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
PAGE = """# A page

```python
>>> x = 2  # no output
>>> x + 1
3
>>> for i in range(2):
...     print(i)
...     print()
0
<BLANKLINE>
1
<BLANKLINE>
```

Prose with >>> in it, and a block that is no example:

```sh
make all
```

    >>> x * 0.5
    1.0
"""


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_a_page_prints_what_its_examples_print(path):
    text = path.read_text(encoding="utf-8")
    assert rerun(text) == text


def test_there_are_examples_to_run():
    assert any(">>> " in path.read_text(encoding="utf-8") for path in DOCS)


def test_what_is_right_stays():
    assert rerun(PAGE) == PAGE
    assert rerun("No example.\n\n```sh\nls\n```") == "No example.\n\n```sh\nls\n```"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("3\n", "4\n"),
        ("3\n", ""),
        ("3\n", "3\n3\n"),
        ("0\n<BLANKLINE>\n", "0\n"),
        ("    1.0\n", "    1.5\n"),
        ("# no output\n", "# no output\n2\n"),
    ],
)
def test_a_planted_wrong_output_is_corrected(right, wrong):
    planted = PAGE.replace(right, wrong, 1)
    assert planted != PAGE
    assert rerun(planted) == PAGE


def test_an_output_is_added_to_a_page_that_ends_with_its_example():
    assert rerun(">>> 1 + 1") == ">>> 1 + 1\n2"


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        (">>> x + y", "line 5: expected an example that runs, got NameError: name 'y' is not defined"),
        (">>> x +", "line 5: expected an example that runs, got SyntaxError: invalid syntax"),
        (">>>x + 1", "line 5 .*lacks blank after >>>"),
    ],
)
def test_an_example_that_fails_is_named_by_its_line(tmp_path, planted, message):
    text = PAGE.replace(">>> x + 1", planted)
    with pytest.raises(DocumentError, match=message):
        rerun(text)
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(DocumentError, match=rf"page\.md: {message}"):
        rewrite_documents(tmp_path)
    assert (tmp_path / "page.md").read_text() == text


def test_no_page_sees_what_another_defined(tmp_path):
    (tmp_path / "a.md").write_text(">>> x = 1\n")
    (tmp_path / "b.md").write_text(">>> x\n1\n")
    with pytest.raises(DocumentError, match=r"b\.md: line 1: .* NameError"):
        rewrite_documents(tmp_path)


def test_every_page_of_a_folder_is_rewritten(tmp_path):
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(PAGE.replace("\n3\n", "\n4\n"))
    (tmp_path / "c.txt").write_text(">>> 1 / 0\n")
    rewrite_documents(tmp_path)
    assert [(tmp_path / name).read_text() for name in ("a.md", "b.md")] == [PAGE, PAGE]
