"""Pages as a reader has them."""

from tests.suite_process import ROOT


def part(page, heading=""):
    """The text of a page, or that between a heading, of which the first words do, and the next."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"# {heading}")[2].partition("\n##")[0] if heading else text


def prose(page, heading=""):
    """The same in one line."""
    return " ".join(part(page, heading).split())
