"""All that a measured number depends on: metrics, cells and their draws, the statistics of trials,
and seeds.
"""
