"""Reads and changes the tables of a mapped segment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from pfs import _core
from pfs._process import processes
from pfs._read.source import OWN
from pfs.errors import OperationNotAllowed, StateError

if TYPE_CHECKING:
    from pfs._read.source import Assignments, Conditions

__all__ = ["SegmentSource"]


# They show times so far.
_TABLES_OF_NOW = ("active_sessions", "threads", "processlist", "running", "blocked", "lock_reasons", "thread_time")


class _Changes(Protocol):
    """Is implemented by pfs._process.remote.Remote, which changes another process."""

    def call(self, operation: str, *arguments: object) -> object: ...
    def close(self) -> None: ...


class _OwnChanges:
    """Changes this process directly."""

    def call(self, operation: str, *arguments: object) -> object:
        return getattr(OWN, operation)(*arguments)

    def close(self) -> None:
        pass


class SegmentSource:
    """Reads a mapped segment, and changes it through a changer if `write` is true."""

    def __init__(self, segment: _core.Segment, write: bool) -> None:
        self.path = segment.path
        self.identity = segment.identity
        self.pid = self.identity.pid
        self._segment: _core.Segment | None = segment
        found = processes.look(self.path)
        self.doubt = found.doubt if found is not None else ""
        self._write = write
        self._seen = 0  # picoseconds; the process was alive then
        self._newest: int | None = None  # when the newest event of a dead process began or ended
        self._changes: _Changes | None = None
        self._lock = threading.Lock()  # of _changes

    @property
    def state(self) -> processes.State:
        return "unknown" if self.doubt else processes.liveness(self.identity, self.path)[0]

    @property
    def pid_here(self) -> int:
        """The process id here of a process that runs, also of one in a container. It is 0 if there is none, or nobody knows."""
        return 0 if self.doubt else processes.liveness(self.identity, self.path)[1]

    def segment(self) -> _core.Segment:
        if self._segment is None:
            raise StateError(f"this Schema of process {self.pid} is closed: pfs.attach({self.path!r}) opens it again")
        return self._segment

    def close(self) -> None:
        self._segment = None  # it is unmapped when its last reader ends
        with self._lock:
            changes, self._changes = self._changes, None
            if changes is not None:
                changes.close()

    def now(self) -> int:
        """Returns the present time on the time line of the events; of a dead process the last moment at which it is known to have
        run: the newest event, or the last moment at which this object saw it alive."""
        if processes.is_alive(self.state) or (self.state == "unknown" and processes.is_of_this_boot(self.identity)):
            self._seen = max(self._seen, _core.now(self.segment()))
            return self._seen
        if self._newest is None:
            self._newest = self._newest_event()
        return max(self._seen, self._newest)

    def ran_until(self, monotonic_ns: int) -> None:
        """Says that the process has run until then, by this machine's monotonic clock.

        A program that became another one ends there.
        """
        ago = time.monotonic_ns() - min(monotonic_ns, self.segment().became() or monotonic_ns)
        self._seen = max(self._seen, _core.now(self.segment()) - ago * 1000)

    def _newest_event(self) -> int:
        """Returns when the newest event began or ended."""
        times: list[int] = []
        for kind in ("waits", "stages", "statements", "transactions"):
            for view in ("current", "history_long"):
                for row in _core.rows(f"events_{kind}_{view}", ("TIMER_START", "TIMER_END"), self.segment()):
                    times.extend(time for time in row if time is not None)
        return max(times, default=0)

    def read(
        self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
    ) -> tuple[int, int, list[_core.Part]]:
        return _core.read(table, columns, self.segment(), elapsed, self._moment(table, elapsed, now))

    def used(self, table: str) -> tuple[int, list[_core.Part]]:
        """Returns the number of rows and the columns of a table, without buckets of digests in which nothing was counted.

        What was read does not stay in the memory of this process.
        """
        segment = self.segment()
        try:
            rows, _, parts = _core.read(table, None, segment, False, self._moment(table, False, None), True)
        finally:
            segment.forget_pages()
        return rows, parts

    def rows(
        self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
    ) -> list[tuple[Any, ...]]:
        return _core.rows(table, columns, self.segment(), elapsed, self._moment(table, elapsed, now))

    def _moment(self, table: str, elapsed: bool, now: int | None) -> int | None:
        """Returns the moment of a reading, if the table shows times up to it and the process may be dead."""
        if now is None and (elapsed or table.lower() in _TABLES_OF_NOW) and not processes.is_alive(self.state):
            return self.now()
        return now

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> _core.ArrowTable:
        return _core.arrow(table, columns, self.segment(), self._moment(table, elapsed=False, now=None), any_order)

    def update(self, table: str, conditions: Conditions, assignments: Assignments) -> int:
        return cast(int, self._change("update", table, conditions, assignments))

    def insert(self, table: str, values: Assignments) -> None:
        self._change("insert", table, values)

    def delete(self, table: str, conditions: Conditions) -> int:
        return cast(int, self._change("delete", table, conditions))

    def truncate(self, table: str) -> None:
        self._change("truncate", table)

    def _change(self, operation: str, table: str, *arguments: object) -> object:
        self.segment()
        _core.table_info(table)  # raises for an unknown table before any other check
        if not self._write:
            raise OperationNotAllowed(
                f"{operation.upper()} of {table}: process {self.pid} was attached for reading only; "
                "pfs.attach(..., write=True) makes changes possible"
            )
        if self.state == "dead":
            raise StateError(f"{operation.upper()} of {table}: process {self.pid} is dead; what it left can only be read")
        with self._lock:
            if self._changes is None:
                self._changes = self._way()
            return self._changes.call(operation, table, *arguments)

    def _way(self) -> _Changes:
        if self.pid == os.getpid() and os.path.realpath(self.path) == os.path.realpath(_core.segment_path()):
            return _OwnChanges()
        if not processes.is_of(self.path, self.identity):
            raise StateError(f"{self.path} is not the segment any more that was attached: another process has taken its place")
        from pfs._process.remote import Remote

        return Remote(self.path)
