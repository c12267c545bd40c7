"""Sources of tables: this process, or an attached segment (pfs.attach)."""

from __future__ import annotations

import os

from pfs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    Conditions = Sequence[tuple[str, str, bool]]
    Assignments = Sequence[tuple[str, str | None]]

    class Rows(Protocol):
        """Reads rows of tables."""

        @property
        def pid(self) -> int: ...
        # elapsed: running events get TIMER_END = now and TIMER_WAIT = the time so far; now: None asks the timer.
        def now(self) -> int: ...
        def rows(
            self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
        ) -> list[tuple[Any, ...]]: ...

    class Source(Rows, Protocol):
        """Reads and changes tables. Setup tables, mappings and frames use it. Arguments and results are those of pfs._core."""

        def read(
            self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
        ) -> tuple[int, int, list[_core.Part]]: ...
        # any_order: nobody sees the order of the rows, so that events need not be sorted.
        def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> _core.ArrowTable: ...
        def update(self, table: str, conditions: Conditions, assignments: Assignments) -> int: ...
        def insert(self, table: str, values: Assignments) -> None: ...
        def delete(self, table: str, conditions: Conditions) -> int: ...
        def truncate(self, table: str) -> None: ...


__all__ = ["OF_PFS", "OWN", "OwnProcess", "losses"]

OF_PFS = "Performance_schema_"  # begins the status variables of pfs: others are the program's


class OwnProcess:
    """Reads and changes the tables of this process."""

    @property
    def pid(self) -> int:
        return os.getpid()

    def now(self) -> int:
        return _core.now(None)

    def read(
        self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
    ) -> tuple[int, int, list[_core.Part]]:
        return _core.read(table, columns, None, elapsed, now)

    def rows(
        self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
    ) -> list[tuple[Any, ...]]:
        return _core.rows(table, columns, None, elapsed, now)

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> _core.ArrowTable:
        return _core.arrow(table, columns, None, any_order=any_order)

    def update(self, table: str, conditions: Conditions, assignments: Assignments) -> int:
        return _core.update(table, conditions, assignments)

    def insert(self, table: str, values: Assignments) -> None:
        _core.insert(table, values)

    def delete(self, table: str, conditions: Conditions) -> int:
        return _core.delete(table, conditions)

    def truncate(self, table: str) -> None:
        _core.truncate(table)


OWN = OwnProcess()


def losses(source: Rows) -> dict[str, int]:
    """Returns how many events, objects and rows could not be recorded since the start, by status variable of pfs."""
    rows = source.rows("global_status", ("VARIABLE_NAME", "VARIABLE_VALUE"))
    return {name: int(count) for name, count in rows if name.startswith(OF_PFS) and name.endswith("_lost") and count is not None}
