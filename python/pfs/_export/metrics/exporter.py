"""Finds the processes, reads them, and makes metrics of their sums."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from pfs import _core
from pfs._export.metrics import DEFAULT_TOP
from pfs._export.metrics.compat import COMPAT_GROUPS
from pfs._export.metrics.families import GROUPS, Key
from pfs._export.metrics.meters import Declared, ProgramMeters
from pfs._export.metrics.metric import Metric
from pfs._export.metrics.others import Histogram, Lost, ProgramStatus, Quantiles
from pfs._export.metrics.sessions import metrics_of
from pfs._export.metrics.totals import Counts, Readable, Sums
from pfs._process import processes
from pfs._process.follow import Find, Follower
from pfs._process.history.watch import Activity, Watch, activity_of
from pfs._process.segment import SegmentSource

__all__ = ["Exporter"]


class _Process:
    """Holds an attached process and its counts, by table."""

    def __init__(self, found: processes.Found, groups: Sequence[Readable], watches: bool) -> None:
        self.found = found
        self._groups = groups
        self._source = SegmentSource(_core.Segment(found.path), write=False)
        self.counts = [Counts(group.gauges) for group in groups]
        self._is_final = False
        self._watches = watches
        self._watch: Watch | None = None
        self.activity: Activity | None = None  # what its threads do; None until it is read, and without a thread

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
        self._look(is_dead)

    def _look(self, is_dead: bool) -> None:
        """Asks what the threads do. A first reading starts no thread: a command that reads once ends then."""
        if is_dead or not self._watches:
            self.activity = None
        elif self._watch is None and self.activity is None:
            self.activity = activity_of(self._source.segment())
        else:
            self._watch = self._watch or Watch(self._source.segment())
            self.activity = self._watch.activity()

    @property
    def is_over(self) -> bool:
        found = self.found
        return found.state == "dead" or (found.state == "unknown" and not processes.is_of_this_boot(found.identity))

    def close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._source.close()


class Exporter:
    """Makes the metrics of processes. It remembers their counts between two readings.

    Counters add up what running and ended processes counted. Gauges add up what running processes have. If a counter of a process
    falls, because of a TRUNCATE, its sum goes on from where it was.
    """

    def __init__(self, find: Find, top: int = DEFAULT_TOP, compat: bool = False, findings: bool = False) -> None:
        self._top = top
        self._compat = compat
        self._prefix = "mysql_perf_schema_" if compat else "pfs_"
        declared: dict[Key, Declared] = {}
        groups: list[Readable] = [*GROUPS, *(COMPAT_GROUPS if compat else ()), Histogram(), Quantiles(), Lost(), ProgramStatus()]
        groups += [ProgramMeters("counter", declared), ProgramMeters("gauge", declared)]
        if findings:
            from pfs._export.metrics.found import Findings

            groups.append(Findings())
        self._groups = [group for group in groups if group.in_mysqld_exporter or not compat]
        self._processes = Follower(find, lambda found: _Process(found, self._groups, not compat))
        self._ended = [Sums() for _ in self._groups]
        self._lock = threading.Lock()  # of all above

    def metrics(self) -> list[Metric]:
        """Reads all processes and returns their metrics."""
        with self._lock:
            states = self._processes.read(self._take)
            made = []
            for number, group in enumerate(self._groups):
                parts = ((each.counts[number], not each.is_over) for each in self._processes.known.values())
                made += group.metrics(self._ended[number].with_all(parts), self._top, self._prefix, self._compat)
            if not self._compat:
                made += metrics_of(each.activity for each in self._processes.known.values() if each.activity is not None)
            return [*made, self._states(states)]

    def _take(self, ended: _Process) -> None:
        for sums, counts in zip(self._ended, ended.counts, strict=True):
            sums.take(counts)

    def _states(self, states: Counter[str]) -> Metric:
        if self._compat:
            metric = Metric("mysql_up", "gauge", "Whether a process can be read.")
            metric.add((), str(int(any(states[state] for state in processes.STATES))))
            return metric
        metric = Metric("pfs_processes", "gauge", "Processes with a segment, by state.")
        for state, count in sorted(states.items()):
            metric.add((("state", state),), str(count))
        return metric

    def close(self) -> None:
        with self._lock:
            self._processes.close()
