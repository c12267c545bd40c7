"""Chooses, changes, saves and restores rows of a setup table."""

from __future__ import annotations

from pfs import _core
from pfs._read.nearest import hint
from pfs._read.show import some
from pfs._read.source import OWN
from pfs.errors import InvalidValue, OperationNotAllowed, UnknownName
from pfs.setup._rows import Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any, Generic, Self, TypeVar

    import pandas as pd

    from pfs._read.source import Source
    from pfs.setup._rows import Where

    T = TypeVar("T", bound="SetupTable")
else:
    from pfs.setup._rows import Generic

    T = None

__all__ = ["Only", "Saved", "SetupTable"]


def _sql(value: object) -> str | None:
    """Returns a Python value as the text that the table takes."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value)


class Saved:
    """Holds the settings of a setup table at one time, from ``save()``."""

    __module__ = "pfs.setup"  # where users find it

    __slots__ = ("_rows", "_rules", "_table")

    def __init__(self, table: str, rows: dict[tuple[Any, ...], tuple[Any, ...]], rules: Sequence[tuple[Any, ...]] = ()) -> None:
        self._table = table
        self._rows = rows
        self._rules = rules  # of setup_instruments: the rows of setup_instrument_rules

    def __repr__(self) -> str:
        return f"<settings of {some(len(self._rows), 'row')} of {self._table}>"


class Only(Generic[T]):
    """The context manager of ``only()``."""

    def __init__(self, table: T, where: Where, column: str) -> None:
        self._table, self._where, self._column = table, where, column

    def __enter__(self) -> T:
        self._table.__enter__()
        try:
            self._table._update(None, {self._column: False})
            self._table._update(self._where, {self._column: True})
        except BaseException:
            self._table.__exit__(None, None, None)
            raise
        return self._table

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._table.__exit__(kind, error, trace)


class SetupTable:
    """Shows, changes, saves and restores the rows of a setup table.

    A pattern chooses rows. None chooses all. Text is an SQL LIKE pattern on NAME: ``%`` matches any text, ``_`` one character,
    and case does not matter. A dict gives a pattern or value per column: ``{"NAME": "wait/%", "TIMED": True}``. ``where`` is a
    condition, as ``pfs.table`` takes it: ``"TIMED = 'SAMPLED' and NAME like 'wait/%'"``.

    As a context manager it restores all settings at the end of the block.
    """

    __module__ = "pfs.setup"  # where users find it

    name: str

    def __init__(self, source: Source = OWN) -> None:
        self._source = source
        self._declared: _core.TableInfo | None = None
        self._saved: list[Saved] = []

    # The declaration of the table

    def _declaration(self) -> _core.TableInfo:
        if self._declared is None:
            self._declared = _core.table_info(self.name)
        return self._declared

    def _columns(self) -> list[str]:
        return [column["name"] for column in self._declaration()["columns"]]

    def _writable(self) -> list[str]:
        return [column["name"] for column in self._declaration()["columns"] if column["writable"]]

    def _key(self) -> tuple[str, ...]:
        return self._declaration()["key"] or ("NAME",)

    def _name_column(self) -> str:
        columns = self._columns()
        return "NAME" if "NAME" in columns else self._key()[0]

    def _rows(self, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        return self._source.rows(self.name, columns)

    # Choosing rows

    def _conditions(self, where: Where) -> list[tuple[str, str, bool]]:
        if where is None:
            return []
        if isinstance(where, str):
            return [(self._name_column(), where, True)]
        if isinstance(where, int):
            return [(self._key()[0], str(where), False)]
        if not hasattr(where, "items"):
            raise TypeError(
                f"{self.name}: rows are chosen by a name, a pattern, or {{column: value}}, not by {type(where).__name__}"
            )
        conditions = []
        for column, value in where.items():
            text = _sql(value)
            if text is None:
                raise InvalidValue(f"{self.name}: where={{'{column}': None}} is not supported: give a value or a pattern")
            conditions.append((str(column).upper(), text, isinstance(value, str)))
        return conditions

    def _chosen(self, where: Where, rows: Sequence[tuple[Any, ...]]) -> list[int]:
        """Returns the positions of the rows that `where` chooses. REQUIRES: rows with all columns."""
        chosen = range(len(rows))
        columns = self._columns()
        for column, pattern, like in self._conditions(where):
            if column not in columns:
                raise UnknownName(f"{self.name} has no column '{column}'{hint(column, columns)}")
            position = columns.index(column)
            texts = ["" if rows[i][position] is None else str(rows[i][position]) for i in chosen]
            wanted = _core.matches(texts, pattern) if like else [text == pattern for text in texts]
            chosen = [i for i, keep in zip(chosen, wanted, strict=True) if keep]  # type: ignore[assignment]
        return list(chosen)

    def _select(self, where: Where, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        everything = self._columns()
        rows = self._rows(everything)
        positions = [everything.index(column) for column in columns]
        return [tuple(rows[i][p] for p in positions) for i in self._chosen(where, rows)]

    # Changing.

    def _update(self, where: Where, assignments: Mapping[str, object]) -> int:
        values = [(column, _sql(value)) for column, value in assignments.items()]
        return self._source.update(self.name, self._conditions(where), values)

    def update(self, pattern: Where = None, /, *, where: str | Mapping[str, object] | None = None, **columns: object) -> int:
        """Changes columns of the rows that a pattern chooses: ``update("wait/%", enabled=False)``. With ``where`` it changes
        those of them that meet the condition now.

        Returns:
            The number of rows changed.

        Raises:
            TypeError: the table has no such column, or only pfs sets it.
            UnknownColumn: the condition names a column that the table does not have.
            InvalidValue: a bad value for one of the rows, no column at all, or no condition. Nothing is changed.
            OperationNotAllowed: the tables are of another process that was attached without ``write=True``.
        """
        legal = ", ".join(name.lower() for name in self._writable())
        for name in columns:
            if name.upper() not in self._writable():
                raise TypeError(f"{self.name}: '{name}' cannot be set; legal: {legal}")
        given = {name.upper(): value for name, value in columns.items() if value is not None}
        if not given:
            raise InvalidValue(f"nothing to change: give at least one of {legal}")
        if where is None:
            return self._update(pattern, given)
        values = [(column, _sql(value)) for column, value in given.items()]
        saved = self.save()
        keys = self._keys(pattern, where)
        try:
            for key in keys:
                self._source.update(self.name, key, values)
        except BaseException:
            self.restore(saved)
            raise
        return len(keys)

    def _keys(self, pattern: Where, where: str | Mapping[str, object]) -> list[list[tuple[str, str, bool]]]:
        """Returns what chooses each row of a pattern that meets a condition."""
        from pfs._read.where import Condition, places

        columns = self._columns()
        condition = Condition(self.name, columns, where)
        rows = self._rows(columns)
        chosen = [rows[at] for at in self._chosen(pattern, rows)]
        meeting = places({name: [row[at] for row in chosen] for at, name in enumerate(columns)}, len(chosen), condition, [])
        positions = [(column, columns.index(column)) for column in self._key()]
        return [[(column, str(chosen[at][position]), False) for column, position in positions] for at in meeting]

    def __getitem__(self, where: str | int | Mapping[str, object]) -> Rows:
        """Returns the rows that a pattern chooses, to read or set their columns.

        Raises:
            UnknownName: the pattern chooses no row; the message names the nearest one.
        """
        rows = self._rows(self._columns())
        if not self._chosen(where, rows) and not self._may_come(where):
            column = self._name_column()
            names = [str(row[self._columns().index(column)]) for row in rows]
            near = hint(where, names) if isinstance(where, str) else ""
            raise UnknownName(f"{self.name} has no row where {column} is like '{where}'{near}")
        return Rows(self, where)

    def _may_come(self, where: Where) -> bool:
        """Returns whether `where`, which chooses no row now, is a rule for rows that come later."""
        return False

    def save(self) -> Saved:
        """Returns all current settings, for ``restore``."""
        key, writable = self._key(), self._writable()
        return Saved(self.name, {row[: len(key)]: row[len(key) :] for row in self._rows([*key, *writable])})

    def restore(self, saved: Saved) -> int:
        """Restores settings. A table that takes INSERT and DELETE gets the same rows again. In other tables newer rows keep their
        settings and missing rows are skipped.

        Returns:
            The number of rows changed.

        Raises:
            InvalidValue: the settings belong to another table.
        """
        if not isinstance(saved, Saved):
            raise TypeError(f"{self.name}: restore() takes what save() returned, not {type(saved).__name__}")
        if saved._table != self.name:
            raise InvalidValue(f"these are settings of {saved._table}, not of {self.name}")
        key, writable = self._key(), self._writable()
        changed = 0
        there = self.save()._rows
        if self._allows("INSERT") and self._allows("DELETE"):
            for row in [row for row in there if row not in saved._rows]:
                conditions = [(column, str(value), False) for column, value in zip(key, row, strict=True)]
                changed += self._source.delete(self.name, conditions)
            for row, values in saved._rows.items():
                if row not in there:
                    self._source.insert(
                        self.name,
                        [(column, _sql(value)) for column, value in zip([*key, *writable], [*row, *values], strict=True)],
                    )
                    changed += 1
        for now, current in there.items():
            then = saved._rows.get(now, current)
            if then == current:
                continue
            # A NULL setting belongs to rows that cannot have one: it never changes.
            changes = [
                (column, _sql(value))
                for column, value, old in zip(writable, then, current, strict=True)
                if value != old and value is not None
            ]
            conditions = [(column, str(value), False) for column, value in zip(key, now, strict=True)]
            changed += self._source.update(self.name, conditions, changes) if changes else 0
        return changed

    def __enter__(self) -> Self:
        self._saved.append(self.save())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._saved:
            raise RuntimeError(f"{self.name}: __exit__ without __enter__, there is no setting to go back to")
        self.restore(self._saved.pop())

    def insert(self, *_values: object, **columns: object) -> None:
        """Inserts a row, if the table takes rows of users (setup_actors, setup_objects). Other columns get their defaults.

        Values without a name belong to the first columns, as in INSERT ... VALUES: ``insert("%", "joe", "%", "YES")``.

        Raises:
            OperationNotAllowed: only the program adds rows to this table.
            AlreadyExists: there is such a row.
            UnknownColumn, InvalidValue: the table has no such column, or the column does not take the value.
            LimitReached: the table is full.
        """
        if not self._allows("INSERT"):
            self._refuse("INSERT")
        names = self._columns()
        if len(_values) > len(names):
            raise InvalidValue(f"{self.name} has {len(names)} columns, not {len(_values)}: {', '.join(names)}")
        named = {column.upper(): value for column, value in columns.items()}
        for name in names[: len(_values)]:
            if name in named:
                raise InvalidValue(f"{self.name}: {name} is given twice, by its place and by its name")
        given = {**dict(zip(names, _values, strict=False)), **named}
        self._source.insert(self.name, [(column, _sql(value)) for column, value in given.items()])

    def delete(self, pattern: Where = None, /, *, where: str | Mapping[str, object] | None = None) -> int:
        """Removes the rows that a pattern chooses, if the table takes rows of users, or those of them that meet a condition.
        Returns the number of rows removed.

        Raises:
            UnknownColumn, InvalidValue: as for ``update``.
            OperationNotAllowed: only the program removes rows of this table.
        """
        if not self._allows("DELETE"):
            self._refuse("DELETE")
        if where is None:
            return self._source.delete(self.name, self._conditions(pattern))
        return sum(self._source.delete(self.name, key) for key in self._keys(pattern, where))

    def truncate(self) -> None:
        """Removes all rows, if the table takes rows of users, as ``pfs.truncate`` of its name does."""
        self._source.truncate(self.name)

    def _allows(self, operation: str) -> bool:
        return operation in self._declaration()["operations"]

    def _refuse(self, operation: str) -> None:
        legal = ", ".join(self._declaration()["operations"])
        raise OperationNotAllowed(f"{operation} is not allowed on {self.name}: legal are {legal}")

    # Showing.

    def _ipython_key_completions_(self) -> list[str]:
        return [str(row[0]) for row in self._rows([self._name_column()])]

    def frame(self) -> pd.DataFrame:
        """Returns the table as a DataFrame, as ``pfs.table`` of its name does."""
        from pfs._read import frame

        return frame.frame(self.name, None, self._source)

    def _frame_of(self, where: Where) -> pd.DataFrame:
        """Returns the chosen rows as a DataFrame."""
        return self.frame().iloc[self._chosen(where, self._rows(self._columns()))].reset_index(drop=True)

    def __len__(self) -> int:
        return len(self._rows(self._key()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        from pfs._read import show

        columns = self._columns()
        return show.as_text(self.name, columns, self._rows(columns))

    def _repr_html_(self) -> str:
        from pfs._read import show

        columns = self._columns()
        return show.as_html(self.name, columns, self._rows(columns))
