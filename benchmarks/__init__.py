"""Scripts for maintainers: speed, cost, the monitor, and false alarms of the check on this machine."""

import experiments  # noqa: F401  # fixes the instructions of NumPy before any module here imports it
