"""Counts by instrument between two moments, from a few small reads, without numpy and pandas."""

from __future__ import annotations

from dataclasses import dataclass

from pfs._read.source import OWN, losses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pfs._read.source import Source

    Counts = dict[str, list[int]]  # by instrument: events, picoseconds, bytes read, bytes written

__all__ = ["EVENTS", "READ", "TIME", "WRITTEN", "Totals", "chosen"]

EVENTS, TIME, READ, WRITTEN = range(4)

_EVENTS = ("COUNT_STAR", "SUM_TIMER_WAIT")
_BYTES = ("SUM_NUMBER_OF_BYTES_READ", "SUM_NUMBER_OF_BYTES_WRITE")
_TABLES = (
    *(
        (f"events_{kind}_summary_global_by_event_name", _EVENTS, EVENTS)
        for kind in ("waits", "stages", "statements", "transactions")
    ),
    ("file_summary_by_event_name", _BYTES, READ),
    ("socket_summary_by_event_name", _BYTES, READ),
)


@dataclass(slots=True)
class Totals:
    """Holds the sums of all threads, running and ended: of a process since its start (`take`), or of an interval (`since`)."""

    counts: Counts
    lost: int = 0  # events, objects and names beyond a capacity

    @classmethod
    def take(cls, source: Source = OWN) -> Totals:
        counts: Counts = {}
        for table, columns, first in _TABLES:
            for name, one, two in source.rows(table, ("EVENT_NAME", *columns)):
                if one or two:
                    numbers = counts.setdefault(name, [0, 0, 0, 0])
                    numbers[first : first + 2] = one, two
        return cls(counts, sum(losses(source).values()))

    def since(self, before: Totals) -> Totals:
        """Returns the sums since an earlier moment. Sums that went down were truncated: their current values count since then."""
        counts = {}
        for name, now in self.counts.items():
            then = before.counts.get(name)
            if then is not None and now != then:
                pairs = list(zip(now, then, strict=True))
                counts[name] = [a - b for a, b in pairs] if all(a >= b for a, b in pairs) else now
            elif then is None:
                counts[name] = now
        return Totals(counts, max(0, self.lost - before.lost))

    def _combined(self, other: Totals, combine: Callable[[int, int], int]) -> Totals:
        nothing = [0, 0, 0, 0]
        counts = {
            name: [combine(*pair) for pair in zip(self.counts.get(name, nothing), other.counts.get(name, nothing), strict=True)]
            for name in {**self.counts, **other.counts}
        }
        return Totals({name: numbers for name, numbers in counts.items() if any(numbers)}, combine(self.lost, other.lost))

    def __add__(self, other: Totals) -> Totals:
        return self._combined(other, lambda a, b: a + b)

    def __sub__(self, other: Totals) -> Totals:
        return self._combined(other, lambda a, b: max(0, a - b))


def chosen(counts: Mapping[str, list[int]], patterns: Iterable[str]) -> Counts:
    """Returns the instruments that one of the LIKE patterns matches."""
    from pfs import _core

    names = list(counts)
    wanted: set[str] = set()
    for pattern in patterns:
        wanted.update(name for name, is_one in zip(names, _core.matches(names, pattern), strict=True) if is_one)
    return {name: counts[name] for name in names if name in wanted}
