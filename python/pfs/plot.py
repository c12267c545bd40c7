"""Pictures of events, latencies and locks, with matplotlib (``pip install 'perfschema[plot]'``).

    import pfs
    pfs.plot.timeline()                        # what each thread of this process did
    pfs.plot.flame(pfs.attach(4711))           # where the time of another process went
    pfs.plot.locks(pfs.attach(4711))           # who waits for whom

Each function takes a process or its events, and returns the matplotlib ``Axes`` on which it has drawn: those that you give, or
those of a new figure. ``source`` is None for this process, what ``pfs.attach`` returns, a snapshot, or a frame of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from pfs._export.plot.events import Process, What
    from pfs._export.plot.flame import By
    from pfs._read.units import Time
    from pfs._save.snapshot import Snapshot

__all__ = ["flame", "heatmap", "locks", "timeline"]


def timeline(source: What = None, *, begin: Time = 0, end: Time | None = None, ax: Axes | None = None) -> Axes:
    """Draws what each thread did: a lane per thread, time from left to right.

    Waits are thin and strong; the statements, stages and transactions around them are high and pale. It shows the 20,000 longest
    events. Where there are more than 40 threads, those that follow one another share a lane. Of more than 40 lanes it shows those
    with the most time in events. Waiting for work (``idle``) is left out.

    Args:
        source: a process or a snapshot, whose ``events_*_history_long`` are drawn, or a frame of such events.
        begin, end: the time to draw, as TIMER_START: picoseconds, or a text as "1.5s". Events that cross it are cut.
        ax: where to draw. None makes a figure.

    Raises:
        InvalidValue: the frame lacks a column that is needed, or its times are not in picoseconds.
        Error: matplotlib is not installed.
    """
    from pfs._export.plot.axes import titled
    from pfs._export.plot.timeline import draw
    from pfs._read.units import picoseconds

    last = None if end is None else picoseconds("end", end, "ps")
    return titled(draw(source, picoseconds("begin", begin, "ps"), last, ax), "Events", source)


def heatmap(source: What | Sequence[Snapshot] = None, *, ax: Axes | None = None) -> Axes:
    """Draws how long events took, and when: time from left to right, latency from bottom to top, the darker the more events.

    Args:
        source: a process or a snapshot, whose ``events_statements_history_long`` is drawn; a frame of events of any kind; or a
            list of snapshots, for the statements between each two of them, by ``events_statements_histogram_global``: so nothing
            is missing that a history has overwritten.
        ax: where to draw. None makes a figure.

    Raises:
        InvalidValue: a frame as for ``timeline``; fewer than two snapshots, or not in the order of their times.
        Error: matplotlib is not installed.
    """
    from pfs._export.plot.axes import titled
    from pfs._export.plot.heatmap import draw

    return titled(draw(source, ax), "Latencies", source)


def flame(source: What = None, *, by: By = "nesting", ax: Axes | None = None) -> Axes:
    """Draws where time went as a flame graph: a box is as wide as its time, in all threads.

    Of a process or a snapshot it shows what the histories still have: the newest events.

    Args:
        source: as for ``timeline``.
        by: "nesting": statements stand on transactions, stages on statements, waits on what they are in. "source": waits by file
            and line of the program.
        ax: where to draw. None makes a figure.

    Raises:
        InvalidValue: a frame as for ``timeline``; a bad value for ``by``.
        Error: matplotlib is not installed.
    """
    from pfs._export.plot.axes import titled
    from pfs._export.plot.flame import draw

    return titled(draw(source, by, ax), "Time", source)


def locks(source: Process | pd.DataFrame = None, *, ax: Axes | None = None) -> Axes:
    """Draws who waits for whom: an arrow from each thread that waits for a lock to the thread that holds it. A deadlock is red.

    Args:
        source: a process, a snapshot, or a frame of the table ``blocked``.
        ax: where to draw. None makes a figure.

    Raises:
        InvalidValue: a snapshot, or another frame.
        Error: matplotlib is not installed.
    """
    from pfs._export.plot.axes import titled
    from pfs._export.plot.locks import draw

    return titled(draw(source, ax), "Waits for locks", source)


def __getattr__(name: str) -> object:
    near = ""
    if not name.startswith("_"):
        from pfs._read.nearest import hint

        near = hint(name, __all__)
    raise AttributeError(f"module 'pfs.plot' has no attribute '{name}'{near}")
