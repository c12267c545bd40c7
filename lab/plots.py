"""The pictures of lab/pages/performance.md, as SVG: the same figures make the same file."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from lab import matrix

OURS, OTHERS, EARLIER, LIMIT = "#0b6e99", "#e08e45", "#c3c9cf", "#d1495b"
plt.rcParams.update(
    {
        "svg.hashsalt": "pfs",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Arial"],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)


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
        axes.tick_params(axis="x", length=0)
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
