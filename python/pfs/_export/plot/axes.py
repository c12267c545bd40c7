"""What all pictures share: axes without clutter, an axis of time with a unit, texts that fit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pfs._export.plot.kinds import kind_of
from pfs.errors import Error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cut", "empty", "legend", "new_axes", "time_unit", "titled"]

WIDTH = 11.0  # inches, of a notebook's column
GREY = "#555555"


def new_axes(ax: Axes | None, height: float) -> Axes:
    """Returns the axes to draw on: those of the user, or those of a new figure. ``height`` is in inches."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise Error("pictures need matplotlib: pip install 'perfschema[plot]'") from None
        _, ax = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return ax


def time_unit(picoseconds: float) -> tuple[float, str]:
    """Returns the unit in which a span of time is read best: its picoseconds and its name."""
    return next(((size, unit) for size, unit in ((1e12, "s"), (1e9, "ms"), (1e6, "µs")) if picoseconds >= size), (1e3, "ns"))


def cut(text: str, most: int) -> str:
    """Returns a text of at most this many characters. Ends of names say more than their begins."""
    return text if len(text) <= most else "…" + text[len(text) - most + 1 :]


def legend(ax: Axes, names: Iterable[str]) -> None:
    """Shows above the axes which color is which kind of event."""
    from matplotlib.patches import Patch

    kinds = sorted({kind_of(name) for name in names})
    if kinds:
        patches = [Patch(facecolor=color, label=title) for title, color in kinds]
        ax.legend(handles=patches, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(kinds), frameon=False, borderaxespad=0.2)


def titled(ax: Axes, what: str, source: object) -> Axes:
    """Says what is drawn, and of which process; not over the title of a user's axes."""
    pid = os.getpid() if source is None else getattr(source, "pid", None) or getattr(source, "attrs", {}).get("pid")
    if not any(ax.get_title(loc) for loc in ("left", "center", "right")):
        ax.set_title(f"{what} of process {pid}" if pid else what, loc="right", fontsize="medium", color=GREY)
    return ax


def empty(ax: Axes, text: str) -> Axes:
    """Says why there is nothing to draw."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=GREY)
    ax.set_axis_off()
    return ax
