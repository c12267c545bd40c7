"""``pfs.snapshot`` reads all tables of a process together, and keeps them in memory or as Parquet files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pfs import _core, _paths
from pfs._snapshots.foreign import foreign
from pfs._snapshots.held import Columns, Held, HeldTables, declared
from pfs._snapshots.parquet import need_pyarrow, saved_folder, storable
from pfs._source import OWN
from pfs._sql.query import Tables, run
from pfs._sql.sources import FolderTables
from pfs._tables import show
from pfs.errors import InvalidValue, UnknownColumn, UnknownTable

if TYPE_CHECKING:
    import pandas as pd

    from pfs._source import Source
    from pfs._sql.query import Dialect
    from pfs._sql.result import Result

__all__ = [
    "NOBODY",
    "ORIGIN",
    "Frames",
    "Merged",
    "Origin",
    "Process",
    "Snapshot",
    "columns_of",
    "has_sums",
    "is_summary",
    "other_process",
    "read_snapshot",
    "saved_tables",
    "snapshot",
    "summary_of",
    "take",
]

_SUMMARY = "snapshot.json"
_FORMAT = 1


@dataclass(frozen=True)
class Process:
    """Identifies one run of a program. `host`: where it was read; "" if nobody knows."""

    pid: int
    pid_namespace: int
    process_start_ticks: int
    boot_id: str
    started: int
    command: str
    host: str = ""


NOBODY = Process(0, 0, 0, "", 0, "")  # of merged snapshots


class Origin(NamedTuple):
    """Identifies the process that a row of a merged snapshot comes from."""

    NODE: str
    PID: int
    START: int  # clock ticks since the boot


ORIGIN = Origin._fields


def is_summary(table: _core.TableInfo) -> bool:
    """Returns whether a table has columns that add up."""
    return any(column["combine"] == "sum" for column in table["columns"])


def has_sums(table: _core.TableInfo) -> bool:
    """Returns whether ``pfs.merge`` adds the rows of processes up. The rows of other tables stay apart."""
    return is_summary(table) and not any(column["across"] == "local" for column in table["columns"])


def columns_of(snapshot: Snapshot, name: str) -> Columns | None:
    """Returns the columns of a table, without a frame if nobody has asked for it. None if the snapshot lacks the table."""
    return snapshot._held.columns(name) if name in snapshot._held else None


class UnknownKey(UnknownTable, KeyError):
    """There is no table of this name. It is a KeyError too, because mappings raise one."""

    __str__ = Exception.__str__  # KeyError would show the quoted representation


class Frames(Mapping[str, "pd.DataFrame"]):
    """Maps names of tables to frames."""

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self._tables: Mapping[str, pd.DataFrame] = tables if isinstance(tables, Held) else dict(tables)

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self._tables[self._name(name)]

    def __contains__(self, name: object) -> bool:
        try:
            return self._name(str(name)) in self._tables
        except KeyError:
            return False

    def _name(self, name: str) -> str:
        """Returns the name of a table as it is kept: case does not matter."""
        if name in self._tables:
            return name
        try:
            return _core.table_info(str(name))["name"]
        except UnknownTable as error:
            raise UnknownKey(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def _rows(self) -> list[tuple[str, int]]:
        """Returns the names of the tables that are not empty, with the number of their rows."""
        return [(name, len(table)) for name, table in self._tables.items() if len(table)]

    def _title(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return show.as_text(self._title(), ("table", "rows"), self._rows(), limit=1000)

    def _repr_html_(self) -> str:
        return show.as_html(self._title(), ("table", "rows"), self._rows(), limit=1000)


def summary_of(when: str, duration: float, process: Process, rows: Mapping[str, int], lacks_buckets: bool) -> dict[str, object]:
    """Returns what snapshot.json says. `rows`: of each table."""
    return {
        "format": _FORMAT,
        "time": when,
        "duration": duration,
        "process": asdict(process),
        "pfs": _core.__version__,
        "rows": dict(rows),
        **({"lacks_buckets": True} if lacks_buckets else {}),
    }


class Snapshot(Frames):
    """Maps names of tables to DataFrames of all tables of a process, read together. ``pfs.snapshot``, ``Schema.snapshot`` and
    ``pfs.read_snapshot`` return it.

    Attributes:
        time: when the first table was read, UTC.
        duration: seconds until the last one was read.
        pid: the process.
        command: the beginning of its command line.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, tables: Mapping[str, pd.DataFrame], process: Process, when: pd.Timestamp, duration: float) -> None:
        """Is not for users: see ``pfs.snapshot``."""
        self._held = tables if isinstance(tables, Held) else Held(tables)
        super().__init__(self._held)
        self.process = process
        self.time = when
        self.duration = duration
        self._mode = 0o600  # of files: see _paths.mode_of
        self._lacks_buckets = False  # there are no rows of buckets of digests in which nothing was counted

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def command(self) -> str:
        return self.process.command

    @property
    def origins(self) -> list[Origin]:
        """The processes whose rows are here."""
        process = self.process
        return [Origin(f"{process.boot_id}/{process.pid_namespace}", process.pid, process.process_start_ticks)]

    def _rows(self) -> list[tuple[str, int]]:
        return [(name, count) for name in self if (count := self._held.count(name))]

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
        chosen = None if columns is None else [column.upper() for column in columns]
        for column in chosen or ():
            if column not in known:
                raise UnknownColumn(f"{name} has no column '{column}': legal are {', '.join(known.values())}")
        return kept.arrow(None if chosen is None else [known[column] for column in chosen])

    def sql(self, statement: str, dialect: Dialect = "duckdb") -> Result:
        """Answers a question in SQL about this snapshot: see ``pfs.sql``."""
        return run(statement, HeldTables(self._held), dialect)

    def _summary(self, tables: Iterable[str]) -> dict[str, object]:
        """Returns what snapshot.json says about these tables."""
        rows = {name: self._held.count(name) for name in tables}
        return summary_of(self.time.isoformat(), self.duration, self.process, rows, self._lacks_buckets)

    def to_file(self, path: str | os.PathLike[str], summaries: bool = False, sql_text: bool = False) -> None:
        """Writes one file, such as ``x.pfs.zip``, with an Arrow IPC file for each table that has rows. ``pfs.read_snapshot``
        reads it. It is some ten times smaller than a folder.

        Args:
            path: the file, whose name ends in ``.zip``. A file that exists is replaced.
            summaries: only the tables that add up: all that `pfs.merge` adds. Texts that can hold literals are NULL. A file of
                all tables has all texts. Users who may not read the segment may not read the file either.
            sql_text: these summaries with the texts.

        Raises:
            InvalidValue: the name does not end in ``.zip``.
            Error: pyarrow is missing.
        """
        from pfs._snapshots.archive import write_archive

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
        from pfs._tables.frame import as_declared

        need_pyarrow()
        folder = Path(path)
        folder.mkdir(mode=self._mode | 0o100 | (self._mode & 0o044) >> 2, parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / _SUMMARY).exists():
            raise InvalidValue(f"{folder} is not empty and holds no snapshot: give a new folder")
        (folder / _SUMMARY).unlink(missing_ok=True)
        for old in folder.glob("*.parquet"):
            old.unlink()
        for name, table in self.items():
            with _paths.replaced(folder / f"{name}.parquet", self._mode) as file:
                storable(as_declared(name, table)).to_parquet(file, engine="pyarrow", index=False)
        with _paths.replaced(folder / _SUMMARY, self._mode) as file:  # it is written last: a folder with it is complete
            file.write(json.dumps(self._summary(self), indent=1).encode() + b"\n")


class Merged(Snapshot):
    """Holds the snapshots of several processes, added up. ``pfs.merge`` returns it.

    Attributes:
        origins: the processes, as (NODE, PID, START).
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, tables: Mapping[str, pd.DataFrame], origins: list[Origin], when: pd.Timestamp, duration: float) -> None:
        """Is not for users: see ``pfs.merge``."""
        super().__init__(tables, NOBODY, when, duration)
        self._origins = origins

    @property
    def origins(self) -> list[Origin]:
        return self._origins

    def _summary(self, tables: Iterable[str]) -> dict[str, object]:
        return super()._summary(tables) | {"origins": [list(origin) for origin in self._origins]}

    def _title(self) -> str:
        return f"{len(self._origins)} processes, the last read at {self.time:%Y-%m-%d %H:%M:%S} UTC"


def take(
    source: Source,
    process: _core.Identity | Process,
    folder: str | os.PathLike[str] | None,
    names: Iterable[str] | None = None,
) -> Snapshot:
    """Reads all tables of a source, or some, and writes them to `folder` if it is given."""
    from pfs._tables import frame

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
    taken._mode = _paths.mode_of([segment] if segment else [])
    if folder is not None:
        taken.to_folder(folder)
    return taken


def snapshot(folder: str | os.PathLike[str] | None = None) -> Snapshot:
    """Reads all tables of this process one after the other. Each table is exact by itself; the program runs on between them.
    ``pfs.attach(pid).snapshot()`` does it for another process.

    Args:
        folder: also writes the snapshot there, as ``Snapshot.to_folder``.

    Raises:
        Error: a folder was given and pyarrow is missing.
    """
    if path := _core.segment_path():
        return take(OWN, _core.Segment(path).identity, folder)
    return take(OWN, Process(os.getpid(), 0, 0, "", 0, " ".join(sys.orig_argv), os.uname().nodename), folder)


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
        from pfs._snapshots.archive import read_archive

        tables = Held(read_archive(folder, list(saved.rows)), saved.rows)
    else:
        tables = Held(saved_folder(folder, saved.rows), saved.rows)
    read = (
        Merged(tables, saved.origins, saved.time, saved.duration)
        if saved.origins
        else Snapshot(tables, saved.process, saved.time, saved.duration)
    )
    read._mode = _paths.mode_of([folder])
    read._lacks_buckets = saved.lacks_buckets
    return read


def other_process(path: str | os.PathLike[str], process: _core.Identity) -> str:
    """Says what a path holds if it exists and is no snapshot of this process: "holds a snapshot of process 12 (app)". Else ""."""
    folder = Path(path)
    if not folder.exists() or (folder.is_dir() and not (folder / _SUMMARY).exists()):
        return ""  # Snapshot.to_folder refuses a folder with other files
    try:
        saved = _read_summary(folder)
    except InvalidValue:
        return "is no snapshot" if folder.is_file() else ""
    if saved.origins:
        return f"holds the merged snapshots of {len(saved.origins)} processes"
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
    from pfs._snapshots.archive import ArchiveTables

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
    from pfs._tables.frame import moment

    fails = f"holds no snapshot: {_SUMMARY} cannot be read"
    if folder.suffix == ".zip" and not folder.is_dir():
        from pfs._snapshots.archive import read_archive_summary

        summary = read_archive_summary(folder)
    elif not (folder / _SUMMARY).exists():
        raise InvalidValue(f"{folder} holds no snapshot: there is no {_SUMMARY}")
    else:
        with foreign(folder, fails), _paths.reading(folder / _SUMMARY, follow=True) as file:
            summary = json.loads(file.read())
    with foreign(folder, fails):
        if summary["format"] != _FORMAT:
            raise InvalidValue(f"{folder} holds a snapshot of format {summary['format']}, this version reads {_FORMAT}")
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
