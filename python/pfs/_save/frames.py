"""Maps of tables to frames, and what identifies the processes whose tables they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from pfs import _core
from pfs._read import show
from pfs._save.held import Columns, Held
from pfs.errors import UnknownTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FORMAT",
    "NOBODY",
    "ORIGIN",
    "Frames",
    "Origin",
    "Process",
    "Reading",
    "columns_of",
    "has_sums",
    "is_summary",
    "summary_of",
]

FORMAT = 1


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
    """Returns whether ``Snapshot.merge`` adds the rows of processes up. The rows of other tables stay apart."""
    return is_summary(table) and not any(column["across"] == "local" for column in table["columns"])


def columns_of(snapshot: Reading, name: str) -> Columns | None:
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
        "format": FORMAT,
        "time": when,
        "duration": duration,
        "process": asdict(process),
        "pfs": _core.__version__,
        "rows": dict(rows),
        **({"lacks_buckets": True} if lacks_buckets else {}),
    }


class Reading(Frames):
    """The tables of a process, read together: what a snapshot is, without what it can do."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], process: Process, when: pd.Timestamp, duration: float) -> None:
        """Is not for users: see ``pfs.snapshot``."""
        self._held = tables if isinstance(tables, Held) else Held(tables)
        super().__init__(self._held)
        self.process = process
        self.time = when
        self.duration = duration
        self._mode = 0o600  # of files: see paths.mode_of
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
