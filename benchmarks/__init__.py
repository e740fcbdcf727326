"""Scripts for maintainers: speed and memory on this machine."""

import experiments  # noqa: F401  # fixes the instructions of NumPy before any module here imports it
