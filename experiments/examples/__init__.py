"""Worked examples of scaled dot-product attention, step by step.

`declared` has the examples, `steps` what they share and a user's own matrices, and `picture` draws.
"""


class ExampleError(ValueError):
    """A missing example, or matrices that are not valid inputs of attention; the message names the expectation."""
