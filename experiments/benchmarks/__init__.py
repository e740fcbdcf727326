"""Time and memory of attention and of the suite on this machine, and the calibration of the check.

Times are medians of interleaved rounds on one thread, in seconds; peaks are in bytes. Seconds differ from machine to
machine, so pages and figures show ratios within one run (`summary`).
"""
