"""Tables to drawings: every module here that binds FIGURE is a figure; the other modules hold code that they share.

A figure has two functions of the same tables: `plot` gives a drawing, and `caption` one sentence with its numbers.
Where a drawing has error bars, points are measured with 95% intervals, and pale bands are exact.
"""
