"""Published statements about scaled dot-product attention, each answered by a computation.

The modules of `published` declare the statements. `declare` has the decorator, `sources` where they were published,
`judge` the one rule that makes a verdict of what is claimed and what is computed, and `compute` the table of them all.
"""
