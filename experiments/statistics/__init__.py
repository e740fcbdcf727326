"""Estimates from independent draws: moments, quantiles, and their 95% intervals; knows no experiment and no table."""
