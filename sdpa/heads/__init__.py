"""Queries and keys, scores or attention weights in a user's files, as programs save them."""

from sdpa.heads.formats import FilesError, naming
from sdpa.heads.reading import Kind, Layer, Options, read_heads

__all__ = ["FilesError", "Kind", "Layer", "Options", "naming", "read_heads"]
