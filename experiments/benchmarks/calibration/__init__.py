"""Calibration of the check: its false alarms, the coverage of its intervals, and the planted faults that it misses.

`measured` runs a sweep under a root seed, `faults` contains the mistakes to plant, `runs` repeats sweeps over many
seeds, and `tables` compares the result with what the check promises.
"""
