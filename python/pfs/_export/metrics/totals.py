"""Adds the counts of processes up so that no counter ever goes down while the exporter runs.

A count of a process falls at a TRUNCATE, and a row goes with its object. Then the old count is kept, and the new one adds to it.
A process that ends leaves its last counts behind. Its file may be gone by then, but the exporter still has it mapped: if the
exporter has seen a process once, its counts are complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from pfs._export.metrics.families import Key, Values

if TYPE_CHECKING:
    from pfs._export.metrics.metric import Metric
    from pfs._read.source import Source

__all__ = ["Counts", "Readable", "Sums"]

_MOST_KEPT = 10_000  # rows of a table that ended processes have left


class Readable(Protocol):
    """A group of metrics: a `Group` of columns, or one of module others."""

    @property
    def gauges(self) -> frozenset[int]: ...
    @property
    def in_mysqld_exporter(self) -> bool: ...
    def read(self, source: Source) -> dict[Key, Values]: ...
    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]: ...


class Counts:
    """Holds the counts of one table of one process."""

    def __init__(self, gauges: frozenset[int]) -> None:
        self._gauges = gauges
        self._now: dict[Key, Values] = {}
        self._before: dict[Key, Values] = {}  # what a row had counted before it began again

    def add(self, rows: Mapping[Key, Values], is_dead: bool) -> None:
        """Takes the rows of a new reading."""
        for key, values in rows.items():
            old = self._now.get(key)
            if old is not None and self._fell(old, values):
                if is_dead:  # it died while it moved numbers, and some are missing: nobody has called TRUNCATE
                    values = [max(pair) for pair in zip(old, values, strict=True)]
                else:
                    _add(self._before, key, self._without_gauges(old))
            self._now[key] = values
        for key in self._now.keys() - rows.keys():
            self._now[key] = self._without_gauges(self._now[key])

    def _fell(self, old: Values, new: Values) -> bool:
        return any(now < was for i, (now, was) in enumerate(zip(new, old, strict=True)) if i not in self._gauges)

    def _without_gauges(self, values: Values) -> Values:
        return [0 if i in self._gauges else value for i, value in enumerate(values)] if self._gauges else values

    def add_to(self, sums: dict[Key, Values], with_gauges: bool) -> None:
        for rows in (self._now, self._before):
            for key, values in rows.items():
                _add(sums, key, values if with_gauges else self._without_gauges(values))


class Sums:
    """Holds what processes that have ended left in one table."""

    def __init__(self) -> None:
        self.rows: dict[Key, Values] = {}

    def take(self, counts: Counts) -> None:
        """Adds the counts of a process. If there are too many rows, those with the least are dropped."""
        counts.add_to(self.rows, with_gauges=False)
        if len(self.rows) > _MOST_KEPT:
            self.rows = dict(sorted(self.rows.items(), key=lambda row: sum(row[1]), reverse=True)[:_MOST_KEPT])

    def with_all(self, counts: Iterable[tuple[Counts, bool]]) -> dict[Key, Values]:
        """Returns the sums of the ended processes and of these. A flag says whether a process counts in gauges."""
        total = {key: list(values) for key, values in self.rows.items()}
        for each, with_gauges in counts:
            each.add_to(total, with_gauges)
        return total


def _add(sums: dict[Key, Values], key: Key, values: Values) -> None:
    before = sums.get(key)
    sums[key] = list(values) if before is None else [a + b for a, b in zip(before, values, strict=True)]
