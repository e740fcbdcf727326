"""Published statements about scaled dot-product attention, judged by theory, worked examples and measured tables.

`claims.csv` has the statements, each with the expression that answers it. `quantities` and `laws` define the names in
these expressions, `judge` derives the verdicts, and `table` makes the table of results.
"""
