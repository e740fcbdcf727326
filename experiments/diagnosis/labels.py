"""The heads of a table of a diagnosis: the columns that number them, and their names in words."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

FIRST_SIZE = "d_k"  # the column after those that number heads
UNSCALED = "unscaled"  # the name of the rule that divides by 1
SHIPPED_LAYERS = "Layer 0: before training. Layer 1: after it. Heads: independent runs."


def indices(table: pd.DataFrame) -> list[str]:
    """The columns that number the heads of a table, such as layer and head; none in the table of a single head.

    >>> indices(pd.DataFrame({"layer": [0], "head": [3], "d_k": [64]}))
    ['layer', 'head']
    """
    return [str(name) for name in table.columns[: table.columns.get_loc(FIRST_SIZE)]]


def labels(table: pd.DataFrame) -> list[str]:
    """The heads of a table in words, in its order.

    >>> labels(pd.DataFrame({"layer": [0, 1], "head": [3, 0], "d_k": [64, 64]}))
    ['layer 0, head 3', 'layer 1, head 0']
    """
    named = table[indices(table)]
    return [in_words(dict(zip(named, row, strict=True))) for row in named.to_numpy().tolist()]


def in_words(numbers: Mapping[str, Any]) -> str:
    """The numbers of a head in words.

    >>> in_words({"layer": 1, "head": 0}), in_words({})
    ('layer 1, head 0', 'the head')
    """
    return ", ".join(f"{name} {number}" for name, number in numbers.items()) or "the head"


def of_heads(count: int, every: int) -> str:
    """The subject of a sentence about some of the heads.

    >>> of_heads(0, 12), of_heads(3, 12), of_heads(12, 12), of_heads(1, 1), of_heads(2, 2)
    ('no head', '3 of 12 heads', 'all 12 heads', 'the head', 'both heads')
    """
    if count == 0:
        return "no head"
    if count < every:
        return f"{count} of {every} heads"
    return {1: "the head", 2: "both heads"}.get(every, f"all {every} heads")


def upper(text: str) -> str:
    """A text with a capital letter at its start."""
    return f"{text[:1].upper()}{text[1:]}"
