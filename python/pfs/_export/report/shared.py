"""Colors, and texts of bounded length."""

from __future__ import annotations

from pfs._process.recorded import JOIN

__all__ = ["LISTS", "color_of", "cut"]

# The lists of samples, in the order of the numbers of a key that follow its class.
LISTS = ("By event", "By statement", "By line", "By object", "By thread", "By what the holder of the lock does")
_LONGEST = 300  # characters of a name: some programs have a statement of a megabyte
# A color of page.css by the beginning of a state of thread_time, or of an instrument.
_COLORS = {
    "computing": 0, "runnable": 1, "wait/synch/mutex": 2, "wait/synch/rwlock": 2, "wait/synch/prlock": 2, "wait/synch/sxlock": 2,
    "wait/synch/cond/python/gil": 3, "wait/synch/cond": 4, "wait/io/file": 5, "wait/io/socket": 6, "idle": 8, "elsewhere": 9,
    "unknown": 9, "not seen": 9, "starting": 9, "ending": 9, "wait/": 7, JOIN: 7,
}  # fmt: skip


def color_of(name: str) -> int:
    """Returns the number of a color of page.css: the longest beginning wins."""
    return _COLORS[max((start for start in _COLORS if name.startswith(start)), key=len, default="wait/")]


def cut(text: str, most: int = _LONGEST) -> str:
    """Returns the beginning of a long text."""
    return text if len(text) <= most else text[: most - 1] + "…"
