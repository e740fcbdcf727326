"""The record: what articles say about scaled dot-product attention, each statement answered by a computation.

`claims.csv` holds the statements, in our words, and the name of the quantity that answers each; the modules beside it
hold the quantities, small functions that compute; `verdicts.py` holds the one rule that makes a verdict of both.
"""
