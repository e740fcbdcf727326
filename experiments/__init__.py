"""Config-driven sweeps of scaled dot-product attention: measured in tables, analysed, drawn.

`kinds` has the experiments and `config` reads which of them to run; docs/architecture.md shows all folders.
"""

from experiments.measuring.processor import fix_arithmetic

fix_arithmetic()  # before any module here imports NumPy
