"""Gauges of what threads do: those that are active by event, blocked, and deadlocked."""

from __future__ import annotations

from collections.abc import Iterable

from pfs._export.metrics.metric import Metric, seconds
from pfs._process.history.watch import Activity

__all__ = ["metrics_of"]


def metrics_of(processes: Iterable[Activity]) -> list[Metric]:
    """Returns the gauges of several processes; none without a process."""
    found: Activity | None = None
    for one in processes:
        found = found or Activity()
        found.merge(one)
    if found is None:
        return []
    active = Metric("pfs_active_threads", "gauge", "Threads that are not idle, on average since the last scrape.")
    for (wait_class, event), threads in sorted(found.active.items()):
        active.add((("class", wait_class), ("event", event)), f"{threads:.6g}")
    made = [active]
    for name, doc, value in (
        ("pfs_blocked_threads", "Threads that wait for a lock.", str(found.blocked)),
        ("pfs_deadlocked_threads", "Threads behind a circle of locks.", str(found.deadlocked)),
    ):
        made.append(Metric(name, "gauge", doc))
        made[-1].add((), value)
    made.append(Metric("pfs_longest_wait_seconds", "gauge", "The longest wait for a lock, or in a statement.", "seconds"))
    made[-1].add((), seconds(found.longest))
    return made
