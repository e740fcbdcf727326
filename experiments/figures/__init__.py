"""Tables to drawings: figures of `experiments.kinds.figures`, drawn as lines, as maps, or by a
function of their own.

Points are measured with 95% intervals, and lines are exact where theory knows them.
"""
