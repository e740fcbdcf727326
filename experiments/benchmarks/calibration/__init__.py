"""Runs of the check under many root seeds: false alarms, planted faults that it misses, and coverage of intervals."""
