"""Gives a statement its tables: those of the source, with more rows in some of them, those of information_schema, and those of
replication, which are empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pfs._serve import replication
from pfs._serve.information import Information
from pfs._serve.status import added_status, added_variables

if TYPE_CHECKING:
    import pandas as pd

    from pfs._serve.sources import Source

__all__ = ["INFORMATION", "Served"]

INFORMATION = "information_schema."  # a statement names a table of it like this, in one name
_ADDED = {"global_status": added_status, "session_status": added_status, "global_variables": added_variables}
_ADDED["session_variables"] = added_variables


class Served:
    """Gives the tables by name."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.information = Information(source)

    def names(self) -> Sequence[str]:
        return [*self._source.names(), *replication.TABLES, *(INFORMATION + name for name in self.information.names())]

    def columns(self, table: str) -> Sequence[str]:
        if table.startswith(INFORMATION):
            return self.information.columns_of(table.removeprefix(INFORMATION))
        if table in replication.TABLES:
            return replication.columns_of(table)
        return self._source.columns(table)

    def file(self, table: str) -> str | None:
        return None

    def arrow(self, table: str, columns: Sequence[str] | None) -> object:
        from pfs._arrow.frames import arrow_of

        if table.startswith(INFORMATION):
            return arrow_of(self.information.frame(table.removeprefix(INFORMATION)), columns)
        if table in replication.TABLES:
            return arrow_of(replication.frame(table), columns)
        if table in _ADDED:
            return arrow_of(self._with_added(table), columns)
        return self._source.arrow(table, columns)

    def _with_added(self, table: str) -> pd.DataFrame:
        import pandas as pd

        from pfs._tables.frame import TEXT

        names = ["VARIABLE_NAME", "VARIABLE_VALUE"]
        found = dict(self._source.rows(table, names))
        found.update(_ADDED[table](self._source))
        return pd.DataFrame({names[0]: pd.array(list(found), dtype=TEXT), names[1]: pd.array(list(found.values()), dtype=TEXT)})
