"""A pretrained model as `make model` sees it: what it is, and the cases in which its heads are
diagnosed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.errors import UsageError
from sdpa.scaling import SCALED

Floats = npt.NDArray[np.floating]
Tokens = npt.NDArray[np.int64]
Weights = Literal["trained", "initial"]
Mask = Literal["none", "causal"]


@dataclass(frozen=True)
class Case:
    """One way to record queries and keys of a model and to read them."""

    n_keys: int
    weights: Weights = "trained"
    text: str = "prose"
    keys: Literal["recorded", "centred", "content"] = "recorded"
    scaling: str = SCALED


CASE = tuple(each.name for each in fields(Case))  # names of columns


class Network(Protocol):
    """The content of a model's package."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the file of the weights."""

    def tokens(self, text: str, length: int) -> Tokens:
        """Sequences of a text, (sequences, length)."""

    def queries_and_keys(self, tokens: Tokens, weights: Weights) -> tuple[Floats, Floats]:
        """Queries and keys, (sequences, layers, heads, length, d_k); heads of k may be fewer."""


def folder(package: str, *readers: str) -> Path:
    """The folder of an installed package, whose files others read.

    Raises:
        UsageError: one of them is not installed.
    """
    names = package, *readers
    found, *others = map(find_spec, names)
    if found is None or not found.origin or None in others:
        raise UsageError(
            f"expected the packages {', '.join(names)}; make model installs them, over the network"
        )
    return Path(found.origin).parent


@dataclass(frozen=True)
class Model:
    """A pretrained model, and the files that `make model` makes of it.

    Attributes:
        name: of its folder.
        package: the name of its module.
        load: reads the package.
        made: files that are made together, and a function of the network that returns their
            content, tables or bytes.
        figures: names of its drawings in `experiments.models.figures`.
    """

    name: str
    title: str
    package: str
    licence: str
    load: Callable[[], Network]
    made: Mapping[tuple[str, ...], Callable[[Any], Sequence[pd.DataFrame | bytes]]]
    figures: tuple[str, ...]
