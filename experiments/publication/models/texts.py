"""The texts that models read: files of the folder `texts`.

prose      older docs of this suite
code       Python source of this suite
shuffled   the tokens of the prose in random order
reference  the documentation of `numpy.random.Generator`, NumPy 2.4.6 (BSD licence)
licence    NumPy's licence file, most of it the GNU General Public License 3
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.running.files import checksum

SHUFFLED = "shuffled"
_FOLDER = Path(__file__).with_name("texts")


def checksums() -> dict[str, str]:
    """SHA-256 of all texts by file."""
    return {path.name: checksum(path) for path in sorted(_FOLDER.glob("*.txt"))}


def windows(
    name: str, encode: Callable[[str], Any], length: int, count: int
) -> npt.NDArray[np.int64]:
    """`count` stretches of the tokens of a text, spread evenly over it, (count, length).

    `encode` is that of a tokenizer.
    """
    file = "prose.txt" if name == SHUFFLED else f"{name}.txt"
    text = (_FOLDER / file).read_text(encoding="utf-8")
    ids = encode(text).ids
    starts = np.linspace(0, len(ids) - length, count)
    found = np.array([ids[start : start + length] for start in starts.astype(int)])
    if name != SHUFFLED:
        return found
    rng = np.random.default_rng([*SHUFFLED.encode(), length])
    return rng.permuted(found.ravel()).reshape(found.shape)
