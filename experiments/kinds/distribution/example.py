"""Examples of `distribution` for tests; `tests/examples.py` says what the keys mean."""

EXAMPLE = """
sweeps:
  distribution: {d_k: [1, 16], trials: 3000}
large: {d_k: 1}
figures:
  distribution: {sweep: {d_k: [1, 4, 16]}, rows: 3}
claims:
  dot_products/distribution: [[falls, score_kurtosis, d_k, d_k > 0]]
"""
