"""Config-driven sweeps of scaled dot-product attention: measured in tables, analysed, drawn.

Each module here is an experiment; `harness` runs them, `analysis` turns tables into tables, `figures` draws tables.
"""

from experiments.measuring.processor import fix_arithmetic

fix_arithmetic()  # before any module here imports NumPy
