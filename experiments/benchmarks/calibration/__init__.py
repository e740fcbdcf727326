"""Calibration of the check: how often honest runs meet the alarm, faults miss it, and intervals hold the truth."""
