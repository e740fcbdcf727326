"""Hypothesis draws the same examples at every run, and is not timed: machines are shared. BLAS has
one thread.

With a thread per core in each of several test processes, the threads wait for each other most of
the time.
"""

import numpy as np  # noqa: F401  # the limit holds for what is loaded
import scipy.linalg  # noqa: F401
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")
threadpool_limits(limits=1, user_api="blas")
