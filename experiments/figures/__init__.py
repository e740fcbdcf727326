"""Tables to drawings: figures of `experiments.kinds.figures`, drawn as lines, as maps, or by a
function of their own.

Points are measured with 95% intervals, and pale lines are exact.
"""
