"""``pfs.snapshot`` reads all tables of a process together, and keeps them in memory or as Parquet files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pfs import _core
from pfs._base import paths
from pfs._read import show
from pfs._read.kinds import listed
from pfs._read.nearest import hint
from pfs._read.source import OWN
from pfs._save.diff import Diff
from pfs._save.foreign import foreign
from pfs._save.frames import FORMAT, NOBODY, Origin, Process, Reading, is_summary, summary_of
from pfs._save.held import Columns, Held, HeldTables, declared
from pfs._save.parquet import need_pyarrow, saved_folder, storable
from pfs._save.places import SUMMARY
from pfs._sql.query import Tables, run
from pfs._sql.sources import FolderTables
from pfs._sql.views.declared import question_of
from pfs.errors import InvalidValue, UnknownColumn

if TYPE_CHECKING:
    import pandas as pd

    from pfs._names import TableName
    from pfs._read.source import Source
    from pfs._read.units import Unit
    from pfs._save.diff import Diff
    from pfs._sql.query import Dialect
    from pfs._sql.result import Result

__all__ = ["Merged", "Snapshot", "other_process", "read_snapshot", "saved_tables", "snapshot", "take"]


class Snapshot(Reading):
    """Maps names of tables to DataFrames of all tables of a process, read together. ``pfs.snapshot``, ``Schema.snapshot`` and
    ``pfs.read_snapshot`` return it.

    Attributes:
        time: when the first table was read, UTC.
        duration: seconds until the last one was read.
        pid: the process.
        command: the beginning of its command line.
    """

    __module__ = "pfs"  # where users find it

    def _title(self) -> str:
        return f"Snapshot of process {self.pid} at {self.time:%Y-%m-%d %H:%M:%S} UTC"

    def arrow(self, name: str, columns: Iterable[str] | None = None) -> _core.ArrowTable:
        """Returns the rows of a table for readers of Arrow: see ``pfs.arrow``.

        Raises:
            UnknownTable: the snapshot has no such table.
            UnknownColumn: the table has no such column.
        """
        kept = self._held.columns(self._name(name))
        known = {column.upper(): column for column in kept.names()}
        wanted = listed(columns)
        chosen = None if wanted is None else [column.upper() for column in wanted]
        for column in chosen or ():
            if column not in known:
                legal = list(known.values())
                near = hint(column, legal, is_listed=True)
                raise UnknownColumn(f"{name} has no column '{column}'{near}; legal are {', '.join(legal)}")
        return kept.arrow(None if chosen is None else [known[column] for column in chosen])

    def table(
        self,
        name: TableName | str,
        columns: Iterable[str] | None = None,
        *,
        unit: Unit | None = None,
        where: str | Mapping[str, object] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Returns rows of a table, as ``pfs.table`` does for this process. ``snapshot[name]`` has all of them.

        Raises:
            UnknownTable: the snapshot has no such table.
            UnknownColumn: the table has no such column.
            InvalidValue: a bad value for ``unit``, ``where``, ``order`` or ``limit``.
        """
        from pfs._read.frame import chosen

        return chosen(self[name], self._name(name), columns, unit=unit, where=where, order=order, limit=limit)

    def view(self, name: str) -> pd.DataFrame:
        """Returns a view of the schema sys as a DataFrame: see ``pfs.view``."""
        return self.sql(question_of(name)).df()

    def sql(self, statement: str, dialect: Dialect = "duckdb") -> Result:
        """Answers a question in SQL about this snapshot: see ``pfs.sql``."""
        return run(statement, HeldTables(self._held), dialect)

    def diff(self, after: Snapshot) -> Diff:
        """Compares this snapshot with a later one of the same process: ``before.diff(after)``.

        Returns:
            A frame for each table that both snapshots have. It is made when it is first asked for.

            Summaries (tables with columns that add up) have a row for each row in which something happened, with the counts and
            sums of the time between, and AVG_* computed from them. Other columns (names, amounts in use) are those of `after`.
            MIN_*, MAX_*, LOW_*, HIGH_* and quantiles do not follow from a difference, and are left out. A sum of times that has
            reached its largest value, 213 days, stays there, so its difference is NULL.

            CHANGE is ``changed``; ``new`` for rows that are only in `after`; ``gone`` for rows that are only here (their later
            counts are not known: NULL); ``reset`` for rows whose counts have become smaller, because of TRUNCATE or another
            object at the same address. Counts of a ``reset`` row begin at the reset. A row that was emptied and has passed its
            old counts since then looks like ``changed``.

            Tables of events have the events that are in `after` and not here. Other tables have rows that are ``new``, ``gone``
            or ``changed``, with a column ``<name>_BEFORE`` for each column that changed in any row.

        Raises:
            TypeError: `after` is no snapshot.
            InvalidValue: these are snapshots of two processes, or of two runs with one process id; or `after` is the earlier.
        """
        from pfs._save.diff import diff

        return diff(self, after)

    @staticmethod
    def merge(snapshots: Iterable[Snapshot], nodes: Sequence[str] | None = None) -> Merged:
        """Adds up snapshots of several processes. The result is a snapshot, which can be merged again in any order.

        A summary without identities of one process has a row for each key: counts and sums add up, MIN_* and MAX_* are the
        extremes, AVG_* and quantiles are computed again. LOW_* and HIGH_* add up to a bound, because the extremes of two
        processes need not have been at one moment. A sum that does not fit into its type stays at the largest value. All other
        tables have the rows of all processes, with the columns NODE, PID and START (in clock ticks since the boot) in front.

        Args:
            snapshots: of different processes. What a process did before it ended is in a snapshot of its segment, too.
            nodes: names for NODE, one for each snapshot; None takes the boot id and the pid namespace of each process.

        Raises:
            InvalidValue: there is no snapshot; a process is in two of them; or `nodes` has another length.
            TypeError: an argument is no snapshot.
        """
        from pfs._save.merge import merge

        given = list(snapshots)
        tables, origins = merge(given, nodes)
        merged = Merged(tables, origins, max(each.time for each in given), max(each.duration for each in given))
        merged._mode = reduce(and_, (each._mode for each in given))
        merged._lacks_buckets = any(each._lacks_buckets for each in given)
        return merged

    def _summary(self, tables: Iterable[str]) -> dict[str, object]:
        """Returns what snapshot.json says about these tables."""
        rows = {name: self._held.count(name) for name in tables}
        return summary_of(self.time.isoformat(), self.duration, self.process, rows, self._lacks_buckets)

    def to_file(self, path: str | os.PathLike[str], summaries: bool = False, sql_text: bool = False) -> None:
        """Writes one file, such as ``x.pfs.zip``, with an Arrow IPC file for each table that has rows. ``pfs.read_snapshot``
        reads it. It is some ten times smaller than a folder.

        Args:
            path: the file, whose name ends in ``.zip``. A file that exists is replaced.
            summaries: only the tables that add up, as in `merge`. Texts that can hold literals are NULL. A file of
                all tables has all texts. Users who may not read the segment may not read the file either.
            sql_text: these summaries with the texts.

        Raises:
            InvalidValue: the name does not end in ``.zip``.
            Error: pyarrow is missing.
        """
        from pfs._save.archive import write_archive

        if Path(path).suffix != ".zip":
            raise InvalidValue(f"bad name '{os.fspath(path)}' for a snapshot in one file: legal is a name that ends in .zip")
        chosen = [name for name in self if not summaries or is_summary(declared(name))]
        tables = {name: self._held.columns(name) for name in chosen if self._held.count(name)}
        if summaries and not sql_text:
            tables = {name: columns.without_literals(name) for name, columns in tables.items()}
        write_archive(path, self._summary(chosen), tables, self._mode)

    def to_folder(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file for each table, and snapshot.json; ``pfs.read_snapshot`` reads them. Bytes that are no UTF-8 in
        texts (names of files) become ``\\xNN``. Users who may not read the segment may not read a new folder or its files either.

        Raises:
            InvalidValue: the folder has files and is no snapshot.
            Error: pyarrow is missing.
        """
        from pfs._read.frame import as_declared

        need_pyarrow()
        folder = Path(path)
        folder.mkdir(mode=self._mode | 0o100 | (self._mode & 0o044) >> 2, parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / SUMMARY).exists():
            raise InvalidValue(f"{folder} is not empty and holds no snapshot: give a new folder")
        (folder / SUMMARY).unlink(missing_ok=True)
        for old in folder.glob("*.parquet"):
            old.unlink()
        for name, table in self.items():
            with paths.replaced(folder / f"{name}.parquet", self._mode) as file:
                storable(as_declared(name, table)).to_parquet(file, engine="pyarrow", index=False)
        with paths.replaced(folder / SUMMARY, self._mode) as file:  # it is written last: a folder with it is complete
            file.write(json.dumps(self._summary(self), indent=1).encode() + b"\n")


class Merged(Snapshot):
    """Holds the snapshots of several processes, added up. ``Snapshot.merge`` returns it.

    Attributes:
        origins: the processes, as (NODE, PID, START).
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, tables: Mapping[str, pd.DataFrame], origins: list[Origin], when: pd.Timestamp, duration: float) -> None:
        """Is not for users: see ``Snapshot.merge``."""
        super().__init__(tables, NOBODY, when, duration)
        self._origins = origins

    @property
    def origins(self) -> list[Origin]:
        return self._origins

    def _summary(self, tables: Iterable[str]) -> dict[str, object]:
        return super()._summary(tables) | {"origins": [list(origin) for origin in self._origins]}

    def _title(self) -> str:
        return f"{show.some(len(self._origins), 'process')}, the last read at {self.time:%Y-%m-%d %H:%M:%S} UTC"


def take(
    source: Source,
    process: _core.Identity | Process,
    folder: str | os.PathLike[str] | None,
    names: Iterable[str] | None = None,
) -> Snapshot:
    """Reads all tables of a source, or some, and writes them to `folder` if it is given."""
    from pfs._read import frame

    if folder is not None:
        need_pyarrow()  # fails before the work
    if not isinstance(process, Process):
        process = Process(
            process.pid,
            process.pid_namespace,
            process.process_start_ticks,
            process.boot_id,
            process.started,
            show.command_text(process.command),
            os.uname().nodename,
        )
    when = frame.moment(time.time_ns())
    begin = time.perf_counter()
    read = {name: source.read(name, None) for name in names or _core.tables()}
    duration = time.perf_counter() - begin
    facts = frame.reading(source)
    tables = {name: Columns(rows, parts, {"table": name, "unit": "ps", **facts}) for name, (rows, _, parts) in read.items()}
    taken = Snapshot(Held(tables, cells=frame.cells_of_notebook() if source is OWN else None), process, when, duration)
    segment = _core.segment_path() if source is OWN else getattr(source, "path", None)
    taken._mode = paths.mode_of([segment] if segment else [])
    if folder is not None:
        taken.to_folder(folder)
    return taken


def snapshot(path: str | os.PathLike[str] | None = None) -> Snapshot:
    """Reads all tables of this process one after the other. Each table is exact by itself; the program runs on between them.
    ``pfs.attach(pid).snapshot()`` does it for another process.

    Args:
        path: also writes the snapshot to this folder, as ``Snapshot.to_folder``.

    Raises:
        Error: a folder was given and pyarrow is missing.
    """
    if segment := _core.segment_path():
        return take(OWN, _core.Segment(segment).identity, path)
    return take(OWN, Process(os.getpid(), 0, 0, "", 0, " ".join(sys.orig_argv), os.uname().nodename), path)


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Reads a snapshot that ``to_folder`` or ``to_file`` has written: the same frames, with the same types.

    Raises:
        InvalidValue: the folder or file holds no complete snapshot, or would take too much memory.
        Error: pyarrow is missing.
    """
    folder = Path(path)
    saved = _read_summary(folder)
    need_pyarrow()
    if folder.is_file():
        from pfs._save.archive import read_archive

        tables = Held(read_archive(folder, list(saved.rows)), saved.rows)
    else:
        tables = Held(saved_folder(folder, saved.rows), saved.rows)
    read = (
        Merged(tables, saved.origins, saved.time, saved.duration)
        if saved.origins
        else Snapshot(tables, saved.process, saved.time, saved.duration)
    )
    read._mode = paths.mode_of([folder])
    read._lacks_buckets = saved.lacks_buckets
    return read


def other_process(path: str | os.PathLike[str], process: _core.Identity) -> str:
    """Says what a path holds if it exists and is no snapshot of this process: "holds a snapshot of process 12 (app)". Else ""."""
    folder = Path(path)
    if not folder.exists() or (folder.is_dir() and not (folder / SUMMARY).exists()):
        return ""  # Snapshot.to_folder refuses a folder with other files
    try:
        saved = _read_summary(folder)
    except InvalidValue:
        return "is no snapshot" if folder.is_file() else ""
    if saved.origins:
        return f"holds the merged snapshots of {show.some(len(saved.origins), 'process')}"
    there = saved.process
    if (there.pid, there.pid_namespace, there.process_start_ticks, there.boot_id) == (
        process.pid,
        process.pid_namespace,
        process.process_start_ticks,
        process.boot_id,
    ):
        return ""
    return f"holds a snapshot of process {there.pid} ({there.command[:60]}) of {saved.time:%Y-%m-%d %H:%M:%S} UTC"


def saved_tables(folder: Path) -> Tables:
    """Returns the tables of a saved snapshot for questions in SQL. DuckDB reads those of a folder directly.

    Raises:
        InvalidValue: the folder holds no complete snapshot.
    """
    saved = _read_summary(folder)
    if folder.is_dir():
        return FolderTables(str(folder), list(saved.rows))
    from pfs._save.archive import ArchiveTables

    return ArchiveTables(str(folder), list(saved.rows))


class _Saved(NamedTuple):
    """Holds what snapshot.json says."""

    process: Process
    time: pd.Timestamp
    duration: float
    rows: dict[str, int]
    origins: list[Origin]
    lacks_buckets: bool


def _read_summary(folder: Path) -> _Saved:
    from pfs._read.frame import moment

    fails = f"holds no snapshot: {SUMMARY} cannot be read"
    if folder.suffix == ".zip" and not folder.is_dir():
        from pfs._save.archive import read_archive_summary

        summary = read_archive_summary(folder)
    elif not (folder / SUMMARY).exists():
        raise InvalidValue(f"{folder} holds no snapshot: there is no {SUMMARY}")
    else:
        with foreign(folder, fails), paths.reading(folder / SUMMARY, follow=True) as file:
            summary = json.loads(file.read())
    with foreign(folder, fails):
        if summary["format"] != FORMAT:
            raise InvalidValue(f"{folder} holds a snapshot of format {summary['format']}, this version reads {FORMAT}")
        said = summary["process"]
        process = Process(
            int(said["pid"]),
            int(said["pid_namespace"]),
            int(said["process_start_ticks"]),
            str(said["boot_id"]),
            int(said["started"]),
            str(said["command"]),
            str(said.get("host", "")),
        )
        when = moment(summary["time"])
        return _Saved(
            process,
            when,
            float(summary["duration"]),
            {str(name): int(count) for name, count in dict(summary["rows"]).items()},
            [Origin(str(node), int(pid), int(start)) for node, pid, start in summary.get("origins", ())],
            bool(summary.get("lacks_buckets")),
        )
