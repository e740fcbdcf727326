"""A pretrained model as `make model` sees it: what it is, and the cases in which its heads are
diagnosed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.floating]
Tokens = npt.NDArray[np.int64]
Weights = Literal["trained", "initial"]


@dataclass(frozen=True)
class Case:
    """One way to record queries and keys of a model and to read them."""

    n_keys: int
    weights: Weights = "trained"
    text: str = "prose"
    keys: Literal["recorded", "centred", "content"] = "recorded"
    scaling: str = "d_k^1/2"


CASE = tuple(each.name for each in fields(Case))  # names of columns


class Network(Protocol):
    """The content of a model's package."""

    @property
    def sha256(self) -> str:
        """Of the file of the weights."""

    def tokens(self, text: str, length: int) -> Tokens:
        """Sequences of a text, (sequences, length)."""

    def queries_and_keys(self, tokens: Tokens, weights: Weights) -> tuple[Floats, Floats]:
        """Those of every head, (sequences, layers, heads, length, d_k); heads of k may be fewer."""


@dataclass(frozen=True)
class Model:
    """What a model is, and what `make model` asks of it."""

    name: str  # of its folder
    title: str
    package: str  # the name of its module
    licence: str
    mask: Literal["none", "causal"]
    cases: tuple[Case, ...]
    load: Callable[[], Network]
    # Further tables: their files, and a function of the network.
    further: Mapping[tuple[str, ...], Callable[[Any], Sequence[pd.DataFrame]]] = field(
        default_factory=dict
    )
