"""Draws what each thread did: a lane per thread, time from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pfs._plot.axes import cut, empty, legend, new_axes, time_unit
from pfs._plot.events import IDLE, Event, events_of, thread_names, thread_title
from pfs._plot.kinds import kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pfs._plot.events import What

__all__ = ["draw", "visible"]

_MOST_EVENTS = 20_000
_MOST_THREADS = 40
# Events inside others are thinner: what is around them stays visible.
_HEIGHTS = (("transaction", 0.86), ("statement/", 0.72), ("stage/", 0.56), ("", 0.4))


def visible(events: Sequence[Event]) -> tuple[list[Event], int]:
    """Returns the longest events of the threads with the most time in events, and the number of threads that are left out."""
    busy: dict[int, int] = {}
    for event in events:
        if event.name != IDLE:
            busy[event.thread] = busy.get(event.thread, 0) + event.wait
    chosen = set(sorted(busy, key=lambda thread: (-busy[thread], thread))[:_MOST_THREADS])
    shown = sorted((event for event in events if event.thread in chosen and event.name != IDLE), key=lambda event: -event.wait)
    return shown[:_MOST_EVENTS], len(busy) - len(chosen)


def draw(what: What, ax: Axes | None) -> Axes:
    events, left_out = visible(events_of(what))
    threads = sorted({event.thread for event in events})
    ax = new_axes(ax, 1.3 + 0.34 * max(1, len(threads)))
    if not events:
        return empty(ax, "no timed events")
    names = thread_names(what)
    first, last = min(event.start for event in events), max(event.end for event in events)
    size, unit = time_unit(last - first)
    bars: dict[tuple[int, float, str], list[tuple[float, float]]] = {}
    for event in events:
        height = next(height for prefix, height in _HEIGHTS if event.name.startswith(prefix))
        place = (threads.index(event.thread), height, kind_of(event.name)[1])
        bars.setdefault(place, []).append(((event.start - first) / size, event.wait / size))
    for (lane, height, color), spans in sorted(bars.items(), key=lambda item: -item[0][1]):
        is_around = height > _HEIGHTS[-1][1]
        # A line keeps events visible that are narrower than a pixel.
        ax.broken_barh(
            spans, (lane - height / 2, height), facecolors=color, edgecolors=color, linewidth=0.4, alpha=0.3 if is_around else 0.9
        )
    ax.set_yticks(range(len(threads)), [cut(thread_title(names.get(thread, "thread"), thread), 34) for thread in threads])
    ax.set_ylim(len(threads) - 0.4, -0.6)
    ax.set_xlim(0, (last - first) / size or 1)
    ax.set_xlabel(unit + (f" ({left_out} more threads were less busy)" if left_out else ""))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#eeeeee")
    ax.set_axisbelow(True)
    legend(ax, (event.name for event in events))
    return ax
