"""Shows what happened in each table since a test began, for the fixture ``pfs_schema``."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pfs import _core
from pfs._base import paths
from pfs._process.recorded import hidden
from pfs._read import frame
from pfs._save.diff import EVENT, table_diff
from pfs._save.parquet import storable
from pfs._ui.testing.children import followed
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pfs._names import TableName
    from pfs._read.source import Source
    from pfs._ui.testing.children import Children

    Read = tuple[int, int, list[_core.Part]]

__all__ = ["FORMS", "View"]

FORMS = ("parquet", "csv")

# Reading these takes long, or makes the program work. A comparison that may not be wanted must not read them.
_NOT_COMPARED = {
    "performance_timers": "the reader measures it",
    "data_locks": "each reading asks the program's engines",
    "data_lock_waits": "each reading asks the program's engines",
}


@cache
def _columns(table: str) -> list[str] | None:
    """Returns the columns that a later comparison needs: the key of a table of events; None, which is all, of other tables."""
    return list(EVENT) if set(EVENT) <= {column["name"] for column in _core.table_info(table)["columns"]} else None


@cache
def _is_counted(table: str) -> bool:
    """Returns whether a table begins empty in a forked child: summaries and tables of events do."""
    return _columns(table) is not None or any(column["combine"] == "sum" for column in _core.table_info(table)["columns"])


def _same(one: Read, two: Read) -> bool:
    return one[0] == two[0] and all(np.array_equal(a[i], b[i]) for a, b in zip(one[2], two[2], strict=True) for i in (3, 4, 5))


class _Since:
    """Holds all tables of a process as the core returned them. Frames are made only of the tables that are used."""

    def __init__(self, source: Source, pid: int, is_new: bool = False) -> None:
        self.source = source
        self.pid = pid
        self.is_new = is_new  # a child that was forked later: its tables began empty
        self.tables: dict[str, Read] = {}
        if not is_new:
            for name in _core.tables():
                if name not in _NOT_COMPARED:
                    self.tables[name] = source.read(name, _columns(name))

    def changed(self, name: str) -> bool:
        return not _same(self.tables[name], self.source.read(name, _columns(name)))

    def diff(self, name: str) -> pd.DataFrame:
        after = frame.frame(name, None, self.source)
        before = after.iloc[:0] if self.is_new else frame.made(*self.tables[name])
        return table_diff(_core.table_info(name), before, after)


class View:
    """Shows what happened in this process since the test began.

    All threads of the process count, also those that have ended and those that do not belong to the test. Forked children have
    their own tables, which ``children=True`` adds.
    """

    def __init__(self, children: Children | None = None) -> None:
        """Is not for users: the fixture calls it."""
        self._children = children
        self.restart()

    @hidden()
    def restart(self) -> None:
        """Makes the current state the beginning."""
        self._since = _Since(followed().sources()[-1], os.getpid())
        self._children_since: dict[str, _Since] = {}
        self._children_now(are_new=False)

    def _children_now(self, are_new: bool = True) -> Iterable[_Since]:
        """Yields the children that run or have left their segment. Children that were forked since the beginning are new."""
        for child in self._children.there() if self._children is not None else ():
            if child.path not in self._children_since:
                source = child.source()
                if source is not None:
                    self._children_since[child.path] = _Since(source, source.pid, are_new)
        return self._children_since.values()

    def _name(self, table: str) -> str:
        name = _core.table_info(str(table))["name"]
        if name in _NOT_COMPARED:
            raise InvalidValue(f"{name} has no difference: {_NOT_COMPARED[name]}; pfs.table('{name}') reads it")
        return name

    @hidden()
    def table(self, name: TableName | str, *, children: bool = False) -> pd.DataFrame:
        """Returns what happened in a table since the test began. As in ``Snapshot.diff`` there is a column CHANGE, and only rows
        in which something happened; a table of events has only its new events.

        Args:
            name: one of ``pfs.tables()`` except performance_timers, data_locks and data_lock_waits.
            children: adds the children that were forked since the session began (``os.fork``, multiprocessing with "fork") and
                their children, running or ended. The first column is PID then.

        Raises:
            UnknownTable: no table has this name.
            InvalidValue: there is no difference of this table.
        """
        name = self._name(name)
        own = self._since.diff(name)
        if not children:
            return own
        parts = [own.assign(PID=np.uint64(self._since.pid))]
        for since in self._children_now():
            parts.append(since.diff(name).assign(PID=np.uint64(since.pid)))
        full = [part for part in parts if len(part)]
        both = pd.concat(full, ignore_index=True) if full else parts[0]
        return both[["PID", *(column for column in both.columns if column != "PID")]]

    def events(self, name: TableName | str = "events_waits_history_long", *, children: bool = False) -> pd.DataFrame:
        """Returns the events of this test that a table of events still has. A history keeps the last events of all threads, by
        default 1,000 to 10,000, so take counts and sums from the summaries.

        Raises:
            UnknownTable: no table has this name.
            InvalidValue: it is no table of events.
        """
        name = self._name(name)
        if _columns(name) is None:
            legal = ", ".join(table for table in _core.tables() if _columns(table) is not None)
            raise InvalidValue(f"{name} has no events: legal are {legal}")
        return self.table(name, children=children)

    @hidden()
    def changed(self) -> list[str]:
        """Returns the tables of this process in which something happened."""
        return [name for name in self._since.tables if self._since.changed(name)]

    @hidden()
    def to_folder(self, path: str | os.PathLike[str], form: str, summary: dict[str, Any]) -> None:
        """Writes a file for each table in which something happened, and test.json with `summary`. Summaries and events include
        those of children."""
        folder = Path(path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for end in FORMS:
            for old in folder.glob(f"*.{end}"):
                old.unlink()
        changed, counted = set(self.changed()), set(filter(_is_counted, self._since.tables))
        has_children = len(list(self._children_now())) > 0
        rows = {}
        for name in sorted(changed | counted if has_children else changed):
            table = storable(self.table(name, children=name in counted))
            if len(table) == 0:
                continue
            rows[name] = len(table)
            with paths.replaced(folder / f"{name}.{form}") as file:
                if form == "csv":
                    table.to_csv(file, index=False)
                else:
                    table.to_parquet(file, engine="pyarrow", index=False)
        with paths.replaced(folder / "test.json") as file:
            file.write(json.dumps({**summary, "pfs": _core.__version__, "rows": rows}, indent=1).encode() + b"\n")

    def __repr__(self) -> str:
        return f"<what happened in this test: {', '.join(self.changed()) or 'nothing'}>"


def folder_name(test: str) -> str:
    """Returns a readable and unique name of a folder for a test."""
    from hashlib import sha256

    return (
        f"{re.sub(r'[^A-Za-z0-9_.=-]+', '_', test).strip('._')[-150:]}-{sha256(test.encode('utf-8', 'replace')).hexdigest()[:8]}"
    )
