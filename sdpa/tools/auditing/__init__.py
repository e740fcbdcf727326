"""The audit of an attention function from its outputs alone: facts, and the mistake if it has one.

`model` is an attention whose scores are a sum of declared features, `probes` calls the function,
`facts` are fitted to the weights that it shows, `mistakes` is the list of what no fact names, and
`report` tells what gives all outputs.
"""

from sdpa.tools.auditing.report import Audit, audit

__all__ = ["Audit", "audit"]
