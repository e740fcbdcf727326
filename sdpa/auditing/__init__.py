"""The audit of an attention function from its outputs."""

from sdpa.auditing.audit import audit

__all__ = ["audit"]
