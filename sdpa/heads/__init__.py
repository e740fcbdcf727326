"""Queries and keys, scores or attention weights in a user's files, as programs save them."""

from sdpa.heads.formats import FilesError
from sdpa.heads.reading import Kind, Layer, Layout, read_heads

__all__ = ["FilesError", "Kind", "Layer", "Layout", "read_heads"]
