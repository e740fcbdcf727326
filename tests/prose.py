"""Pages as a reader has them, and the numbers in them."""

import re

from tests.suite_process import ROOT

_NUMBER = r"(?<![\d.,])([−-]?\d+(?:,\d{3})*(?:\.\d+)?%?)"
_FORMATTING = (
    (r"\\sqrt\{(.*?)\}", r"√\1"),
    ("<sub>", "_"),
    ("<sup>", "^"),
    (r"\]\([^)]*\)", ""),
    (r"<[/!a-z][^>]*>|[*`$\\{}\[]", ""),
)
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "results").glob("*.md")),
        *sorted((ROOT / "results").glob("*/*.md")),
        ROOT / "experiments" / "README.md",
    )
}


def part(page, heading=""):
    """The text of a page, or that between a heading, of which the first words do, and the next."""
    text = (ROOT / page).read_text()
    return text.partition(f"# {heading}")[2].partition("\n##")[0] if heading else text


def prose(page, heading=""):
    """The same in one line."""
    return " ".join(part(page, heading).split())


def plain(page):
    """A page in one line, without formatting."""
    text = prose(page)
    for pattern, by in _FORMATTING:
        text = re.sub(pattern, by, text)
    return text


TEXT = "\n".join(map(plain, PAGES))


def numbers(words):
    """The numbers in the places of `#`, wherever a page has these words, and others for each `…`."""
    pattern = re.escape(words).replace(r"\#", _NUMBER).replace("…", ".{1,300}?")
    return [match.groups() for match in re.finditer(pattern, TEXT)]


def agrees(printed, value):
    """True if a number is a value rounded to its digits; in whole numbers, zeros at the end count as
    digits only among the first two.
    """
    digits = re.sub("[,%]", "", printed).replace("−", "-")
    whole, _, rest = digits.partition(".")
    zeros = 0 if rest else max(0, len(whole) - max(2, len(whole.rstrip("0"))))
    percent = 100 if "%" in printed else 1
    unit = 10.0 ** (zeros - len(rest))
    return abs(float(digits) - percent * value) <= unit / 2 * (1 + 1e-9)
