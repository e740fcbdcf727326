"""Where each statement was published."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A publication: its kind, its title or place there, and its address, without a scheme, where it is known."""

    kind: str
    title: str
    address: str = ""

    @property
    def label(self) -> str:
        """The kind and the title."""
        return f"{self.kind} {self.title}"

    @property
    def citation(self) -> str:
        """The kind, the title and the address."""
        return ", ".join(filter(None, (self.label, self.address)))


# By the first part of a statement's id.
SOURCES = {
    "qa": Source("Q&A", '"Why divide by sqrt(d_k)?"'),
    "notebook": Source("notebook", '"Understanding the Division by sqrt(d) in the Attention Mechanism"'),
    "textbook": Source("textbook chapter", '"Scaled Dot-Product Attention"'),
    "lesson": Source("lesson", '"Softmax & Attention Output"'),
    "article": Source(
        "article",
        'M. Brenndoerfer, "Scaled Dot-Product Attention: The Core Transformer Mechanism" (2025)',
        "mbrenndoerfer.com/writing/scaled-dot-product-attention-transformer-mechanism",
    ),
    "cv8": Source(
        "repository",
        "CodeVinci8/attention-scaling-experiment, table1",
        "github.com/CodeVinci8/attention-scaling-experiment",
    ),
    "usc": Source(
        "repository",
        "graphcore-research/unit-scaling, notebook on almost-scaled attention",
        "github.com/graphcore-research/unit-scaling",
    ),
    "hello": Source("thread", "datawhalechina/hello-agents#840", "github.com/datawhalechina/hello-agents/issues/840"),
    "infw": Source("preprint", "arXiv 2506.00846", "arxiv.org/abs/2506.00846"),
    "ssmax": Source("preprint", "arXiv 2501.19399, figure 1", "arxiv.org/abs/2501.19399"),
    "ngpt": Source("preprint", "arXiv 2410.01131, section 2.3", "arxiv.org/abs/2410.01131"),
    "mup": Source("repository", "microsoft/mup, README", "github.com/microsoft/mup"),
    "se": Source(
        "question",
        '"Why does this multiplication of Q and K have a variance of d_k, in scaled dot product attention?"',
        "ai.stackexchange.com/questions/21237",
    ),
}


def sources(ids: str) -> list[Source]:
    """The sources of an entry, in the order of its ids."""
    return list(dict.fromkeys(SOURCES[name.split("-")[0]] for name in ids.split()))


def statements(ids: str) -> list[str]:
    """The statements of an entry; article-01a and article-01b are two parts of article-01, each judged by itself."""
    return [re.sub(r"(?<=\d)[a-z]$", "", name) for name in ids.split()]
