"""Time and memory of attention and of the suite on this machine, and the calibration of the check."""
