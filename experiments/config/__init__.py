"""From the text of a config to validated sweeps, with the line and column of every mistake."""
