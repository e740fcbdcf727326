"""Queries and keys, scores or attention weights in a user's files, as programs save them."""

from sdpa.tools.heads.reading import Layer, Options, read_heads

__all__ = ["Layer", "Options", "read_heads"]
