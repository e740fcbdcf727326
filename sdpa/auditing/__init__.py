"""The audit of an attention function from its outputs alone: facts, and the mistake if it has one.

`model` is an attention whose scores are a sum of declared features, `facts` are fitted to weights,
`mistakes` is the list of what no fact names, `probes` calls the function, and `report` finds what
gives all outputs, and tells it.
"""

from sdpa.auditing.report import Audit, audit

__all__ = ["Audit", "audit"]
