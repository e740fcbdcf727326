"""The audit of an attention function from its outputs alone: facts, and the mistake if it has one.

`computation` has inputs and their expected outputs, `findings` the facts that weights show and the
mistakes that no fact names, and `report` compares and tells.
"""

from sdpa.auditing.report import Audit, audit

__all__ = ["Audit", "audit"]
