"""The command `sdpa`: the library for files, in NumPy and SciPy alone."""
