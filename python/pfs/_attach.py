"""pfs.attach: the tables of another process, or of one that is no more."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from pfs import _core, _frame, _processes, _show, setup
from pfs._source import OWN
from pfs.errors import AttachError, OperationNotAllowed, StateError

if TYPE_CHECKING:
    from types import TracebackType

    import pandas as pd

    from pfs._names import TableName
    from pfs._snapshot import Snapshot
    from pfs._source import Assignments, Conditions

__all__ = ["Schema", "attach"]


class _Changes(Protocol):
    """pfs._remote.Remote: changes another process."""

    def call(self, operation: str, *arguments: object) -> object: ...
    def close(self) -> None: ...


class _OwnChanges:
    """Changes of this process need no way round."""

    def call(self, operation: str, *arguments: object) -> object:
        return getattr(OWN, operation)(*arguments)

    def close(self) -> None:
        pass


class SegmentSource:
    """Reads a mapped segment; changes it, if that was asked for, through the process that has made it."""

    def __init__(self, segment: _core.Segment, write: bool) -> None:
        self.path = segment.path
        self.identity = segment.identity
        self.pid = self.identity.pid
        self._segment: _core.Segment | None = segment
        found = _processes.look(self.path)
        self.doubt = found.doubt if found is not None else ""
        self._write = write
        self._changes: _Changes | None = None
        self._turn = threading.Lock()  # changes one after the other

    @property
    def state(self) -> _processes.State:
        return "unknown" if self.doubt else _processes.liveness(self.identity, os.path.basename(self.path))

    def segment(self) -> _core.Segment:
        if self._segment is None:
            raise StateError(f"this Schema of process {self.pid} is closed: pfs.attach({self.path!r}) opens it again")
        return self._segment

    def close(self) -> None:
        self._segment = None  # unmapped when nobody reads it any more
        with self._turn:
            changes, self._changes = self._changes, None
            if changes is not None:
                changes.close()

    def read(self, table: str, columns: Sequence[str] | None) -> tuple[int, int, list[_core.Part]]:
        return _core.read(table, columns, self.segment())

    def rows(self, table: str, columns: Sequence[str] | None) -> list[tuple[Any, ...]]:
        return _core.rows(table, columns, self.segment())

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
        _core.facts(table)  # an unknown table is the first thing to complain about
        if not self._write:
            raise OperationNotAllowed(
                f"{operation.upper()} of {table}: process {self.pid} was attached for reading only; "
                "pfs.attach(..., write=True) makes changes possible"
            )
        if self.state == "dead":
            raise StateError(f"{operation.upper()} of {table}: process {self.pid} is dead; what it left can only be read")
        with self._turn:
            if self._changes is None:
                self._changes = self._way()
            return self._changes.call(operation, table, *arguments)

    def _way(self) -> _Changes:
        if self.pid == os.getpid() and os.path.realpath(self.path) == os.path.realpath(_core.segment_path()):
            return _OwnChanges()
        if not _processes.is_of(self.path, self.identity):
            raise StateError(f"{self.path} is not the segment any more that was attached: another process has taken its place")
        from pfs._remote import Remote

        return Remote(self.path)


class Schema:
    """The tables of one process, from ``pfs.attach``: the same names as the module pfs has for one's own.

    Every call reads anew, and asks nothing of the process: it may be busy, stopped, hung or dead. As a context manager it closes
    at the end of the block.

    Attributes:
        setup_instruments, setup_consumers, setup_objects, setup_timers, setup_actors, setup_threads, setup_meters,
        setup_loggers, threads: as those of pfs; their changes need ``write=True``.
        variables, status: as those of pfs.
    """

    def __init__(self, source: SegmentSource) -> None:
        """Not for users: see ``pfs.attach``."""
        self._source = source
        self.setup_instruments = setup.SetupInstruments(source)
        self.setup_consumers = setup.SetupConsumers(source)
        self.setup_objects = setup.SetupObjects(source)
        self.setup_timers = setup.SetupTimers(source)
        self.setup_actors = setup.SetupActors(source)
        self.setup_threads = setup.SetupThreads(source)
        self.setup_meters = setup.SetupMeters(source)
        self.setup_loggers = setup.SetupLoggers(source)
        self.threads = setup.Threads(source)
        self.variables = setup.Values("global_variables", source)
        self.status = setup.Values("global_status", source)

    @property
    def pid(self) -> int:
        """Process id, as the process itself knows it."""
        return self._source.pid

    @property
    def path(self) -> str:
        """The segment file."""
        return self._source.path

    @property
    def command(self) -> str:
        """The first 256 bytes of its command line."""
        return _processes.command_text(self._source.identity.command)

    @property
    def is_alive(self) -> bool | None:
        """Whether the process is still there. None: nobody can tell from here (another container, another boot)."""
        state = self._source.state
        return None if state == "unknown" else state == "alive"

    def tables(self) -> list[str]:
        """Names of all tables, sorted."""
        return _core.tables()

    def table(self, name: TableName | str, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """The rows of a table now, as ``pfs.table`` gives those of one's own process.

        Raises:
            UnknownTable: no table has this name.
            UnknownColumn: the table has no such column.
            InvalidValue: a column is named twice.
            StateError: this Schema is closed.
        """
        return _frame.frame(name, columns, self._source)

    def describe(self, name: TableName | str) -> pd.DataFrame:
        """What the columns of a table mean: see ``pfs.describe``."""
        return _frame.describe(name)

    def ddl(self, name: TableName | str) -> str:
        """The CREATE TABLE text of a table."""
        return _core.ddl(name)

    def truncate(self, name: TableName | str) -> None:
        """Empties a table of events, or sets the counts of a summary to zero, in the process.

        Raises:
            UnknownTable: no table has this name.
            OperationNotAllowed: the table cannot be truncated, or this was attached without ``write=True``.
            StateError: the process is dead, or this Schema is closed.
        """
        self._source.truncate(name)

    def snapshot(self, folder: str | os.PathLike[str] | None = None) -> Snapshot:
        """All tables, read together: see ``pfs.snapshot``."""
        from pfs import _snapshot

        return _snapshot.take(self._source, self._source.identity, folder)

    def close(self) -> None:
        """Lets the file go. Frames and snapshots stay; what is read afterwards raises StateError."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Schema of process {self.pid} ({self._source.state}): {self.command or '?'}; {self.path}>"

    def _repr_html_(self) -> str:
        identity = self._source.identity
        started = _processes.started(identity)
        rows = [
            ("process", f"{self.pid} ({self._source.state})"),
            ("command", self.command),
            ("started", "?" if started is None else f"{started:%Y-%m-%d %H:%M:%S} UTC"),
            ("version", _processes.version(identity)),
            ("segment", self.path),
            ("tables", f"{len(self.tables())}: .tables(), .table(name)"),
        ]
        return _show.as_html("Schema", ("", " "), rows)


def attach(pid_or_path: int | str | os.PathLike[str], write: bool = False) -> Schema:
    """Opens the tables of another process, or those that a dead one has left. Reading asks nothing of the process and changes
    nothing in it.

        with pfs.attach(4711) as schema:
            schema.table("events_waits_current")

    Args:
        pid_or_path: a process id of this pid namespace, which must have a segment in PFS_DIR, else /dev/shm/pfs-<uid> of us or of
            the user that the process belongs to; or the path of a segment: of a container, or of one of several dead processes
            that had one pid. One's own process id gives the tables that pfs itself gives.
        write: whether setup tables and TRUNCATE are to work.

    Raises:
        AttachError: there is no such segment, or it is none that this version can read; the message lists those that are there.
    """
    if isinstance(pid_or_path, int):
        if pid_or_path == os.getpid():
            path = _core.segment_path()  # which starts pfs
            if not path:
                reason = setup.status["performance_schema_status_reason"]
                raise AttachError(f"this process has no segment file: {reason or 'PFS_SEGMENT=private'}")
        else:
            path = _processes.find(pid_or_path).path
    else:
        path = os.fspath(pid_or_path)
    return Schema(SegmentSource(_core.Segment(path), write))
