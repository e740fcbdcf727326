"""Pages as tests read them."""

import html
import re
from collections import Counter
from html.parser import HTMLParser

from experiments.page.typeset import typeset


class Elements(HTMLParser):
    """Tags and attributes of a page, and whether every element is closed."""

    VOID = frozenset({"meta", "link", "input", "br", "path", "use", "rect", "image"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def words(page: str) -> str:
    """The text of a page without its elements."""
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def as_shown(text: str) -> str:
    """A caption or a note as `words` has it."""
    return words(str(typeset(text)))


def assert_self_contained(text: str) -> None:
    """Every element is closed, every id is unique, and nothing is requested from anywhere."""
    elements = Elements(text)
    assert elements.open == []
    ids = Counter(attributes["id"] for _, attributes in elements.found if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    assert "://" not in text
    for tag, attributes in elements.found:
        assert tag not in ("iframe", "object", "embed", "img", "base"), tag
        assert "src" not in attributes, tag
        if tag != "a" and "href" in attributes:
            target = attributes["href"]
            assert target.startswith("data:") or target[1:] in ids, target[:60]
