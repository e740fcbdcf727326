"""Tables to tables: exact columns, fits, and the verdict on every value. Figures fit and derive
nothing.
"""
