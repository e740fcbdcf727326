"""Examples of `language` for tests; `tests/examples.py` says what the keys mean."""

EXAMPLE = """
sweeps:
  language:
    d_k: [4, 64]
    n_keys: 5
    learning_rate: [0.01, 0.1]
    scaling: [unscaled, d_k^1/2]
    initial: unit
    layers: 1
    width: 8
    warmup: 5
    steps: 25
    trials: 2
other:
  learning_rate: 0.02
  initial: small
  initial_divisor: d_k^1/4
  rate_divisor: d_k^1/4
  gradient_divisor: d_k^1/4
  layers: 2
  n_heads: 2
  width: 12
  optimizer: momentum
  warmup: 4
  clip: 0.1
  steps: 26
  n_sequences: 4
  gain: learned
  softcap: 2
  normalizer: sigmoid
  decay: linear
  text: scipy
  readings: careful
refused:
  "expected fewer steps than the 25 in all, got 30":
    {d_k: 4, n_keys: 5, learning_rate: 0.01, scaling: unscaled, steps: 25, decay: linear, trials: 2}
large:
  d_k: 16
  n_keys: 256
  learning_rate: 0.01
  n_heads: 4
  layers: 2
  steps: 25
  scaling: [unscaled, d_k^1/2]
edits:
  learning_rate: [0.01]
  layers: [1]
  width: [2]
  steps: [25]
  trials: [2]
  further: [{}, {initial: [unit, small]}, {clip: [0, 2], learning_rate: [0.01, 1000000]}]
figures:
  losses:
    sweep:
      d_k: 16
      n_keys: 8
      learning_rate: [0.002, 0.004, 0.032]
      initial: [unit, small]
      layers: [1, 2]
      clip: [0, 1, 2]
      scaling: [unscaled, d_k^1/2]
    rows: 54
    left_out: 18 further rows
claims:
  language/losses:
  - - above
    - final_loss
    - learning_rate
    - scaling == 'unscaled' and initial == 'unit'
    - scaling == 'd_k^1/2' and initial == 'unit'
"""
