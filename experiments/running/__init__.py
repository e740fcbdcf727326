"""Measuring the chunks of sweeps: the store of their records, and workers on this machine or a
cluster.
"""
