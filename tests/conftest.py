"""Hypothesis draws the same examples at every run, and is not timed: machines are shared."""

from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")
