"""The audit of an attention function from its outputs alone: facts, and the mistake if it has one.

`computation` is an attention by its facts, `function` gets outputs and facts of a function,
`mistakes` lists what no fact names, and `report` compares and tells.
"""

from sdpa.auditing.report import EMPTY, Audit, audit

__all__ = ["EMPTY", "Audit", "audit"]
