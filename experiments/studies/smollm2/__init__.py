"""A pretrained language model, SmolLM2, forward and backward on `sdpa.network`."""
