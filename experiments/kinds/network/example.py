"""Examples of `network` for tests; `tests/examples.py` says what the keys mean."""

EXAMPLE = """
sweeps:
  network: {d_k: 4, n_keys: 4, layers: 2, scaling: unscaled, trials: 20}
other:
  n_heads: 3
  layers: 3
  scheme: gpt2
  output_scale: depth
  norm: post
  mlp: relu
  residual: 0.5
  position: rope
  token_cosine: 0.2
large: {d_k: 64, n_keys: 128, layers: 6, mlp: swiglu, scaling: [unscaled, d_k^1/2, d_k^1/3, d_k]}
edits:
  layers: [1]
  n_heads: [1]
  trials: [2]
  further:
  - layers: [1, 3]
  - {residual: [0, 1], norm: [pre, post]}
  - {mask: [none, causal], mlp: [none, swiglu]}
  - token_cosine: [0, 0.5]
figures:
  growth:
    sweep:
      d_k: 4
      n_keys: 8
      layers: [2, 9]
      variants: [{}, {residual: [0.5, 2]}, {norm: post}, {mlp: relu}]
      scaling: [unscaled, d_k^1/2]
    rows: 72
    left_out: layers = 2; mlp = relu
  propagation:
    sweep:
      d_k: 4
      n_keys: 8
      layers: [2, 9]
      residual: [0.5, 1, 2, 3, 4]
      scaling: [unscaled, d_k^1/2]
    rows: 92
    left_out: 18 further rows
claims:
  network/growth:
  - - above
    - stream_gradient_growth
    - layers
    - scaling == 'unscaled' and layers == 48
    - scaling == 'd_k^1/2' and layers == 48
  collapse/propagation:
  - - above
    - after
    - layer
    - scaling == 'unscaled' and cosine > 0.9 and residual == 0 and layers == layers.max()
    - scaling == 'd_k^1/2' and cosine > 0.9 and residual == 0 and layers == layers.max()
"""
