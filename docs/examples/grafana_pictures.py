"""Draws the panels of grafana.json, without Grafana, from readings of a program that runs: shop.py, with errors and sockets.

    python docs/examples/grafana_pictures.py lab/pages/metrics-dashboard.svg

It reads the metrics once a second, and evaluates the part of PromQL that the panels use. It needs pfs and matplotlib.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS, WINDOW = 30, 5.0  # of readings; of $__rate_interval
MORE = """
import runpy, sqlite3, sys, threading, time, pfs
def more():
    left, right = pfs.socketpair(name="shop/till")
    database = pfs.dbapi(sqlite3).connect(":memory:")
    while True:
        left.sendall(b"x" * 500)
        right.recv(1000)
        try: database.execute("SELECT price FROM nothing")
        except sqlite3.Error: pass
        time.sleep(0.05)
threading.Thread(target=more, daemon=True).start()
runpy.run_path(sys.argv[2])
"""
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Reading = tuple[float, dict[str, Vector]]
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[\d.]+|\{[^}]*\}|\[[^\]]*\]|[(),/>])")


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((HERE / "grafana.json").read_text())["panels"]
    return found


def parsed(text: str) -> dict[str, Vector]:
    """Returns the samples of OpenMetrics text by their names."""
    found: dict[str, Vector] = {}
    for line in text.splitlines():
        if not line.startswith("#") and (match := _SAMPLE.fullmatch(line)):
            labels = frozenset(_LABEL.findall(match[2] or ""))
            found.setdefault(match[1], {})[labels] = float(match[3])
    return found


class Query:
    """Evaluates an expression of PromQL at a reading, with those before it."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s", "", text):
            raise ValueError(f"{text!r} has more than this script can evaluate")

    def at(self, readings: list[Reading]) -> Vector:
        self.place, self.readings = 0, readings
        found = self._quotient()
        if self._next() == ">":
            self._take(">")
            bound = float(self._take())
            found = {labels: value for labels, value in found.items() if value > bound}
        if self.place != len(self.tokens):
            raise ValueError(f"{self.tokens[self.place]!r} is not expected here")
        return found

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self, wanted: str = "") -> str:
        found = self._next()
        if not found or (wanted and found != wanted):
            raise ValueError(f"{wanted!r} is expected, and not {found!r}")
        self.place += 1
        return str(found)

    def _quotient(self) -> Vector:
        left = self._vector()
        while self._next() == "/":
            self._take("/")
            right = self._vector()
            left = {labels: value / right[labels] for labels, value in left.items() if right.get(labels)}
        return left

    def _vector(self) -> Vector:
        name = self._take()
        if name == "sum":
            return self._sum()
        if name in ("topk", "histogram_quantile"):
            self._take("(")
            number = float(self._take())
            self._take(",")
            inner = self._quotient()
            self._take(")")
            return quantiles(number, inner) if name != "topk" else top(int(number), inner)
        if name in ("rate", "increase"):
            self._take("(")
            found = self._change(self._take(), per_second=name == "rate")
            self._take(")")
            return found
        return self._chosen(name)(self.readings[-1])

    def _sum(self) -> Vector:
        self._take("by")
        self._take("(")
        names = {self._take()}
        while self._next() == ",":
            self._take(",")
            names.add(self._take())
        self._take(")")
        self._take("(")
        total: Vector = {}
        for labels, value in self._quotient().items():
            key = frozenset((name, text) for name, text in labels if name in names)
            total[key] = total.get(key, 0) + value
        self._take(")")
        return total

    def _chosen(self, name: str) -> Callable[[Reading], Vector]:
        wanted = set(_LABEL.findall(self._take())) if self._next().startswith("{") else set()
        return lambda reading: {labels: value for labels, value in reading[1].get(name, {}).items() if wanted <= labels}

    def _change(self, name: str, per_second: bool) -> Vector:
        chosen = self._chosen(name)
        self._take("[$__rate_interval]")
        last = self.readings[-1]
        first = next(reading for reading in self.readings if reading[0] >= last[0] - WINDOW)
        if first is last:
            return {}
        before, seconds = chosen(first), last[0] - first[0]
        return {
            labels: (value - before[labels]) / (seconds if per_second else 1)
            for labels, value in chosen(last).items()
            if labels in before
        }


def top(count: int, vector: Vector) -> Vector:
    return dict(sorted(vector.items(), key=lambda row: -row[1])[:count])


def quantiles(part: float, buckets: Vector) -> Vector:
    """Returns the quantile of each histogram, between two bounds by a straight line, as Prometheus does."""
    found: Vector = {}
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        bound = float(dict(labels)["le"].replace("+Inf", "inf"))
        groups.setdefault(frozenset(pair for pair in labels if pair[0] != "le"), []).append((bound, count))
    for labels, rows in groups.items():
        rows.sort()
        wanted = part * rows[-1][1]
        if not wanted:
            continue
        number = next(n for n, (_, count) in enumerate(rows) if count >= wanted)
        low, below = rows[number - 1] if number else (0.0, 0.0)
        high, count = rows[number]
        found[labels] = low if math.isinf(high) else low + (high - low) * (wanted - below) / (count - below)
    return found


def legend(target: dict[str, Any], labels: Labels) -> str:
    values = dict(labels)
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values.get(match[1], ""), target["legendFormat"])


def readings_of_a_program() -> list[Reading]:
    import pfs.metrics

    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PFS_DIR": folder}
        with subprocess.Popen([sys.executable, "-c", MORE, folder, str(HERE / "shop.py")], env=environment) as program:
            try:
                time.sleep(2)
                exporter = pfs.metrics.exporter(next(str(path) for path in Path(folder).glob("*.pfs")))
                from pfs._export.metrics.text import text_of

                found, begin = [], time.monotonic()
                while time.monotonic() < begin + SECONDS:
                    found.append((time.monotonic() - begin, parsed(text_of(exporter.metrics()))))
                    time.sleep(1)
                exporter.close()
            finally:
                program.kill()
    return found


def draw(readings: list[Reading], path: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "pfs", "font.size": 8})
    import matplotlib.pyplot as plt

    shown = panels()
    figure, axes = plt.subplots((len(shown) + 1) // 2, 2, figsize=(11, 15))
    for axis, panel in zip(axes.flat, shown, strict=False):
        lines: dict[str, list[tuple[float, float]]] = {}
        for target in panel["targets"]:
            query = Query(target["expr"])
            for number in range(1, len(readings)):
                for labels, value in query.at(readings[: number + 1]).items():
                    lines.setdefault(legend(target, labels), []).append((readings[number][0], value))
        for name, points in list(lines.items())[:8]:
            axis.plot(*zip(*points, strict=True), label=name if len(name) < 60 else name[:57] + "...", linewidth=1)
        unit = panel["fieldConfig"]["defaults"]["unit"]
        axis.set_title(f"{panel['title']} ({unit})", fontsize=9, loc="left")
        highest = max((value for points in lines.values() for _, value in points), default=0.0)
        axis.set_ylim(0, highest * 1.6 or 1)  # space for the legend
        axis.set_xlim(0, readings[-1][0])
        axis.grid(alpha=0.3)
        if lines:
            axis.legend(fontsize=6, loc="upper left", framealpha=0.7)
        else:
            axis.text(0.5, 0.5, "no data", transform=axis.transAxes, ha="center", color="gray")
    figure.supxlabel("seconds", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    found = readings_of_a_program()
    for name in sys.argv[1:]:
        draw(found, name)
