"""The kinds of events that pictures tell apart, and their colors."""

from __future__ import annotations

__all__ = ["kind_of"]

_KINDS = (
    ("wait/synch/mutex", "mutexes", "#d62728"),
    ("wait/synch/cond", "conditions, queues", "#ff7f0e"),
    ("wait/synch", "other locks", "#e377c2"),
    ("wait/io/file", "files", "#1f77b4"),
    ("wait/io/socket", "sockets", "#9467bd"),
    ("wait/", "other waits", "#8c564b"),
    ("stage/", "stages", "#bcbd22"),
    ("statement/", "statements", "#2ca02c"),
    ("", "others", "#7f7f7f"),
)


def kind_of(name: str) -> tuple[str, str]:
    """Returns the title and the color of the kind of an event, by its EVENT_NAME."""
    return next((title, color) for prefix, title, color in _KINDS if name.startswith(prefix))
