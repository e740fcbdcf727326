"""Pretrained language models, forward and backward on `sdpa.network`."""
