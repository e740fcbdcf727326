"""Examples of the experiment `saturation` for tests; `tests/examples.py` explains the keys."""

EXAMPLE = """
sweeps:
  scaling: {d_k: [4, 64], n_keys: 8, n_queries: 5, scaling: [unscaled, d_k^1/3, d_k^1/2], trials: 60}
  single: {d_k: 16, n_keys: 8, scaling: 4, trials: 20}
  laws: {d_k: 4, n_keys: 8, inputs: [gaussian, uniform], scaling: [unscaled, d_k^1/2], trials: 20}
  map: {d_k: [2, 8, 24, 64], n_keys: [8, 20], scaling: [unscaled, d_k^1/2], trials: 25, figures: [map, phase]}
large: {d_k: 4, n_keys: 16384, n_queries: 64, mask: causal, scaling: [unscaled, d_k^1/2, d_k^1/3, d_k]}
edits:
  further:
  - mask: [none, causal]
  - query_std: [0.1, 30]
  - correlation: [0, 0.5]
  - variants: [{inputs: lognormal}, {normalize: l2, key_mean: 9, d_k: 1}]
figures:
  metrics:
    sweep:
      d_k: [4, 16, 64, 256]
      n_keys: [8, 32]
      n_queries: 4
      mask: [none, causal]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 80
  variance:
    sweep: {d_k: [4, 16, 64, 256], n_keys: 8, n_queries: 4, scaling: [d_k^1/2, unscaled, 8]}
    rows: 12
  saturation:
    sweep: {d_k: [4, 16, 64, 256], n_keys: 8, n_queries: 4, query_std: [1, 4], scaling: [unscaled, d_k^1/2]}
    rows: 16
  gradients:
    sweep:
      d_k: [4, 16, 64, 256]
      n_keys: 8
      n_queries: 4
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 20
  length:
    sweep: {d_k: 16, n_keys: [8, 32, 128], n_queries: 4, scaling: [unscaled, d_k^1/2]}
    rows: 6
  causal:
    sweep:
      d_k: 16
      n_keys: [8, 32, 128]
      n_queries: 4
      mask: [none, causal]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 30
  powers:
    sweep:
      d_k: [4, 16, 64, 256]
      n_keys: 8
      n_queries: 4
      scaling: [unscaled, 8, d_k^1/2, d_k, d_k^1/2/ln(n_keys)]
    rows: 12
    left_out: 8 and d_k^1/2/ln(n_keys)
  rules:
    sweep:
      d_k: 16
      n_keys: [8, 32, 128]
      n_queries: 4
      correlation: [0, -0.25, 0.5]
      scaling: [unscaled, d_k^1/2]
    rows: 12
    left_out: correlation = -0.25
  assumptions:
    sweep:
      d_k: 16
      n_keys: [8, 32, 128]
      n_queries: 4
      variants: [{}, {key_mean: 0.5}, {inputs: uniform}]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 45
  correlation:
    sweep:
      d_k: [4, 16, 64, 256]
      n_keys: 8
      n_queries: 4
      correlation: [0, 0.5, 1]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 48
    left_out: d_k^2/3
  map:
    sweep:
      d_k: [4, 16, 64, 256]
      n_keys: [8, 32, 128]
      n_queries: 4
      query_std: [1, 4]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 24
    left_out: query_std = 4; d_k^1/4, d_k^1/3 and d_k^2/3
  phase:
    sweep:
      d_k: [4, 16, 64, 256]
      n_keys: [8, 32, 128]
      n_queries: 4
      query_std: [1, 4, 8]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 144
    left_out: 36 further rows
claims:
  dimension/metrics: [[only, max_weight, d_k], [only, score_variance, d_k]]
  dimension/variance: [[only, score_variance, d_k], [rises, score_variance, d_k, scaling == 'unscaled']]
  dimension/saturation: [[only, max_weight, d_k], [rises, max_weight, d_k, scaling == 'unscaled']]
  dimension/gradients: [[peaks, query_gradient_norm_median, d_k, scaling == 'unscaled']]
  powers/powers: [[only, max_weight, d_k]]
  length/length:
  - [falls, max_weight, n_keys, scaling == 'unscaled']
  - [falls, max_weight, n_keys, scaling == 'd_k^1/2']
  crossing/map:
  - [spans, ratio, d_k, norm == 'query_gradient' and statistic == 'median']
  - [rises, crossing, n_keys, norm == 'query_gradient' and statistic == 'median' and level == 1]
  phase/phase:
  - - above
    - share
    - n_keys
    - scaling == 'd_k^1/2' and d_k == d_k.max()
    - scaling == 'unscaled' and d_k == d_k.max()
  assumptions/assumptions: [[spans, of_first, d_k, scaling == 'd_k^1/2']]
  rules/rules:
  - [falls, max_weight, n_keys, scaling == 'd_k^1/2' and correlation == 0]
  - - above
    - max_weight
    - n_keys
    - scaling == 'd_k^1/2/0.43/ln(n_keys)' and correlation == 0
    - scaling == 'd_k^1/2' and correlation == 0
  correlation/correlation:
  - [rises, own_weight, d_k, scaling == 'd_k^1/2' and correlation == 0.5]
  - [level, own_weight, d_k, scaling == 'd_k^1' and correlation == 0.5]
  causal/causal:
  - [less, max_weight, n_keys, scaling == 'd_k^1/2' and mask == 'causal', scaling == 'd_k^1/2' and mask == 'none']
  - [rises, visible, n_keys, scaling == 'd_k^1/2' and mask == 'none']
"""
