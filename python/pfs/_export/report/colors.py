"""The colors of what threads do."""

from __future__ import annotations

from pfs._process.recorded import JOIN

__all__ = ["color_of"]

# A color of page.css by the beginning of a state of thread_time, or of an instrument.
_COLORS = {
    "computing": 0, "runnable": 1, "wait/synch/mutex": 2, "wait/synch/rwlock": 2, "wait/synch/prlock": 2, "wait/synch/sxlock": 2,
    "wait/synch/cond/python/gil": 3, "wait/synch/cond": 4, "wait/io/file": 5, "wait/io/socket": 6, "idle": 8, "elsewhere": 9,
    "unknown": 9, "not seen": 9, "wait/": 7, JOIN: 7,
}  # fmt: skip


def color_of(name: str) -> int:
    """Returns the number of a color of page.css: the longest beginning wins."""
    return _COLORS[max((start for start in _COLORS if name.startswith(start)), key=len, default="wait/")]
