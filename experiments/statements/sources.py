"""Sources: the publications of the statements, and the statements without an entry.

Numbers of a source whose list counts from 1 have no gaps: each belongs to a statement, or is in `left_out` or
`skipped`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

# Kinds of statements that claim nothing a computation could refute.
Unrefutable = Literal[
    "analogy", "convention", "definition", "illustration", "input of an example", "output without numbers"
]
# Kinds of statements that our lists omit.
OUTSIDE = (
    "history and impact",
    "hardware and production code",
    "other mechanisms (several heads, masks and sparse attention)",
    "advice",
)

_ID = re.compile(r"(?P<source>[a-z][a-z0-9]*)-(?P<number>\d+)(?P<part>[a-z]?)")


@dataclass(frozen=True)
class Source:
    """A publication.

    kind: the kind of publication.
    title: its title, or its place in a larger work.
    author: empty where the publication names none.
    address: its address without a scheme.
    left_out: the numbers of statements that no computation could refute, each with the kind of statement.
    skipped: numbers that the list of its statements does not use.
    counts: true if the list counts its statements from 1, false if it uses the numbers of the source.
    """

    kind: str
    title: str
    author: str
    address: str
    left_out: Mapping[int, Unrefutable] = field(default_factory=dict, compare=False)
    skipped: tuple[int, ...] = ()
    counts: bool = True

    @property
    def label(self) -> str:
        """The kind and the title, which name the source in counts and in lists of mistakes."""
        return f"{self.kind} {self.title}"

    @property
    def citation(self) -> str:
        """The kind, the title, the author if the publication names one, and the address."""
        return ", ".join(filter(None, (self.label, self.author, self.address)))


# By the first part of a statement's id.
SOURCES = {
    "qa": Source(
        "Q&A",
        '"Why divide by sqrt(d_k)?"',
        "",
        "www.songjunxi.com/language/transformer-5-scaling-and-value-output",
        left_out={28: "definition", 29: "analogy"},
        skipped=(1,),
    ),
    "notebook": Source(
        "notebook",
        '"Understanding the Division by sqrt(d) in the Attention Mechanism"',
        "",
        "pantelis.github.io/aiml-common/lectures/nlp/transformers/attention_scaling_explained.html",
        left_out={
            1: "input of an example",
            2: "input of an example",
            3: "output without numbers",
            4: "output without numbers",
            5: "input of an example",
            21: "output without numbers",
        },
    ),
    "textbook": Source(
        "textbook chapter",
        '"Scaled Dot-Product Attention"',
        "",
        "interactiveprimer.com/concepts/computer-science/deep-learning/transformers/scaled-dot-product-attention.html",
        skipped=(3, 26, 27),
    ),
    "lesson": Source(
        "lesson",
        '"Softmax & Attention Output"',
        "",
        "cs-visualizations.com/algorithms/ai-ml/transformers/softmax-output",
        left_out={
            6: "convention",
            7: "input of an example",
            9: "output without numbers",
            27: "illustration",
            32: "convention",
            34: "definition",
            35: "illustration",
            36: "definition",
            39: "illustration",
            40: "illustration",
        },
        skipped=(3,),
    ),
    "article": Source(
        "article",
        '"Scaled Dot-Product Attention: The Core Transformer Mechanism" (2025)',
        "Michael Brenndoerfer",
        "mbrenndoerfer.com/writing/scaled-dot-product-attention-transformer-mechanism",
        left_out={3: "definition", 133: "definition"},
        skipped=(6, 59, 64, 65, 78, 84, 85, 134, 136, 141, 142, 149, 150),
    ),
    "cv8": Source(
        "repository",
        "attention-scaling-experiment, table1",
        "CodeVinci8",
        "github.com/CodeVinci8/attention-scaling-experiment",
        counts=False,  # widths
    ),
    "usc": Source(
        "repository",
        "unit-scaling, notebook on almost-scaled attention",
        "Graphcore Research",
        "github.com/graphcore-research/unit-scaling",
    ),
    "hello": Source(
        "thread",
        "hello-agents#840",
        "datawhalechina",
        "github.com/datawhalechina/hello-agents/issues/840",
        counts=False,  # an issue
    ),
    "infw": Source(
        "preprint",
        '"Infinite-Width Limit of a Single Attention Layer: Analysis via Tensor Programs" (2025)',
        "Mana Sakai, Ryo Karakida, Masaaki Imaizumi",
        "arxiv.org/abs/2506.00846",
    ),
    "ssmax": Source(
        "preprint",
        '"Scalable-Softmax Is Superior for Attention" (2025), figure 1',
        "Ken M. Nakanishi",
        "arxiv.org/abs/2501.19399",
    ),
    "ngpt": Source(
        "preprint",
        '"nGPT: Normalized Transformer with Representation Learning on the Hypersphere" (2024), section 2.3',
        "Ilya Loshchilov, Cheng-Ping Hsieh, Simeng Sun, Boris Ginsburg",
        "arxiv.org/abs/2410.01131",
    ),
    "mup": Source("repository", "mup, README", "Microsoft", "github.com/microsoft/mup"),
    "se": Source(
        "question",
        '"Why does this multiplication of Q and K have a variance of d_k, in scaled dot product attention?"',
        "",
        "ai.stackexchange.com/questions/21237",
    ),
}


class StatementId(NamedTuple):
    """The id of a published statement, such as article-01a.

    >>> StatementId.parse("article-01a")
    StatementId(source='article', number=1, part='a')
    """

    source: str  # its key in SOURCES
    number: int
    part: str  # the letter of a part with its own verdict; empty for a whole statement

    @classmethod
    def parse(cls, text: str) -> "StatementId":
        """From text; `ValueError` unless it is an id of a known source."""
        match = _ID.fullmatch(text)
        if match is None or match["source"] not in SOURCES:
            raise ValueError(f"expected an id such as qa-13 or qa-13a of {', '.join(SOURCES)}, got {text!r}")
        return cls(match["source"], int(match["number"]), match["part"])

    @property
    def order(self) -> tuple[int, int, str]:
        """Its position in the table: by the order of SOURCES, then by number and part."""
        return list(SOURCES).index(self.source), self.number, self.part


def parse_ids(ids: str) -> list[StatementId]:
    """The ids of an entry, from the column `id`: words separated by blanks.

    Raises:
        ValueError: a word that is no id of a known source.
    """
    return [StatementId.parse(name) for name in ids.split()]


def sources_of(ids: str) -> list[Source]:
    """The sources of an entry, each once, in the order of its ids."""
    return list(dict.fromkeys(SOURCES[one.source] for one in parse_ids(ids)))
