"""The pictures of docs/performance.md, as SVG: the same figures make the same file."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tests.bench import matrix

OURS, OTHERS, EARLIER, LIMIT = "#0b6e99", "#e08e45", "#c3c9cf", "#d1495b"
plt.rcParams.update({"svg.hashsalt": "pfs", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def overhead(found: matrix.Matrix, path: Path, threads: str = "1T") -> None:
    """A panel for each family: nanoseconds over the plain call in each mode, with intervals; the line is what two timer reads take."""
    families = [family for family in matrix.FAMILIES if (family, "bare", threads) in found]
    columns = 4
    rows = -(-len(families) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(12, 2.35 * rows + 0.5), constrained_layout=True, squeeze=False)
    for axes, family in zip(panels.flat, families, strict=False):
        modes = [mode for mode in matrix.MODES if (family, mode, threads) in found]
        over = [found[family, mode, threads].over_bare for mode in modes]
        errors = [[max(0.0, one.value - one.low) for one in over], [max(0.0, one.high - one.value) for one in over]]
        colours = [EARLIER if mode in ("out", "disabled") else OURS for mode in modes]
        axes.bar(
            range(len(modes)),
            [one.value for one in over],
            yerr=errors,
            color=colours,
            error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444"},
        )
        axes.axhline(0, color="#444", linewidth=0.6)
        floor = found.get((family, "floor", threads))
        if floor is not None and floor.over_bare.value > 0:
            axes.axhline(floor.over_bare.value, color=LIMIT, linewidth=1)
        axes.set_xticks(range(len(modes)), [matrix.MODES[mode] for mode in modes], rotation=45, ha="right", fontsize=7)
        axes.tick_params(axis="y", labelsize=7)
        axes.set_title(matrix.FAMILIES[family].partition(" (")[0].partition(": begin")[0], loc="left", fontsize=8, weight="bold")
        # A whisker of a disturbed block may leave the picture; the bars stay readable.
        values = [one.value for one in over]
        room = 0.3 * max(max(values), 1.0)
        axes.set_ylim(min(0.0, *values) - room / 4, max(values) + room)
    for axes in list(panels.flat)[len(families) :]:
        axes.set_axis_off()
    figure.suptitle(
        f"{matrix.THREADS[threads]}: nanoseconds over the plain call (red: what two timer reads add; whiskers: 95 %)",
        x=0.01,
        ha="left",
        weight="bold",
    )
    _save(figure, path)


def scaling(found: matrix.Matrix, path: Path) -> None:
    """Two threads against one, on objects of their own; and on the same object, against the plain call there."""
    families = [family for family in matrix.FAMILIES if (family, "all", "own") in found]
    families += ["memory"] * (("memory", "counted", "own") in found)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), constrained_layout=True)
    places = range(len(families))

    def speed_up(family: str, mode: str) -> float:
        return found[family, mode, "1T"].median / found[family, mode, "own"].median

    most = ["counted" if family == "memory" else "all" for family in families]
    left.barh(
        [place - 0.2 for place in places],
        [speed_up(family, "bare") for family in families],
        0.38,
        color=EARLIER,
        label="plain call",
    )
    left.barh(
        [place + 0.2 for place in places],
        [speed_up(family, mode) for family, mode in zip(families, most, strict=True)],
        0.38,
        color=OURS,
        label="everything on",
    )
    left.axvline(2, color=LIMIT, linewidth=1)
    left.set_yticks(places, families)
    left.invert_yaxis()
    left.set_title("An object each: throughput of two threads / of one (medians)", loc="left", weight="bold")
    left.legend(loc="upper left", bbox_to_anchor=(0, -0.06), ncols=2, frameon=False)
    shared = [family for family in families if (family, "all", "same") in found]
    places = range(len(shared))
    for offset, mode, colour, label in ((-0.2, "bare", EARLIER, "plain call"), (0.2, "all", OURS, "everything on")):
        right.barh(
            [place + offset for place in places],
            [found[family, mode, "same"].nanoseconds for family in shared],
            0.38,
            color=colour,
            label=label,
        )
    right.set_yticks(places, shared)
    right.invert_yaxis()
    right.set_xscale("log")
    right.set_title("The same object: median ns per operation of both", loc="left", weight="bold")
    right.legend(loc="upper left", bbox_to_anchor=(0, -0.06), ncols=2, frameon=False)
    _save(figure, path)


def beside(bars: Sequence[tuple[str, float, str]], path: Path) -> None:
    """(name, floors, colour): what recording a lock costs, here and elsewhere."""
    bars = sorted(bars, key=lambda bar: bar[1], reverse=True)
    figure, axes = plt.subplots(figsize=(9.5, 0.31 * len(bars) + 1.3), constrained_layout=True)
    axes.barh(
        [name for name, _, _ in bars], [value for _, value, _ in bars], color=[colour for _, _, colour in bars], height=0.72
    )
    for row, (_, value, _) in enumerate(bars):
        axes.text(value * 1.04, row, f"{value:.2f}" if value < 10 else f"{value:.1f}", va="center", fontsize=8.5)
    for label, (_, _, colour) in zip(axes.get_yticklabels(), bars, strict=True):
        label.set_fontweight("normal" if colour == EARLIER else "bold")
    axes.axvline(1, color=LIMIT, linewidth=1.2)
    axes.set_xscale("log")
    axes.set_xlim(0.25, 130)
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.set_xlabel("one recorded lock + unlock, in floors (two timer reads around the plain lock, the red line); logarithmic")
    _save(figure, path)


def instructions(counted: Mapping[str, float], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(9, 0.27 * len(counted) + 0.9), constrained_layout=True)
    axes.barh(list(counted), list(counted.values()), color=[EARLIER if name.endswith("/bare") else OURS for name in counted])
    for row, value in enumerate(counted.values()):
        axes.text(value + 4, row, f"{value:.0f}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("instructions an operation, the plain call's included")
    _save(figure, path)


def reading(every: Mapping[int, Mapping[str, tuple[int, float, float]]], large: Sequence[Any], path: Path) -> None:
    """Milliseconds to a DataFrame by rows. `large`: reading.Reading, also with what it may take."""
    figure, axes = plt.subplots(figsize=(9, 4.4), constrained_layout=True)
    names = [one.table for one in large] or [
        "events_waits_history_long",
        "events_waits_summary_by_instance",
        "file_summary_by_instance",
        "mutex_instances",
    ]
    for number, name in enumerate(names):
        points = sorted((rows, best) for rows, best, _ in (found[name] for found in every.values() if name in found) if rows > 0)
        points += [(one.rows, one.best) for one in large if one.table == name]
        points.sort()
        axes.plot(
            [rows for rows, _ in points],
            [best for _, best in points],
            "o-",
            markersize=4,
            linewidth=1.2,
            color=f"C{number}",
            label=name,
        )
        for one in large:
            if one.table == name:
                axes.plot(one.rows, one.limit, "_", markersize=16, markeredgewidth=2, color=f"C{number}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel("ms to a DataFrame, the fastest reading")
    axes.set_title("Reading (the dashes are limits)", loc="left", weight="bold")
    axes.grid(True, which="major", color="#eeeeee")
    axes.legend(fontsize=8)
    _save(figure, path)
