"""Findings: what to mend first, at which line, and what it takes."""
