"""Pages as tests read them."""

import html
import re
from collections import Counter
from html.parser import HTMLParser

from experiments.figures.markup import typeset


class Elements(HTMLParser):
    """Tags and attributes of a page, and whether every element is closed."""

    VOID = frozenset({"meta", "link", "input", "br", "img"})

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.open = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def words(page):
    """The text of a page without its elements."""
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def as_shown(text):
    """A caption or a note as `words` has it."""
    return words(str(typeset(text)))


def assert_whole(text, folder):
    """Every element is closed, ids are unique, links and images are files of the folder, or in the
    page itself, and no network is asked.
    """
    elements = Elements(text)
    assert elements.open == []
    ids = Counter(attributes["id"] for _, attributes in elements.elements if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    assert "://" not in text
    for tag, attributes in elements.elements:
        if "src" in attributes:
            assert tag == "img"
            source = attributes["src"]
            assert source.startswith("data:image/png;base64,") or (folder / source).is_file()
            assert len(attributes["alt"]) > 20
        target = attributes.get("href", "data:")
        assert (
            target.startswith("data:")
            or target[1:] in ids
            or (tag == "a" and (folder / target).is_file())
        ), target
