"""Examples of `mechanisms` for tests; `tests/examples.py` says what the keys mean."""

EXAMPLE = """
sweeps:
  mechanisms: {d_k: 4, n_keys: 4, n_queries: 4, mask: window-2, scaling: unscaled, trials: 20}
other: {softcap: 2, sink: 0, normalizer: sigmoid}
refused:
  "did you mean mask: window-2 in experiment":
    {experiment: saturation, d_k: 4, n_keys: 4, n_queries: 4, mask: window-2, scaling: unscaled, trials: 20}
  "figures: length in experiment: saturation":
    {d_k: 4, n_keys: 4, n_queries: 4, scaling: unscaled, trials: 20, figures: length}
large: {d_k: 8, n_keys: 2048, softcap: 5, scaling: [unscaled, d_k^1/2]}
edits:
  further:
  - softcap: [0, 5]
  - {sink: [none, 0], mask: [none, local-1]}
  - variants: [{softcap: 5}, {normalizer: sigmoid}]
figures:
  mechanisms:
    sweep:
      d_k: [4, 16, 64, 256]
      n_keys: 8
      n_queries: 4
      variants: [{}, {softcap: 50}, {sink: [0, 2]}]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 64
    left_out: d_k^2/3
claims:
  mechanisms/mechanisms:
  - - above
    - max_weight
    - d_k
    - scaling == 'unscaled' and d_k == d_k.max()
    - scaling == 'd_k^1/2' and d_k == d_k.max()
"""
