"""Gives the tables that are served: of a process, of a saved snapshot, or of all processes added up."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pfs import _core
from pfs._process import processes
from pfs._process.attach import attach
from pfs._process.history import tables as history
from pfs._process.history.names import SAMPLES, TOTALS
from pfs._process.history.store import about_of, folders_of
from pfs._save.held import HeldTables
from pfs._sql.query import SYS, Tables
from pfs._sql.sources import ProcessTables
from pfs.errors import AttachError

if TYPE_CHECKING:
    import pandas as pd

    from pfs._process.segment import SegmentSource
    from pfs._save.snapshot import Merged, Snapshot

__all__ = ["All", "One", "Saved", "Source", "source_of"]


class Source(Tables, Protocol):
    """Is what can be served."""

    @property
    def writer(self) -> SegmentSource | None:
        """Makes changes, if they are allowed."""

    @property
    def views(self) -> Mapping[str, str]:
        """Maps full names of views to their SQL."""

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]: ...
    def uptime(self) -> int:
        """Returns seconds, of the oldest process."""

    def hostname(self) -> str: ...


class One(ProcessTables):
    """Serves a process. It stays the same one after its end."""

    views = SYS

    def __init__(self, process: int | str, write: bool) -> None:
        source = attach(process, write)._source
        super().__init__(source)
        self.pid = source.pid
        self.writer = source if write else None

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        return self._source.rows(table, columns)

    def uptime(self) -> int:
        return self._source.now() // 10**12

    def hostname(self) -> str:
        return os.uname().nodename


def _rows(frame: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    chosen = frame[list(columns)].astype(object)
    return list(chosen.where(chosen.notna(), None).itertuples(index=False, name=None))


class Saved(HeldTables):
    """Serves a saved snapshot."""

    writer, views = None, SYS

    def __init__(self, path: str) -> None:
        from pfs._save.snapshot import read_snapshot

        self._snapshot = read_snapshot(path)
        super().__init__(self._snapshot._held)

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        return _rows(self._snapshot[table], columns) if table in self._snapshot else []

    def uptime(self) -> int:
        began = self._snapshot.process.started  # microseconds; 0 in a merged one
        return int(self._snapshot.time.timestamp()) - began // 10**6 if began else 0

    def hostname(self) -> str:
        """Returns the host on which the snapshot was taken. For a cut of ``pfs collect`` it is its node."""
        nodes = {origin.NODE for origin in self._snapshot.origins if "/" not in origin.NODE}  # others are no names
        return self._snapshot.process.host or (nodes.pop() if len(nodes) == 1 else "")


class Sampled:
    """Serves the samples of folders. Each reading has those that came meanwhile, too."""

    writer, views = None, history.VIEWS

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def names(self) -> Sequence[str]:
        return [SAMPLES, TOTALS]

    def columns(self, table: str) -> Sequence[str]:
        return [column["name"] for column in history.columns_of(table)]

    def file(self, table: str) -> str | None:
        return None

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        return history.HistoryTables(self._folders).arrow(table, columns)

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Returns none: the server asks for the tables of a process."""
        return []

    def uptime(self) -> int:
        return 0

    def hostname(self) -> str:
        nodes = {about_of(folder).get("node") for folder in self._folders}
        return str(nodes.pop() or "") if len(nodes) == 1 else ""


class All:
    """Serves all processes: their sums, and rows with NODE, PID and START. Each reading looks for processes again."""

    writer, views = None, SYS

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory

    def names(self) -> Sequence[str]:
        return _core.tables()

    def columns(self, table: str) -> Sequence[str]:
        from pfs._save.frames import ORIGIN, has_sums

        info = _core.table_info(table)
        own = [column["name"] for column in info["columns"]]
        return own if has_sums(info) else [*ORIGIN, *own]

    def file(self, table: str) -> str | None:
        return None

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        return self._merged(table).arrow(table, columns)

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        return _rows(self._merged(table)[table], columns)

    def uptime(self) -> int:
        there = processes.listed(self._directory)
        began = [each.identity.started for each in there if processes.is_alive(each.state) and not each.doubt]
        return max(0, int(time.time()) - min(began) // 10**6) if began else 0

    def hostname(self) -> str:
        return os.uname().nodename

    def _merged(self, table: str) -> Merged:
        from pfs._save.merge import needed
        from pfs._save.snapshot import Snapshot, take

        taken: list[Snapshot] = []
        known = set()
        for found in processes.listed(self._directory):
            if found.doubt:
                continue
            try:
                with attach(found.path) as schema:
                    each = take(schema._source, schema._source.identity, None, needed(table))
            except (AttachError, OSError):
                continue
            if each.origins[0] not in known:  # a second copy of the library has the same origin
                known.add(each.origins[0])
                taken.append(each)
        if not taken:
            raise AttachError(f"no process can be read in {self._directory or processes.default_directory()}")
        return Snapshot.merge(taken)


def source_of(name: int | str, write: bool) -> One | Saved | Sampled:
    """Returns the source that a pid, a segment, a folder or a file names."""
    if folders := folders_of(name):
        return Sampled(folders)
    if isinstance(name, str) and (os.path.isdir(name) or name.endswith(".zip")):
        return Saved(name)
    return One(name, write)
