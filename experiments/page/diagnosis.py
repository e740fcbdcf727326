"""The meaning of the columns of a diagnosis, and printed examples of it.

`sdpa.tools.diagnosis.QUANTITIES` declares what most columns mean; here are sizes and options.
"""

import contextlib
import io
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np

from sdpa.masks import MEANINGS
from sdpa.tools.command.main import main
from sdpa.tools.diagnosis import QUANTITIES
from sdpa.tools.diagnosis.quantities import OUTSIDE_DOCUMENT

_SIZES = {
    "layer": "number of the layer, from the name of its arrays or along their axis of that name",
    "head": "number of the head, likewise; other names of axes have a column too",
    "d_k": "width of queries and keys",
    "n_queries": "queries of a sequence",
    "n_keys": "keys of a sequence",
    "mask": MEANINGS,
    "scaling": "scaling rule",
    "divisor": "divisor of the scores",
    "sequences": "independent sequences, between which standard errors come about",
    "rows": "rows that see two keys or more, over all sequences",
}
# Unit, meaning and formula by column.
DIAGNOSIS_COLUMNS = {
    **{name: ("", meaning, "") for name, meaning in _SIZES.items()},
    **{
        quantity.name: (quantity.unit, quantity.meaning, quantity.formula)
        for quantity in (*QUANTITIES, OUTSIDE_DOCUMENT)
    },
}


def printed_diagnosis() -> str:
    """The output of `sdpa diagnose`, without its legend, on normal q and k of four heads, of which
    head 0 has a sink, head 1 is not divided, and head 3 is divided twice.
    """
    return _block(_DIAGNOSE, *_diagnosed())


def printed_heads() -> str:
    """The table of `printed_diagnosis`, and the last piece of its advice, on the sink."""
    _, heads, advice = _diagnosed()
    return _block(_DIAGNOSE, heads, "...\n" + advice[advice.rindex("In ") :])


_DIAGNOSE = "sdpa diagnose q.npy k.npy --mask causal"


def _block(command: str, *paragraphs: str) -> str:
    return "```text\n$ " + f"{command}\n" + "\n\n".join(paragraphs) + "\n```"


@cache
def _diagnosed() -> tuple[str, str, str]:
    """How files are read, the table of heads, and the advice."""
    q, k = np.random.default_rng(0).standard_normal((2, 1, 4, 64, 64))  # a sequence
    q[:, 0] += 1
    k[:, 0, 0] += 1
    q[:, 1] *= 8
    q[:, 3] /= 8
    text = io.StringIO()
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        np.save("q.npy", q)
        np.save("k.npy", k)
        with contextlib.redirect_stdout(text):
            main(_DIAGNOSE.split()[1:])
    read_as, heads, _, advice, *_ = text.getvalue().split("\n\n")
    return read_as, heads, advice
