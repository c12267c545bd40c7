"""Reads and sets columns of the rows of a setup table as attributes."""

from __future__ import annotations

from pfs.errors import OperationNotAllowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Generic, Protocol

    import pandas as pd

    Where = str | int | Mapping[str, object] | None

    class Table(Protocol):
        """The part of SetupTable that its rows use."""

        name: str

        def _columns(self) -> list[str]: ...
        def _writable(self) -> list[str]: ...
        def _key(self) -> tuple[str, ...]: ...
        def _select(self, where: Where, columns: Sequence[str]) -> list[tuple[Any, ...]]: ...
        def _update(self, where: Where, assignments: Mapping[str, object]) -> int: ...
        def _frame_of(self, where: Where) -> pd.DataFrame: ...
else:

    class Generic:
        """Replaces typing.Generic at run time, because importing typing is slow: a class that can be subscripted."""

        def __class_getitem__(cls, _item):
            return cls


__all__ = ["Generic", "Rows"]


class Rows:
    """Selects the rows of a setup table that match a pattern. Each use reads or changes the table itself."""

    __module__ = "pfs.setup"  # where users find it

    __slots__ = ("_table", "_where")
    _table: Table
    _where: Where

    def __init__(self, table: Table, where: Where) -> None:
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_where", where)

    def __getattr__(self, name: str) -> Any:
        """Returns the value of a column if all rows have the same one, else None. YES and NO are bool."""
        if name.upper() not in self._table._writable() or name != name.lower():
            raise AttributeError(f"{self._table.name}: there is no '{name}'; legal: {self._legal()}")
        value = self._common(name.upper())
        return {"YES": True, "NO": False}.get(value, value)

    def __setattr__(self, name: str, value: object) -> None:
        """Assigns a value, or its text, to a column of all rows."""
        if name.upper() not in self._table._writable() or name != name.lower():
            raise OperationNotAllowed(f"{self._table.name}: '{name}' cannot be set; legal: {self._legal()}")
        self._table._update(self._where, {name.upper(): value})

    def _legal(self) -> str:
        return ", ".join(column.lower() for column in self._table._writable())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(column.lower() for column in self._table._writable())]

    def _common(self, column: str) -> Any:
        values = {row[0] for row in self._table._select(self._where, (column,))}
        return values.pop() if len(values) == 1 else None

    def __len__(self) -> int:
        return len(self._table._select(self._where, self._table._key()))

    def frame(self) -> pd.DataFrame:
        """Returns these rows as a DataFrame."""
        return self._table._frame_of(self._where)

    def __repr__(self) -> str:
        from pfs._read import show

        columns = self._table._columns()
        return show.as_text(self._table.name, columns, self._table._select(self._where, columns))

    def _repr_html_(self) -> str:
        from pfs._read import show

        columns = self._table._columns()
        return show.as_html(self._table.name, columns, self._table._select(self._where, columns))
