"""Gives a statement its tables: those of the source, with more rows in some of them, those of information_schema, and those of
replication, which are empty."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pfs._export.serve import replication
from pfs._export.serve.information import Information
from pfs._export.serve.status import ADDED, added_status
from pfs._export.serve.typed_views import typed
from pfs._export.serve.variables import Value, text_of
from pfs._sql.views.declared import VIEWS

if TYPE_CHECKING:
    import pandas as pd

    from pfs._export.serve.sources import Source

__all__ = ["INFORMATION", "Served"]

_PAIR = ["VARIABLE_NAME", "VARIABLE_VALUE"]
INFORMATION = "information_schema."  # a statement names a table of it like this, in one name


class Served:
    """Gives the tables by name."""

    def __init__(self, source: Source, variables: Mapping[str, Value]) -> None:
        """``variables``: of the server."""
        self._source = source
        self._variables = variables
        self._session = variables
        self._views = typed(source.views)
        self.information = Information(source)

    def of(self, session: Mapping[str, Value]) -> Served:
        """Returns the same tables for a client. ``session``: the variables as it sees them."""
        made = copy.copy(self)
        made._session = session
        return made

    @property
    def views(self) -> Mapping[str, str]:
        return self._views

    def names(self) -> Sequence[str]:
        return [*self.information.tables(), *(INFORMATION + name for name in self.information.names())]

    def columns(self, table: str) -> Sequence[str]:
        if table.startswith(INFORMATION):
            return self.information.columns_of(table.removeprefix(INFORMATION))
        if table in replication.TABLES:
            return replication.columns_of(table)
        return _PAIR if table in ADDED else self._source.columns(table)

    def columns_in(self, schema: str, table: str) -> Sequence[str] | None:
        """Returns the columns of a table or view; None if nobody knows them."""
        if schema == "sys":
            return VIEWS[table].columns if table in VIEWS and f"sys.{table}" in self._views else None
        name = INFORMATION + table if schema == "information_schema" else table
        return self.columns(name) if name in self.names() else None

    def file(self, table: str) -> str | None:
        return None

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        from pfs._read.arrow import arrow_of

        if table.startswith(INFORMATION):
            return arrow_of(self.information.frame(table.removeprefix(INFORMATION)), columns)
        if table in replication.TABLES:
            return arrow_of(replication.frame(table), columns)
        if table in ADDED:
            return arrow_of(self._with_added(table), columns)
        return self._source.arrow(table, columns, any_order)

    def _with_added(self, table: str) -> pd.DataFrame:
        import pandas as pd

        from pfs._read.dtypes import TEXT

        found: dict[str, str | None] = {}
        for name, value in self._source.rows(table, _PAIR) if table in self._source.names() else ():
            before = found.get(name) or ""  # of another process
            is_sum = table.endswith("_status") and before.isdecimal() and (value or "").isdecimal()
            found[name] = str(int(before) + int(value)) if is_sum else value
        if table.endswith("_status"):
            found.update(added_status(self._source))
        else:
            chosen = self._session if table.startswith("session") else self._variables
            found.update({name: text_of(value) for name, value in chosen.items()})
        return pd.DataFrame(dict(zip(_PAIR, (pd.array(list(each), dtype=TEXT) for each in (found, found.values())), strict=True)))
