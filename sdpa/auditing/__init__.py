"""The audit of an attention function from its outputs: `audit`, and what it returns."""

from __future__ import annotations

from sdpa.auditing.audit import audit
from sdpa.auditing.report import Audit, Finding

__all__ = ["Audit", "Finding", "audit"]
