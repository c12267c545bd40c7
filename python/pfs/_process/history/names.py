"""Names that samples have."""

from __future__ import annotations

__all__ = ["DECLARED", "NOT_ACTIVE", "SAMPLES", "TOTALS"]

DECLARED = "active_sessions"  # the table whose columns samples have
SAMPLES, TOTALS = "active_session_history", "active_session_totals"
NOT_ACTIVE = ("IDLE", "SLEEPING")  # states of a thread that is active only if a statement or a stage runs in it
