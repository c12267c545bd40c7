"""Draws what each thread did: a lane per thread, time from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pfs._export.plot.axes import cut, empty, legend, new_axes, time_unit
from pfs._export.plot.events import IDLE, Event, events_of, thread_names, thread_title
from pfs._export.plot.kinds import kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pfs._export.plot.events import What

__all__ = ["draw", "lanes_of"]

_MOST_EVENTS = 20_000
_MOST_LANES = 40
_SHOWN_GAP = 0.02  # of the picture: its statements may begin before its waits, whose history holds a shorter time
# Events inside others are thinner: what is around them stays visible.
_HEIGHTS = (("transaction", 0.86), ("statement/", 0.72), ("stage/", 0.56), ("", 0.4))


def lanes_of(events: Sequence[Event]) -> tuple[list[list[int]], int]:
    """Returns the threads of each lane, and the number of threads that are left out.

    A thread has a lane of its own, unless there are too many: then threads that follow one another share lanes, as those of a
    server that starts one for each request. If there are still too many, the lanes with the most time in events are chosen.
    """
    spans: dict[int, list[int]] = {}  # first start, last end, time in events
    for event in events:
        span = spans.setdefault(event.thread, [event.start, event.end, 0])
        spans[event.thread] = [min(span[0], event.start), max(span[1], event.end), span[2] + event.wait]
    if len(spans) <= _MOST_LANES:
        return [[thread] for thread in sorted(spans)], 0
    lanes: list[list[int]] = []
    for thread in sorted(spans, key=lambda thread: (spans[thread][0], thread)):
        free = next((lane for lane in lanes if spans[lane[-1]][1] <= spans[thread][0]), None)
        if free is None:
            lanes.append([thread])
        else:
            free.append(thread)
    busiest = sorted(lanes, key=lambda lane: -sum(spans[thread][2] for thread in lane))[:_MOST_LANES]
    chosen = [lane for lane in lanes if lane in busiest]
    return chosen, len(spans) - sum(map(len, chosen))


def draw(what: What, begin: int, end: int | None, ax: Axes | None) -> Axes:
    found = [_cut(event, begin, end) for event in events_of(what) if event.name != IDLE]
    found = [event for event in found if event.wait >= 0]
    lanes, left_out = lanes_of(found)
    lane_of = {thread: number for number, lane in enumerate(lanes) for thread in lane}
    events = sorted((event for event in found if event.thread in lane_of), key=lambda event: -event.wait)[:_MOST_EVENTS]
    ax = new_axes(ax, 1.3 + 0.34 * max(1, len(lanes)))
    if not events:
        return empty(ax, "no timed events")
    names = thread_names(what)
    first, last = min(event.start for event in events), max(event.end for event in events)
    size, unit = time_unit(last - first)
    bars: dict[tuple[int, float, str], list[tuple[float, float]]] = {}
    for event in events:
        height = next(height for prefix, height in _HEIGHTS if event.name.startswith(prefix))
        place = (lane_of[event.thread], height, kind_of(event.name)[1])
        bars.setdefault(place, []).append(((event.start - first) / size, event.wait / size))
    for (lane, height, color), spans in sorted(bars.items(), key=lambda item: -item[0][1]):
        is_around = height > _HEIGHTS[-1][1]
        # A line keeps events visible that are narrower than a pixel.
        ax.broken_barh(
            spans, (lane - height / 2, height), facecolors=color, edgecolors=color, linewidth=0.4, alpha=0.3 if is_around else 0.9
        )
    ax.set_yticks(range(len(lanes)), [_label(lane, names) for lane in lanes])
    ax.set_ylim(len(lanes) - 0.4, -0.6)
    ax.set_xlim(0, (last - first) / size or 1)
    ax.set_xlabel(unit + (f" ({left_out} more threads were less busy)" if left_out else ""))
    waits = [event.start for event in events if event.name.startswith("wait/")]
    if waits and (before := min(waits) - first) > _SHOWN_GAP * (last - first):
        ax.axvline(before / size, color="#888888", linestyle="--", linewidth=0.8)
        ax.text(before / size, -0.6, "no older waits in the history ", ha="right", va="bottom", color="#888888", fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#eeeeee")
    ax.set_axisbelow(True)
    legend(ax, (event.name for event in events))
    return ax


def _cut(event: Event, begin: int, end: int | None) -> Event:
    """Returns the part of an event between two times; its `wait` is negative if there is none."""
    first, last = max(event.start, begin), event.end if end is None else min(event.end, end)
    return event if (first, last) == (event.start, event.end) else replace(event, start=first, wait=last - first)


def _label(lane: list[int], names: dict[int, str]) -> str:
    if len(lane) > 1:
        return f"{len(lane)} threads, {lane[0]} …"
    return cut(thread_title(names.get(lane[0], "thread"), lane[0]), 34)
