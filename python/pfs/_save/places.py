"""Tells a saved snapshot by its path, without a large module."""

from __future__ import annotations

import os

__all__ = ["SUMMARY", "is_snapshot"]

SUMMARY = "snapshot.json"


def is_snapshot(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path looks like a saved snapshot, and not like a segment or a folder of segments."""
    return os.fspath(path).endswith(".zip") or os.path.exists(os.path.join(path, SUMMARY))
