"""Bounds the memory of a process that answers statements."""

from __future__ import annotations

import resource

__all__ = ["MOST", "bound"]

MOST = 4 << 30  # bytes: 2 GB of DuckDB's, and the tables that a statement reads


def bound() -> tuple[int, int]:
    """Lets the kernel refuse what is too much: DuckDB does not count the lists and texts that functions make.

    Returns:
        The limits of RLIMIT_DATA before.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST if soft == resource.RLIM_INFINITY else min(MOST, soft), hard))
    return soft, hard
