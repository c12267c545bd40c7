"""A metric: a name, a type and its samples, as OpenMetrics defines them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Kind", "Labels", "Metric", "open_kind", "seconds"]

Kind = Literal["counter", "gauge", "histogram", "unknown"]
Labels = tuple[tuple[str, str], ...]
PICOSECONDS = 10**12


@dataclass(slots=True)
class Metric:
    """Holds the samples of one name. A sample is a suffix, labels, and a number as text: floats would round large counts."""

    name: str  # without _total
    kind: Kind
    doc: str
    unit: str = ""  # the end of the name: "seconds" or "bytes"
    bare: bool = False  # a counter whose name does not end in _total; OpenMetrics has no such counters, and calls it unknown
    samples: list[tuple[str, Labels, str]] = field(default_factory=list)

    def add(self, labels: Labels, value: str, suffix: str | None = None) -> None:
        if suffix is None:
            suffix = "_total" if self.kind == "counter" and not self.bare else ""
        self.samples.append((suffix, labels, value))


def seconds(picoseconds: int) -> str:
    """Returns an exact number of seconds."""
    whole, part = divmod(picoseconds, PICOSECONDS)
    return f"{whole}.{part:012d}".rstrip("0").rstrip(".")


def open_kind(metric: Metric) -> Kind:
    """Returns the type that OpenMetrics allows."""
    return "unknown" if metric.bare else metric.kind
