"""Published statements about scaled dot-product attention, each answered by a computation.

The modules of `published` declare the statements. `declare` contains the decorator, `sources` the publications, `judge`
the one rule that derives a verdict from the claimed and the computed values, and `compute` the table of all statements.
"""
