"""Tools that read what others made: `auditing` calls an attention function, `heads` reads arrays in
files, `diagnosis` judges q and k or compares two runs, `record` and `monitor` see the attention of a
model, and `command` is `sdpa` in a terminal.

They use attention and its theory. Neither needs them, and no experiment does.
"""
