"""The audit of an attention function from its outputs alone: facts, and the mistake if it has one.

`model` is an attention whose steps can be replaced, `probes` calls the function, `facts` are fitted
to its weights, `mistakes` is the list, `explanation` finds what gives all outputs, and `report`
tells.
"""

from sdpa.auditing.report import Audit, audit

__all__ = ["Audit", "audit"]
