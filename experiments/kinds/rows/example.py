"""Examples of the experiment `rows` for tests; `tests/examples.py` explains the keys."""

EXAMPLE = """
sweeps:
  rows: {d_k: [4, 64], n_keys: 8, n_queries: 3, scaling: [unscaled, d_k^1/2], trials: 2}
refused:
  "got a table of 320000 rows, expected at most 200000":
    {d_k: [4, 64], n_keys: 8, n_queries: 5000, scaling: [unscaled, d_k^1/2], trials: 2}
large: {d_k: 64, n_keys: 400, n_queries: 100, scaling: [unscaled, d_k^1/2]}
edits:
  trials: [1]
  further: [{}, {variants: [{query_std: [0.1, 30]}, {mask: causal}]}]
figures:
  rows:
    sweep: {d_k: [4, 64], n_keys: [3, 5], n_queries: 2, scaling: [unscaled, d_k^1/2]}
    rows: 24
    left_out: n_keys = 5
claims:
  single_rows/rows:
  - - above
    - top
    - key
    - scaling == 'unscaled' and d_k == d_k.max()
    - scaling == 'd_k^1/2' and d_k == d_k.max()
"""
