"""Laws of other rows than the textbook's: behind a soft cap, beside a sink or under the sigmoid
(`capped_rows`, `mapped_rows`), two rows over the same keys (`overlap`), and stacks of layers
(`gradient_growth`). Nothing in `sdpa.theory` imports them but its list of public names.
"""
