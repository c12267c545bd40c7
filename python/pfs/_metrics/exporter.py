"""Finds the processes, reads them, and makes metrics of their sums."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from pfs import _core
from pfs._metrics import DEFAULT_TOP
from pfs._metrics.families import GROUPS
from pfs._metrics.metric import Metric
from pfs._metrics.others import Histogram, Lost, ProgramStatus
from pfs._metrics.totals import Counts, Readable, Sums
from pfs._outside import processes
from pfs._outside.segment import SegmentSource
from pfs.errors import Error

__all__ = ["Exporter", "all_processes", "one_process"]

_Identity = tuple[object, ...]


def all_processes(directory: str | None = None, all_users: bool = False) -> Callable[[], Sequence[processes.Found]]:
    """Returns a function that lists the segments that may be trusted."""
    return lambda: [found for found in processes.listed(directory, all_users) if not found.doubt]


def one_process(path: str, identity: _core.Identity) -> Callable[[], Sequence[processes.Found]]:
    """Returns a function that lists one segment, or nothing when it has gone or a later process has its name."""

    def look() -> Sequence[processes.Found]:
        found = processes.look(path) if processes.is_of(path, identity) else None
        return [] if found is None else [found]

    return look


def _identity(found: processes.Found) -> _Identity:
    process = found.identity
    # The path is a part of it: a process with two copies of the library has two segments.
    return found.path, process.boot_id, process.pid_namespace, process.pid, process.process_start_ticks, process.started


class _Process:
    """Holds an attached process and its counts, by table."""

    def __init__(self, found: processes.Found, groups: Sequence[Readable]) -> None:
        self.found = found
        self._groups = groups
        self._source = SegmentSource(_core.Segment(found.path), write=False)
        self.counts = [Counts(group.gauges) for group in groups]
        self._is_final = False

    def read(self, found: processes.Found | None) -> None:
        """Reads the tables again. A dead process is read once."""
        if found is not None:
            self.found = found
        is_dead = found is None or found.state == "dead"
        if not self._is_final:
            rows = [group.read(self._source) for group in self._groups]  # all of them or none, if one fails
            for counts, read in zip(self.counts, rows, strict=True):
                counts.add(read, is_dead)
        self._is_final = is_dead

    @property
    def is_over(self) -> bool:
        found = self.found
        return found.state == "dead" or (found.state == "unknown" and not processes.is_of_this_boot(found.identity))

    def close(self) -> None:
        self._source.close()


class Exporter:
    """Makes the metrics of processes. It remembers their counts between two readings.

    Counters add up what running and ended processes counted. Gauges add up what running processes have. If a counter of a process
    falls, because of a TRUNCATE, its sum goes on from where it was.
    """

    def __init__(self, find: Callable[[], Sequence[processes.Found]], top: int = DEFAULT_TOP, compat: bool = False) -> None:
        self._find = find
        self._top = top
        self._compat = compat
        self._prefix = "mysql_perf_schema_" if compat else "pfs_"
        groups: list[Readable] = [*GROUPS, Histogram(), Lost(), ProgramStatus()]
        self._groups = [group for group in groups if group.in_mysqld_exporter or not compat]
        self._known: dict[_Identity, _Process] = {}
        self._ended = [Sums() for _ in self._groups]
        self._lock = threading.Lock()  # of all above

    def metrics(self) -> list[Metric]:
        """Reads all processes and returns their metrics."""
        with self._lock:
            there = {_identity(found): found for found in self._find()}
            states = self._read(there)
            made = []
            for number, group in enumerate(self._groups):
                parts = ((each.counts[number], not each.is_over) for each in self._known.values())
                made += group.metrics(self._ended[number].with_all(parts), self._top, self._prefix, self._compat)
            return [*made, self._processes(states)]

    def _read(self, there: dict[_Identity, processes.Found]) -> Counter[str]:
        """Reads the processes that are there, and for a last time those that have gone. Returns how many are in each state."""
        states = Counter[str]({"alive": 0})
        for identity in [identity for identity in self._known if identity not in there]:
            process = self._known.pop(identity)
            process.read(None)
            for sums, counts in zip(self._ended, process.counts, strict=True):
                sums.take(counts)
            process.close()
        for identity, found in there.items():
            try:
                if identity not in self._known:
                    self._known[identity] = _Process(found, self._groups)
                self._known[identity].read(found)
            except (Error, OSError):  # of another version, or of another user
                states["unreadable"] += 1
            else:
                states[found.state] += 1
        return states

    def _processes(self, states: Counter[str]) -> Metric:
        if self._compat:
            metric = Metric("mysql_up", "gauge", "Whether a process can be read.")
            metric.add((), str(int(any(states[state] for state in processes.STATES))))
            return metric
        metric = Metric("pfs_processes", "gauge", "Processes that can be read.")
        for state, count in sorted(states.items()):
            metric.add((("state", state),), str(count))
        return metric

    def close(self) -> None:
        with self._lock:
            for process in self._known.values():
                process.close()
            self._known.clear()
