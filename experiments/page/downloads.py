"""Tables as data in the page, which saves them as files without asking a server."""

import base64
import zlib
from collections.abc import Iterable
from pathlib import Path

_BESIDES = 80  # characters of the element around a table, besides its name


def downloads(results: Path, csvs: Iterable[str], room: int) -> dict[str, str]:
    """The tables for which a page has room, compressed (zlib) as base64, by file name.

    Tables of sweeps come first, then published statements, then derived tables; of each kind, the smallest ones first.

    Args:
        results: the folder of the tables.
        csvs: their paths in that folder.
        room: bytes for all tables with their elements.
    """
    packed = {csv: base64.b64encode(zlib.compress((results / csv).read_bytes(), 9)).decode() for csv in csvs}
    found = {}
    for csv in sorted(packed, key=lambda csv: (csv.count("/"), len(packed[csv]), csv)):
        needed = len(packed[csv]) + len(csv) + _BESIDES
        if needed <= room:
            found[csv] = packed[csv]
            room -= needed
    return found
