"""The record of published statements: importing it declares them, in the order of the table."""

from importlib import import_module

from experiments.claims.entry import CLAIMS

__all__ = ["CLAIMS"]

for _name in (
    "qa",
    "notebook",
    "textbook",
    "lesson",
    "article_softmax",
    "article_output",
    "article_by_hand",
    "article_comparison",
    "others",
):
    import_module(f"{__name__}.{_name}")
