"""Examples of the experiment `initialisation` for tests; `tests/examples.py` explains the keys."""

EXAMPLE = """
sweeps:
  initialisation:
    d_model: [16, 64]
    n_heads: 4
    n_keys: 8
    n_queries: 5
    scheme: [gpt2, xavier]
    scaling: [unscaled, d_k^1/2]
    trials: 60
other: {d_model: 24, n_heads: 2, scheme: kaiming}
refused:
  "got 64 and 8; the sweep leaves it at its default$":
    {d_model: 16, n_heads: 4, n_keys: 8, scheme: gpt2, scaling: unscaled, trials: 60}
  "did you mean d_model in experiment: initialisation":
    {experiment: saturation, d_model: 16, n_keys: 8, scaling: unscaled, trials: 60}
large: {d_model: 64, n_heads: 16, n_keys: 4096, scheme: t5, scaling: [unscaled, d_k^1/2]}
edits:
  d_model: [16, [8, 16], [8, 16, 32], [2, 4, 8, 16, 32]]
  n_heads: [2]
  scheme: [gpt2]
  further: [{}, {scheme: [gpt2, xavier, mup], n_heads: [1, 2]}, {mask: [causal, window-2]}]
figures:
  initialisation:
    sweep:
      d_model: [16, 64]
      n_heads: 4
      n_keys: 8
      n_queries: 4
      scheme: [gpt2, xavier, t5]
      scaling: [unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]
    rows: 24
    left_out: d_k^2/3
claims:
  initialisation/initialisation:
  - [rises, score_variance, d_model, scaling == 'd_k^1/2' and scheme == 'gpt2']
  - [level, score_variance, d_model, scaling == 'd_k^1/2' and scheme == 'xavier']
"""
