"""``pfs.attach`` opens the tables of another process, running or dead."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Self

from pfs import _core, setup
from pfs._process import owners, processes
from pfs._process.recorded import is_recorded, recorded
from pfs._process.segment import SegmentSource
from pfs._read import show
from pfs._read.kinds import listed
from pfs.errors import AttachError
from pfs.setup._values import Values

if TYPE_CHECKING:
    from types import TracebackType

    import pandas as pd

    from pfs._names import TableName
    from pfs._read.units import Unit
    from pfs._save.snapshot import Snapshot
    from pfs._sql.query import Dialect
    from pfs._sql.result import Result


__all__ = ["Schema", "attach"]


class Schema(setup.Tables):
    """Gives access to the tables of one process, with the names that module pfs has for its own. ``pfs.attach`` returns it.

    Every call reads the tables again and needs nothing of the process, which may be busy, stopped, hung or dead. As a context
    manager it closes at the end of the block.

    Attributes:
        setup_instruments, setup_consumers, setup_objects, setup_overhead, setup_timers, setup_actors, setup_threads,
        setup_meters, setup_loggers, threads: as those of pfs; their changes need ``write=True``.
        variables, status: as those of pfs.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, source: SegmentSource) -> None:
        """Is not for users: see ``pfs.attach``."""
        self._source = source
        super().__init__(source)
        self.variables = Values("global_variables", source)
        self.status = Values("global_status", source)

    @property
    def pid(self) -> int:
        """The process id, as the process itself knows it."""
        return self._source.pid

    @property
    def path(self) -> str:
        """The segment file."""
        return self._source.path

    @property
    def command(self) -> str:
        """The first 256 bytes of its command line."""
        return show.command_text(self._source.identity.command)

    @property
    def is_alive(self) -> bool | None:
        """Whether the process still runs. It is None if that cannot be known from here (another container, another boot)."""
        state = self._source.state
        return None if state == "unknown" else state != "dead"

    def tables(self) -> list[str]:
        """Returns the names of all tables, sorted."""
        return _core.tables()

    def table(
        self,
        name: TableName | str,
        columns: Iterable[str] | None = None,
        *,
        running: Literal["elapsed"] | None = None,
        unit: Unit | None = None,
        where: str | Mapping[str, object] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Returns the current rows of a table, as ``pfs.table`` does for this process.

        Raises:
            UnknownTable: no table has this name.
            UnknownColumn: the table has no such column.
            InvalidValue: a column is named twice; a bad value for ``running``, ``unit``, ``where``, ``order`` or ``limit``.
            StateError: this Schema is closed.
        """
        from pfs._read.frame import frame

        return frame(name, columns, self._source, running=running, unit=unit, where=where, order=order, limit=limit)

    def now(self) -> int:
        """Returns the present time on the time line of the process's events, in picoseconds: see ``pfs.now``.

        For a dead process it is the last moment at which the process is known to have run. That is the beginning or end of its
        newest event, or later if this Schema has seen it alive since then. No system says when a process died.
        """
        return self._source.now()

    def arrow(self, name: TableName | str, columns: Iterable[str] | None = None) -> _core.ArrowTable:
        """Returns the current rows of a table for readers of Arrow, as ``pfs.arrow`` does for this process."""
        return self._source.arrow(str(name), listed(columns))

    def sql(self, statement: str, dialect: Dialect = "duckdb") -> Result:
        """Answers a question in SQL about this process: see ``pfs.sql``."""
        from pfs._sql.query import run
        from pfs._sql.sources import ProcessTables

        return run(statement, ProcessTables(self._source), dialect)

    def view(self, name: str) -> pd.DataFrame:
        """Returns a view of the schema sys as a DataFrame: see ``pfs.view``."""
        from pfs._sql.views.declared import question_of

        return self.sql(question_of(name)).df()

    def describe(self, name: TableName | str | None = None) -> pd.DataFrame:
        """Describes the columns of a table, or all tables: see ``pfs.describe``."""
        from pfs._read.frame import describe, describe_all

        return describe_all() if name is None else describe(name)

    def ddl(self, name: TableName | str) -> str:
        """Returns the CREATE TABLE statement of a table."""
        return _core.ddl(name)

    def truncate(self, name: TableName | str) -> None:
        """Empties a table of events, or sets the counts of a summary to zero, in the process.

        Raises:
            UnknownTable: no table has this name.
            OperationNotAllowed: the table cannot be truncated, or the process was attached without ``write=True``.
            StateError: the process is dead, or this Schema is closed.
        """
        self._source.truncate(name)

    def snapshot(self, path: str | os.PathLike[str] | None = None) -> Snapshot:
        """Reads all tables together: see ``pfs.snapshot``."""
        from pfs._save.snapshot import take

        return take(self._source, self._source.identity, path)

    def close(self) -> None:
        """Closes the segment. Frames and snapshots stay; later reads raise StateError."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Schema of process {self.pid} ({self._source.state}): {self.command or '?'}; {self.path}>"

    def _repr_html_(self) -> str:
        identity = self._source.identity
        started = processes.started(identity)
        rows = [
            ("process", f"{self.pid} ({self._source.state})"),
            ("command", self.command),
            ("started", "?" if started is None else f"{started:%Y-%m-%d %H:%M:%S} UTC"),
            ("version", processes.version(identity)),
            ("segment", self.path),
            ("tables", f"{len(self.tables())}: .tables(), .table(name)"),
        ]
        return show.as_html("Schema", ("", " "), rows)


def attach(source: int | str | os.PathLike[str], write: bool = False) -> Schema:
    """Opens the tables of another process, or those that a dead process has left. Readers only map the file: they change nothing
    and need nothing of the process.

        with pfs.attach(4711) as schema:
            schema.table("events_waits_current")

    Args:
        source: a process id of this pid namespace, which must have a segment in PFS_DIR, else /dev/shm/pfs-<uid> of us or of
            the user that the process belongs to; or the path of a segment: of a container, or of one of several dead processes
            that had one pid. The id of this process gives its own tables; under ``pfs run`` it gives what that has recorded.
        write: makes changes of setup tables and TRUNCATE possible.

    Raises:
        AttachError: there is no such segment, or this version cannot read it. The message lists the segments that there are.
    """
    if isinstance(source, int):
        if source == os.getpid():
            if is_recorded() and (found := recorded(write)) is not None:
                return Schema(found)
            path = _core.segment_path()  # it starts pfs
            if not path:
                reason = setup.status["performance_schema_status_reason"]
                raise AttachError(f"this process has no segment file: {reason or 'PFS_SEGMENT=private'}")
        else:
            path = processes.find(source).path
    else:
        path = os.fspath(source)
    try:
        return Schema(SegmentSource(_core.Segment(path), write))
    except AttachError:
        if refused := owners.refusal(path):
            raise AttachError(refused) from None
        raise
