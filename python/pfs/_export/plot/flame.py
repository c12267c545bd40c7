"""Draws where time went as a flame graph: a box is as wide as its time, and what it stands on is around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pfs._export.plot.axes import GREY, empty, legend, new_axes
from pfs._export.plot.events import IDLE, Event, events_of, short
from pfs._export.plot.kinds import kind_of
from pfs._read.show import time_text
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pfs._export.plot.events import What

    By = Literal["nesting", "source"]

__all__ = ["Box", "by_nesting", "by_source", "draw"]

_NARROWEST = 0.0005  # of the picture's width; narrower boxes are not drawn
_CHARACTERS = 150  # that the width holds
_DEEPEST = 60  # events inside events; a circle of damaged rows ends there
_NO_SOURCE = "no source"


@dataclass(slots=True)
class Box:
    """A box of the graph: the time of its own and the boxes on it, by name."""

    event: str = ""  # an EVENT_NAME, for its color
    own: int = 0  # picoseconds
    boxes: dict[str, Box] = field(default_factory=dict)

    @property
    def time(self) -> int:
        return self.own + sum(box.time for box in self.boxes.values())

    @property
    def depth(self) -> int:
        return 1 + max((box.depth for box in self.boxes.values()), default=0)

    def add(self, path: Iterable[tuple[str, str]], time: int) -> None:
        """Adds time to the box at the end of a path of names and EVENT_NAMEs."""
        box = self
        for name, event in path:
            box = box.boxes.setdefault(name, Box(event))
        box.own += time


def by_nesting(events: Sequence[Event]) -> Box:
    """Returns what the time of each event consists of: its own, and that of the events inside it. Times of threads add up."""
    known = {(event.thread, event.id): event for event in events}
    inside: dict[tuple[int, int], int] = {}
    for event in events:
        if event.parent is not None:
            key = (event.thread, event.parent)
            inside[key] = inside.get(key, 0) + event.wait
    root = Box()
    for event in events:
        path = [(_title(event), event.name)]
        around = event
        while around.parent is not None and (found := known.get((event.thread, around.parent))) and len(path) < _DEEPEST:
            around = found
            path.append((_title(around), around.name))
        root.add(reversed(path), max(0, event.wait - inside.get((event.thread, event.id), 0)))
    return root


def by_source(events: Sequence[Event]) -> Box:
    """Returns the waits by the lines that waited: file, line, and what they waited for."""
    root = Box()
    for event in events:
        if event.name.startswith("wait/"):
            file = (event.source or _NO_SOURCE).rpartition(":")[0] or _NO_SOURCE
            lines = [(event.source, "")] if event.source else []
            root.add([(file, ""), *lines, (_title(event), event.name)], event.wait)
    return root


def _title(event: Event) -> str:
    if event.text:
        return " ".join(event.text.split())
    name = short(event.name)
    return f"{name} {event.object.rpartition('/')[2]}" if event.object and event.name.startswith("wait/io/file/") else name


def draw(what: What, by: By, ax: Axes | None) -> Axes:
    ways = {"nesting": by_nesting, "source": by_source}
    if by not in ways:
        raise InvalidValue(f"bad value {by!r} for by: legal are {', '.join(map(repr, ways))}")
    root = ways[by]([event for event in events_of(what) if event.name != IDLE])
    total = root.time
    levels = root.depth - 1
    ax = new_axes(ax, 1.0 + 0.32 * max(2, levels))
    if not total:
        return empty(ax, "no timed events" if by == "nesting" else "no timed waits")
    names: set[str] = set()
    _stack(ax, root, 0.0, 0, total, names)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, levels)
    ax.set_yticks([])
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([0, 1], ["0", time_text(total)])
    ax.set_xlabel("time of the events that the histories still have, added up over threads", color=GREY)
    begin, end = ax.get_xticklabels()
    begin.set_horizontalalignment("left")
    end.set_horizontalalignment("right")
    legend(ax, names)
    return ax


def _stack(ax: Axes, box: Box, left: float, level: int, total: int, names: set[str]) -> None:
    """Draws the boxes that stand on a box, the widest first, from left to right."""
    for name, upper in sorted(box.boxes.items(), key=lambda item: (-item[1].time, item[0])):
        width = upper.time / total
        if width < _NARROWEST:
            continue
        color = kind_of(upper.event)[1] if upper.event else "#cccccc"
        ax.barh(level + 0.5, width, 0.92, left, color=color, alpha=0.55, edgecolor="white", linewidth=0.6)
        fits = int(width * _CHARACTERS) - 1
        label = f"{name}  {time_text(upper.time)}"
        if fits >= 4:
            text = label if len(label) <= fits else name if len(name) <= fits else name[: fits - 1] + "…"
            ax.text(left + 0.003, level + 0.5, text, va="center", fontsize=8, clip_on=True, parse_math=False)
        if upper.event:
            names.add(upper.event)
        _stack(ax, upper, left, level + 1, total, names)
        left += width
