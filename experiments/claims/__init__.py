"""Published statements about scaled dot-product attention, judged by theory, worked examples and measured tables.

`claims.csv` has the statements, each with the expression that answers it; `cases.csv` has the tests of statements
without numbers. `quantities` and `training` define the names in these expressions, and `judge` derives the verdicts.
"""
