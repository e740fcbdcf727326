"""Estimates from independent draws: moments, quantiles, and their 95% intervals; independent of any experiment."""
