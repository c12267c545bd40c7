"""Draws who waits for whom: an arrow from each thread that waits for a lock to the thread that holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pfs._export.plot.axes import GREY, cut, empty, new_axes
from pfs._export.plot.events import short, table_of, thread_title
from pfs._read.show import time_text
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from pfs._export.plot.events import What

__all__ = ["Graph", "Wait", "draw", "graph_of", "places"]

_NEEDED = ("THREAD_ID", "THREAD", "EVENT_NAME", "TIMER_WAIT", "HOLDER_THREAD_ID", "HOLDER", "READ_LOCKED_BY_COUNT", "DEADLOCK")
_RED, _BOX = "#d62728", "#f2f4f8"


@dataclass(frozen=True, slots=True)
class Wait:
    """An arrow: a thread, the holder that it waits for, the lock, and the picoseconds so far."""

    thread: str
    holder: str
    lock: str
    time: int | None
    source: str | None


@dataclass(slots=True)
class Graph:
    """Holds threads by key, with what to write in their boxes, their waits, and the threads of a deadlock."""

    names: dict[str, str] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    deadlocked: set[str] = field(default_factory=set)


def graph_of(blocked: pd.DataFrame) -> Graph:
    """Returns the graph of a frame of the table ``blocked``.

    Raises:
        InvalidValue: it is no such frame.
    """
    import pandas as pd

    missing = [name for name in _NEEDED if name not in blocked]
    if missing:
        raise InvalidValue(f"a picture of locks needs a frame of the table blocked: {', '.join(missing)} is missing")
    graph = Graph()
    for number, row in enumerate(blocked.to_dict("records")):
        value = {name: None if pd.isna(cell) else cell for name, cell in row.items()}
        thread = str(value["THREAD_ID"])
        graph.names[thread] = thread_title(value["THREAD"], thread)
        if value["HOLDER_THREAD_ID"] is not None:
            holder = str(value["HOLDER_THREAD_ID"])
            graph.names.setdefault(holder, thread_title(value["HOLDER"] or "ended thread", holder))
        else:
            readers = value["READ_LOCKED_BY_COUNT"]
            holder = f"unknown {number}"
            graph.names[holder] = f"{readers} readers" if readers else "unknown holder"
        time = None if value["TIMER_WAIT"] is None else int(value["TIMER_WAIT"])
        graph.waits.append(Wait(thread, holder, str(value["EVENT_NAME"]), time, value.get("SOURCE")))
        if value["DEADLOCK"]:
            graph.deadlocked.update(str(value["DEADLOCK"]).split(" -> "))
    return graph


def places(graph: Graph) -> dict[str, tuple[float, float]]:
    """Returns where the box of each thread stands: threads that hold and do not wait, and deadlocked ones, at the bottom, each
    other one above the holder that is nearest to the bottom. Threads of one row are 1 apart."""
    waiting = {wait.thread for wait in graph.waits}
    levels = {thread: 0 for thread in graph.names if thread not in waiting or thread in graph.deadlocked}
    level = 0
    while len(levels) < len(graph.names):
        upper = {wait.thread for wait in graph.waits if wait.thread not in levels and levels.get(wait.holder) == level}
        level += 1
        if not upper:  # a circle that has come about between two readings
            upper = set(graph.names) - set(levels)
        levels.update(dict.fromkeys(upper, level))
    found: dict[str, tuple[float, float]] = {}
    for level in range(max(levels.values(), default=0) + 1):
        row = [thread for thread in graph.names if levels[thread] == level]

        def middle(thread: str) -> float:
            below = [found[wait.holder][0] for wait in graph.waits if wait.thread == thread and wait.holder in found]
            return sum(below) / len(below) if below else 0.0

        row.sort(key=lambda thread: (middle(thread), thread not in graph.deadlocked))
        for number, thread in enumerate(row):
            found[thread] = (number - (len(row) - 1) / 2, float(level))
    return found


def draw(what: What, ax: Axes | None) -> Axes:
    graph = graph_of(_blocked(what))
    spots = places(graph)
    rows = 1 + max((y for _, y in spots.values()), default=0.0)
    ax = new_axes(ax, 0.8 + 1.5 * rows)
    if not graph.waits:
        return empty(ax, "no thread waits for a lock")
    widest = max(x for x, _ in spots.values())
    ax.set_xlim(-widest - 0.6, widest + 0.6)
    ax.set_ylim(-0.5, rows - 0.5)
    ax.set_axis_off()
    letters = max(12, int(125 / (2 * widest + 1.2)))  # that fit between two threads
    for wait in graph.waits:
        _arrow(ax, wait, spots, letters, {wait.thread, wait.holder} <= graph.deadlocked)
    for thread, (x, y) in spots.items():
        is_dead = thread in graph.deadlocked
        box = {"boxstyle": "round,pad=0.5", "facecolor": _BOX, "edgecolor": _RED if is_dead else GREY}
        ax.text(
            x, y, cut(graph.names[thread], letters), ha="center", va="center", fontsize=9, bbox=box, zorder=5, parse_math=False
        )
    if graph.deadlocked:
        ax.set_title(f"deadlock of {len(graph.deadlocked)} threads", color=_RED, loc="left", fontsize=10)
    return ax


def _arrow(ax: Axes, wait: Wait, spots: dict[str, tuple[float, float]], letters: int, is_dead: bool) -> None:
    (x, y), (to_x, to_y) = spots[wait.thread], spots[wait.holder]
    color = _RED if is_dead else GREY
    bend = 0.45 if y == to_y else 0.0
    if wait.thread == wait.holder:  # it waits for a lock of its own
        x, to_x, bend = x - 0.12, to_x + 0.12, -1.6
    style = {"arrowstyle": "-|>", "color": color, "shrinkA": 12, "shrinkB": 12, "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", (to_x, to_y), (x, y), arrowprops=style)
    known = [wait.source, None if wait.time is None else time_text(wait.time)]
    text = "\n".join(cut(line, letters) for line in (short(wait.lock), ", ".join(filter(None, known))) if line)
    if bend:  # beside the middle of the arc, which lies half of its bend beside the straight line
        label_x, label_y = (x + to_x) / 2, y - bend * (to_x - x) / 2 - (0.12 if to_x > x else -0.12)
    else:  # near the thread that waits: many may wait for one
        label_x, label_y = x + (to_x - x) * 0.2, y + (to_y - y) * 0.25
    back = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.9}
    ax.text(label_x, label_y, text, ha="center", va="center", fontsize=8, color=color, parse_math=False, bbox=back, zorder=4)


def _blocked(what: What) -> pd.DataFrame:
    import pandas as pd

    return what if isinstance(what, pd.DataFrame) else table_of(what, "blocked")
