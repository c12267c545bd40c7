"""Draws how long events took over time: a heat map with time from left to right and latency, logarithmic, from bottom to top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pfs._export.plot.axes import empty, new_axes, time_unit
from pfs._export.plot.events import IDLE, TABLES, events_of
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

    from pfs._export.plot.events import What
    from pfs._save.snapshot import Snapshot

    Grid = tuple[np.ndarray, np.ndarray, np.ndarray]

__all__ = ["draw", "of_events", "of_snapshots"]

_HISTOGRAM = "events_statements_histogram_global"
_STATEMENTS = (TABLES[1],)
_COLUMNS = 80
_PER_DECADE = 8  # rows
_PICOSECONDS = 1e12
_FEW = 20  # events in the fullest cell: above it colors are logarithmic


def of_events(what: What) -> Grid | None:
    """Returns the borders of the columns (seconds since the first end), those of the rows (picoseconds), and the number of events
    of each row and column. None: there is no event."""
    import numpy as np

    events = [event for event in events_of(what, _STATEMENTS) if event.name != IDLE]
    if not events:
        return None
    waits = np.maximum(np.array([event.wait for event in events], dtype=float), 1)
    ends = np.array([event.end for event in events], dtype=float) / _PICOSECONDS
    low, high = np.floor(np.log10(waits.min()) * _PER_DECADE), np.floor(np.log10(waits.max()) * _PER_DECADE) + 1
    rows = 10 ** (np.arange(low, high + 1) / _PER_DECADE)
    rows[0], rows[-1] = min(rows[0], waits.min()), max(rows[-1], waits.max())  # powers are not exact
    seconds = ends - ends.min()
    counts, _, columns = np.histogram2d(waits, seconds, bins=(rows, np.linspace(0, seconds.max() or 1e-6, _COLUMNS + 1)))
    return columns, rows, counts


def of_snapshots(snapshots: Sequence[Snapshot]) -> Grid | None:
    """Returns the same from the histograms of statements: a column between each two snapshots.

    Raises:
        InvalidValue: there are fewer than two snapshots, or they are not in the order of their times.
    """
    import numpy as np

    times = [snapshot.time for snapshot in snapshots]
    if len(times) < 2 or any(b <= a for a, b in pairwise(times)):
        raise InvalidValue("a heat map needs two or more snapshots in the order of their times, or a frame of events")
    columns = np.array([(time - times[0]).total_seconds() for time in times])
    frames = [snapshot[_HISTOGRAM].set_index("BUCKET_NUMBER") for snapshot in snapshots]
    counts = np.array([_growth(before["COUNT_BUCKET"], after["COUNT_BUCKET"]) for before, after in pairwise(frames)]).T
    used = np.flatnonzero(counts.sum(axis=1))
    if not len(used):
        return None
    # Buckets are narrower than a row of the picture: a row has those that begin in it.
    lows = np.maximum(frames[-1]["BUCKET_TIMER_LOW"].to_numpy(dtype=float), 1)
    row = np.floor(np.log10(lows) * _PER_DECADE + 1e-9).astype(int)
    first, last = row[used[0]], row[used[-1]]
    rows = 10 ** (np.arange(first, last + 2) / _PER_DECADE)
    summed = np.zeros((last - first + 1, counts.shape[1]))
    np.add.at(summed, row[used] - first, counts[used])
    return columns, rows, summed


def _growth(before: pd.Series[int], after: pd.Series[int]) -> np.ndarray:
    """Returns what came between two readings. Where a count fell, the table was truncated and counts from zero."""
    old, new = before.to_numpy(dtype=float), after.to_numpy(dtype=float)
    growth: np.ndarray = new if (new < old).any() else new - old
    return growth


def draw(what: What | Sequence[Snapshot], ax: Axes | None) -> Axes:
    is_list = isinstance(what, Sequence) and not isinstance(what, Mapping)
    grid = of_snapshots(what) if is_list else of_events(what)  # type: ignore[arg-type]
    ax = new_axes(ax, 3.6)
    if grid is None:
        return empty(ax, "no timed statements" if is_list or what is None else "no timed events")
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    columns, rows, counts = grid
    # An empty cell stays white.
    shown = counts.copy()
    shown[shown == 0] = float("nan")
    size, unit = time_unit(columns[-1] * _PICOSECONDS)
    most = counts.max()
    norm = LogNorm(1, most) if most > _FEW else Normalize(0, most)
    mesh = ax.pcolormesh(columns * _PICOSECONDS / size, rows, shown, cmap="viridis_r", norm=norm, shading="flat")
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(10))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _latency(value)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.margins(0)
    ax.set_xlabel(unit)
    ax.set_ylabel("latency")
    ax.grid(axis="y", color="#eeeeee")
    ax.set_axisbelow(True)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.01, label="events")
    if most <= _FEW:
        bar.locator = MaxNLocator(5, integer=True)
        bar.update_ticks()
    bar.outline.set_visible(False)
    return ax


def _latency(picoseconds: float) -> str:
    size, unit = time_unit(picoseconds)
    return f"{picoseconds / size:g} {unit}"
