"""Reads and sets columns of the rows of a setup table as attributes."""

from __future__ import annotations

from pfs.errors import OperationNotAllowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Generic, Literal, Protocol, Self, TypeVar, overload

    import pandas as pd

    Where = str | int | Mapping[str, object] | None
    T = TypeVar("T")

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

    T = None

    def overload(function):
        return function


__all__ = ["Column", "Generic", "Rows", "is_timed", "is_yes"]


class Column(Generic[T]):
    """A column of a setup table as an attribute of its rows.

    Reading returns the value if all rows have the same one, else None. Setting assigns a value, or its text, to all rows.
    """

    def __init__(self, column: str, decode: Callable[[Any], T]) -> None:
        """`decode` makes a Python value of a value of the table."""
        self.column = column
        self._decode = decode

    @overload
    def __get__(self, rows: None, owner: type[Rows]) -> Self: ...
    @overload
    def __get__(self, rows: Rows, owner: type[Rows]) -> T | None: ...
    def __get__(self, rows: Rows | None, owner: type[Rows]) -> Self | T | None:
        if rows is None:
            return self
        value = rows._common(self.column)
        return None if value is None else self._decode(value)

    def __set__(self, rows: Rows, value: T | str) -> None:
        rows._assign(self.column, value)


def is_yes(value: Any) -> bool:
    """Decodes a column of YES and NO."""
    return bool(value == "YES")


def is_timed(value: Any) -> bool | Literal["CONTENDED", "SAMPLED"]:
    """Decodes TIMED of instruments, which may also be CONTENDED or SAMPLED."""
    return value if value in {"CONTENDED", "SAMPLED"} else is_yes(value)


class Rows:
    """Selects the rows of a setup table that match a pattern. Each use reads or changes the table itself."""

    __module__ = "pfs.setup"  # where users find it

    __slots__ = ("_table", "_where")
    _table: Table
    _where: Where

    def __init__(self, table: Table, where: Where) -> None:
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_where", where)

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(getattr(type(self), name, None), Column):
            legal = ", ".join(column.lower() for column in self._table._writable())
            raise OperationNotAllowed(f"{self._table.name}: '{name}' cannot be set; legal: {legal}")
        object.__setattr__(self, name, value)

    def _common(self, column: str) -> Any:
        values = {row[0] for row in self._table._select(self._where, (column,))}
        return values.pop() if len(values) == 1 else None

    def _assign(self, column: str, value: object) -> None:
        self._table._update(self._where, {column: value})

    def __len__(self) -> int:
        return len(self._table._select(self._where, self._table._key()))

    def frame(self) -> pd.DataFrame:
        """Returns these rows as a DataFrame."""
        return self._table._frame_of(self._where)

    def __repr__(self) -> str:
        from pfs._tables import show

        columns = self._table._columns()
        return show.as_text(self._table.name, columns, self._table._select(self._where, columns))

    def _repr_html_(self) -> str:
        from pfs._tables import show

        columns = self._table._columns()
        return show.as_html(self._table.name, columns, self._table._select(self._where, columns))
