"""``pfs.snapshot`` reads all tables of a process together, and keeps them in memory or as Parquet files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pfs import _core
from pfs._snapshots.parquet import as_read, need_pyarrow, storable
from pfs._source import OWN
from pfs._tables import frame, show
from pfs.errors import Error, InvalidValue, UnknownTable

if TYPE_CHECKING:
    from pfs._source import Source

__all__ = ["Frames", "Process", "Snapshot", "read_snapshot", "snapshot", "take"]

_SUMMARY = "snapshot.json"
_FORMAT = 1


@dataclass(frozen=True)
class Process:
    """Identifies one run of a program."""

    pid: int
    pid_namespace: int
    process_start_ticks: int
    boot_id: str
    started: int
    command: str


class UnknownKey(UnknownTable, KeyError):
    """There is no table of this name. It is a KeyError too, because mappings raise one."""

    __str__ = Exception.__str__  # KeyError would show the quoted representation


class Frames(Mapping[str, pd.DataFrame]):
    """Maps names of tables to frames."""

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> pd.DataFrame:
        table = self._tables.get(name)
        if table is None:
            try:
                table = self._tables[_core.table_info(str(name))["name"]]  # case does not matter
            except UnknownTable as error:
                raise UnknownKey(str(error)) from None
        return table

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
        super().__init__(tables)
        self.process = process
        self.time = when
        self.duration = duration

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def command(self) -> str:
        return self.process.command

    def _title(self) -> str:
        return f"Snapshot of process {self.pid} at {self.time:%Y-%m-%d %H:%M:%S} UTC"

    def to_folder(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file for each table, and snapshot.json; ``pfs.read_snapshot`` reads them. Bytes that are no UTF-8 in
        texts (names of files) become ``\\xNN``.

        Raises:
            InvalidValue: the folder has files and is no snapshot.
            Error: pyarrow is missing.
        """
        need_pyarrow()
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / _SUMMARY).exists():
            raise InvalidValue(f"{folder} is not empty and holds no snapshot: give a new folder")
        (folder / _SUMMARY).unlink(missing_ok=True)
        for old in folder.glob("*.parquet"):
            old.unlink()
        for name, table in self.items():
            storable(table).to_parquet(folder / f"{name}.parquet", engine="pyarrow", index=False)
        summary = {
            "format": _FORMAT,
            "time": self.time.isoformat(),
            "duration": self.duration,
            "process": asdict(self.process),
            "pfs": _core.__version__,
            "rows": {name: len(table) for name, table in self.items()},
        }
        (folder / _SUMMARY).write_text(json.dumps(summary, indent=1) + "\n")  # it is written last: a folder with it is complete


def take(source: Source, process: _core.Identity | Process, folder: str | os.PathLike[str] | None) -> Snapshot:
    """Reads all tables of a source, and writes them to `folder` if it is given."""
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
        )
    when = pd.Timestamp(time.time_ns(), unit="ns").floor("us")
    begin = time.perf_counter()
    tables = {name: frame.frame(name, None, source) for name in _core.tables()}
    taken = Snapshot(tables, process, when, time.perf_counter() - begin)
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
    return take(OWN, Process(os.getpid(), 0, 0, "", 0, " ".join(sys.orig_argv)), folder)


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Reads a snapshot that ``to_folder`` has written: the same frames, with the same types.

    Raises:
        InvalidValue: the folder holds no complete snapshot.
        Error: pyarrow is missing.
    """
    folder = Path(path)
    try:
        summary: dict[str, Any] = json.loads((folder / _SUMMARY).read_text())
        if summary["format"] != _FORMAT:
            raise InvalidValue(f"{folder} holds a snapshot of format {summary['format']}, this version reads {_FORMAT}")
        process = Process(**summary["process"])
        when, duration, rows = pd.Timestamp(summary["time"]), float(summary["duration"]), dict(summary["rows"])
    except FileNotFoundError:
        raise InvalidValue(f"{folder} holds no snapshot: there is no {_SUMMARY}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, Error):
            raise
        raise InvalidValue(f"{folder} holds no snapshot: {_SUMMARY} cannot be read ({error})") from None
    need_pyarrow()
    tables = {}
    for name in rows:
        file = folder / f"{os.path.basename(name)}.parquet"
        try:
            tables[name] = as_read(name, pd.read_parquet(file, engine="pyarrow"))
        except (OSError, ValueError) as error:
            raise InvalidValue(f"{file} cannot be read: {error}") from None
    return Snapshot(tables, process, when, duration)
