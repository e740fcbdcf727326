"""From the text of a config to validated sweeps, with the line and column of every mistake.

`yaml_text` reads the text, `models` has the types and limits of all keys, `rules` has what no
single key decides, `messages` words the faults, and `loader` joins them.
"""
