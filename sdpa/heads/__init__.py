"""Queries and keys, scores or attention weights in a user's files, as programs save them."""

from sdpa.heads.arrays import HeadArrays, Kind, notes
from sdpa.heads.formats import FilesError
from sdpa.heads.layout import Layout
from sdpa.heads.reading import read_heads

__all__ = ["FilesError", "HeadArrays", "Kind", "Layout", "notes", "read_heads"]
