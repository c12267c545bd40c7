"""The setup tables as writable objects, and variables and status as mappings.

    pfs.setup_instruments.update(where="wait/io/file/%", timed=False)     # -> rows changed
    pfs.setup_instruments["wait/synch/mutex/myapp/%"].enabled = False
    pfs.setup_actors.insert(user="joe", enabled=False)
    with pfs.setup_instruments.only("wait/io/file/%"):                    # put back at the end of the block
        ...

Changes act at once, on running threads as well. What is not legal raises, changes nothing and names what is legal.
"""

from __future__ import annotations

from collections.abc import Mapping

from pfs import _core, _show
from pfs._source import OWN
from pfs.errors import InvalidValue, OperationNotAllowed, UnknownName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Any, Generic, Literal, Self, TypeVar, overload

    import pandas as pd

    from pfs._source import Source

    Where = str | int | Mapping[str, object] | None
    Flag = bool | str
    R = TypeVar("R", bound="Rows")
    T = TypeVar("T", bound="SetupTable[Any]")
else:
    # Without typing at run time (it is slow to import) a generic class is a class that can be subscripted.
    class Generic:
        def __class_getitem__(cls, _item):
            return cls

    R = T = Self = Any = None

    def overload(function):
        return function


__all__ = [
    "Rows",
    "SetupTable",
    "option_text",
    "setup_actors",
    "setup_consumers",
    "setup_instruments",
    "setup_loggers",
    "setup_meters",
    "setup_objects",
    "setup_threads",
    "setup_timers",
    "status",
    "threads",
    "variables",
]


def _sql(value: object) -> str | None:
    """A Python value as the text that the table takes."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value)


def _nearest(name: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    folded = {known.lower(): known for known in names}
    found = get_close_matches(name.lower(), folded, n=1, cutoff=0.0)
    return folded[found[0]] if found else ""


class YesNo:
    """A column of 'YES' and 'NO'. Read: a bool if all rows agree, else None. Written: True, False, 'YES' or 'NO'."""

    def __init__(self, column: str) -> None:
        self.column = column

    @overload
    def __get__(self, rows: None, owner: type[Rows]) -> Self: ...
    @overload
    def __get__(self, rows: Rows, owner: type[Rows]) -> bool | None: ...
    def __get__(self, rows: Rows | None, owner: type[Rows]) -> Self | bool | None:
        if rows is None:
            return self
        value = rows._common(self.column)
        return None if value is None else value == "YES"

    def __set__(self, rows: Rows, value: bool | str) -> None:
        rows._assign(self.column, value)


class Timed:
    """TIMED of instruments: 'YES', 'NO' and, of locks that can be tried first, 'CONTENDED'. Read: a bool or "CONTENDED" if all
    rows agree, else None. Written: True, False or one of the words."""

    def __init__(self, column: str) -> None:
        self.column = column

    @overload
    def __get__(self, rows: None, owner: type[Rows]) -> Self: ...
    @overload
    def __get__(self, rows: Rows, owner: type[Rows]) -> bool | Literal["CONTENDED"] | None: ...
    def __get__(self, rows: Rows | None, owner: type[Rows]) -> Self | bool | str | None:
        if rows is None:
            return self
        value = rows._common(self.column)
        if value is None:
            return None
        return "CONTENDED" if value == "CONTENDED" else bool(value == "YES")

    def __set__(self, rows: Rows, value: bool | str) -> None:
        rows._assign(self.column, value)


class Word:
    """A column of text. Read: the text if all rows agree, else None."""

    def __init__(self, column: str) -> None:
        self.column = column

    @overload
    def __get__(self, rows: None, owner: type[Rows]) -> Self: ...
    @overload
    def __get__(self, rows: Rows, owner: type[Rows]) -> str | None: ...
    def __get__(self, rows: Rows | None, owner: type[Rows]) -> Self | str | None:
        return self if rows is None else rows._common(self.column)

    def __set__(self, rows: Rows, value: str) -> None:
        rows._assign(self.column, value)


class Number:
    """A column of whole numbers. Read: the number if all rows agree, else None."""

    def __init__(self, column: str) -> None:
        self.column = column

    @overload
    def __get__(self, rows: None, owner: type[Rows]) -> Self: ...
    @overload
    def __get__(self, rows: Rows, owner: type[Rows]) -> int | None: ...
    def __get__(self, rows: Rows | None, owner: type[Rows]) -> Self | int | None:
        return self if rows is None else rows._common(self.column)

    def __set__(self, rows: Rows, value: int) -> None:
        rows._assign(self.column, value)


class Rows:
    """The rows of a setup table that a pattern chose. They are read and changed at the moment of use."""

    __slots__ = ("_table", "_where")
    _table: SetupTable[Any]
    _where: Where

    def __init__(self, table: SetupTable[Any], where: Where) -> None:
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_where", where)

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(getattr(type(self), name, None), YesNo | Timed | Word | Number):
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
        """These rows as a DataFrame."""
        from pfs import _frame

        chosen = self._table._chosen(self._where, self._table._rows(self._table._columns()))
        return _frame.frame(self._table.name, None, self._table._source).iloc[chosen].reset_index(drop=True)

    def __repr__(self) -> str:
        columns = self._table._columns()
        return _show.as_text(self._table.name, columns, self._table._select(self._where, columns))

    def _repr_html_(self) -> str:
        columns = self._table._columns()
        return _show.as_html(self._table.name, columns, self._table._select(self._where, columns))


class InstrumentRows(Rows):
    """Rows of setup_instruments."""

    __slots__ = ()
    enabled = YesNo("ENABLED")
    timed = Timed("TIMED")
    trace_enabled = YesNo("TRACE_ENABLED")


class ConsumerRows(Rows):
    """Rows of setup_consumers."""

    __slots__ = ()
    enabled = YesNo("ENABLED")


class ObjectRows(Rows):
    """Rows of setup_objects."""

    __slots__ = ()
    enabled = YesNo("ENABLED")
    timed = YesNo("TIMED")


class TimerRows(Rows):
    """Rows of setup_timers."""

    __slots__ = ()
    timer_name = Word("TIMER_NAME")


class ActorRows(Rows):
    """Rows of setup_actors."""

    __slots__ = ()
    enabled = YesNo("ENABLED")
    history = YesNo("HISTORY")
    trace_enabled = YesNo("TRACE_ENABLED")


class ThreadClassRows(Rows):
    """Rows of setup_threads."""

    __slots__ = ()
    enabled = YesNo("ENABLED")
    history = YesNo("HISTORY")


class MeterRows(Rows):
    """Rows of setup_meters."""

    __slots__ = ()
    enabled = YesNo("ENABLED")
    frequency = Number("FREQUENCY")


class LoggerRows(Rows):
    """Rows of setup_loggers."""

    __slots__ = ()
    level = Word("LEVEL")


class ThreadRows(Rows):
    """Rows of threads."""

    __slots__ = ()
    instrumented = YesNo("INSTRUMENTED")
    history = YesNo("HISTORY")


class Saved:
    """The settings of a setup table at one time, from ``save()``."""

    __slots__ = ("_rows", "_table")

    def __init__(self, table: str, rows: dict[tuple[Any, ...], tuple[Any, ...]]) -> None:
        self._table = table
        self._rows = rows

    def __repr__(self) -> str:
        return f"<settings of {len(self._rows)} rows of {self._table}>"


class _Only(Generic[T]):
    """Context manager of ``only()``."""

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


class SetupTable(Generic[R]):
    """A setup table: shows itself, is updated in place, can be saved and restored.

    ``where`` chooses rows: None is all; text is an SQL LIKE pattern on NAME (``%`` any text, ``_`` one character, upper and lower
    case the same); a dict gives a pattern or value per column: ``{"NAME": "wait/%", "TIMED": True}``.

    Used as a context manager it puts all settings back at the end of the block.
    """

    name: str
    rows_type: type[R]

    def __init__(self, source: Source = OWN) -> None:
        self._source = source
        self._facts: _core.TableFacts | None = None
        self._saved: list[Saved] = []

    # Facts of the table, from its declaration.

    def _table_facts(self) -> _core.TableFacts:
        if self._facts is None:
            self._facts = _core.facts(self.name)
        return self._facts

    def _columns(self) -> list[str]:
        return [column["name"] for column in self._table_facts()["columns"]]

    def _writable(self) -> list[str]:
        return [column["name"] for column in self._table_facts()["columns"] if column["writable"]]

    def _key(self) -> tuple[str, ...]:
        return self._table_facts()["key"]

    def _name_column(self) -> str:
        columns = self._columns()
        return "NAME" if "NAME" in columns else self._key()[0]

    def _rows(self, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        return self._source.rows(self.name, columns)

    # Choosing rows.

    def _conditions(self, where: Where) -> list[tuple[str, str, bool]]:
        if where is None:
            return []
        if isinstance(where, str):
            return [(self._name_column(), where, True)]
        if isinstance(where, int):
            return [(self._key()[0], str(where), False)]
        conditions = []
        for column, value in where.items():
            text = _sql(value)
            if text is None:
                raise InvalidValue(f"{self.name}: where={{'{column}': None}} is not supported: give a value or a pattern")
            conditions.append((str(column).upper(), text, isinstance(value, str)))
        return conditions

    def _chosen(self, where: Where, rows: Sequence[tuple[Any, ...]]) -> list[int]:
        """Positions of the rows that `where` chooses. REQUIRES: rows with all columns."""
        chosen = range(len(rows))
        columns = self._columns()
        for column, pattern, like in self._conditions(where):
            if column not in columns:
                raise UnknownName(f"{self.name} has no column '{column}': the nearest is '{_nearest(column, columns)}'")
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

    def _update_given(self, where: Where, **columns: object) -> int:
        given = {name.upper(): value for name, value in columns.items() if value is not None}
        if not given:
            raise InvalidValue(f"nothing to change: give at least one of {', '.join(name for name in columns)}")
        return self._update(where, given)

    def __getitem__(self, where: str | int | Mapping[str, object]) -> R:
        """The rows that a pattern chooses, to read or set their columns.

        Raises:
            UnknownName: the pattern chooses no row; the message names the nearest one.
        """
        rows = self._rows(self._columns())
        if not self._chosen(where, rows):
            column = self._name_column()
            names = [str(row[self._columns().index(column)]) for row in rows]
            hint = f": the nearest is '{_nearest(where, names)}'" if isinstance(where, str) and names else ""
            raise UnknownName(f"{self.name} has no row where {column} is like '{where}'{hint}")
        return self.rows_type(self, where)

    def save(self) -> Saved:
        """All settings as they are now, for ``restore``."""
        key, writable = self._key(), self._writable()
        return Saved(self.name, {row[: len(key)]: row[len(key) :] for row in self._rows([*key, *writable])})

    def restore(self, saved: Saved) -> int:
        """Puts settings back. Where rows can be inserted and deleted the table has the same rows again; elsewhere rows that
        came later stay as they are and rows that are gone are skipped.

        Returns:
            Rows changed.

        Raises:
            InvalidValue: the settings are those of another table.
        """
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
        """A new row, where the table takes rows of the user's own (setup_actors, setup_objects). Columns that are not given
        have their defaults.

        Raises:
            OperationNotAllowed: this table has the rows that the program gives it.
            AlreadyExists: there is such a row.
            UnknownColumn, InvalidValue: the table has no such column, or the column does not take the value.
            LimitReached: the table is full.
        """
        if _values or not self._allows("INSERT"):
            self._refuse("INSERT" if not self._allows("INSERT") else "INSERT without names of columns")
        self._source.insert(self.name, [(column.upper(), _sql(value)) for column, value in columns.items()])

    def delete(self, where: Where = None) -> int:
        """Removes the rows that `where` chooses, where the table takes rows of the user's own. Returns the number of rows
        removed.

        Raises:
            OperationNotAllowed: this table has the rows that the program gives it.
        """
        if not self._allows("DELETE"):
            self._refuse("DELETE")
        return self._source.delete(self.name, self._conditions(where))

    def truncate(self) -> None:
        """Removes all rows, where the table takes rows of the user's own: ``pfs.truncate`` of its name."""
        self._source.truncate(self.name)

    def _allows(self, operation: str) -> bool:
        return operation in self._table_facts()["operations"]

    def _refuse(self, operation: str) -> None:
        legal = ", ".join(self._table_facts()["operations"])
        raise OperationNotAllowed(f"{operation} is not allowed on {self.name}: legal are {legal}")

    # Showing.

    def frame(self) -> pd.DataFrame:
        """The table as a DataFrame: ``pfs.table`` of its name."""
        from pfs import _frame

        return _frame.frame(self.name, None, self._source)

    def __len__(self) -> int:
        return len(self._rows(self._key()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        columns = self._columns()
        return _show.as_text(self.name, columns, self._rows(columns))

    def _repr_html_(self) -> str:
        columns = self._columns()
        return _show.as_html(self.name, columns, self._rows(columns))


class SetupInstruments(SetupTable[InstrumentRows]):
    """What is watched: one row per instrument."""

    name = "setup_instruments"
    rows_type = InstrumentRows

    def update(
        self,
        where: Where = None,
        *,
        enabled: Flag | None = None,
        timed: Flag | None = None,
        flags: str | None = None,
        trace_enabled: Flag | None = None,
    ) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed.

        `timed`: True, False, or "CONTENDED" for mutexes and rwlocks (``wait/synch/mutex/%``, ``wait/synch/rwlock/%``): they are
        tried first. One that is free is counted as a wait of zero, without a reading of the timer and without a row in
        ``events_waits_*``; one that must be waited for is an event as with True. ``pfs.Lock`` and other locks whose waits begin
        and end in two calls cannot be tried: they are timed as with True. Ignored for what has no duration (memory, errors).
        `trace_enabled` is legal for instruments that are enabled, and does nothing for those that make no events.

        Raises:
            InvalidValue: "CONTENDED" for something that is no such lock, or ``trace_enabled`` for something that is not enabled;
                also if that is only one of the rows chosen. Nothing is changed.
        """
        return self._update_given(where, enabled=enabled, timed=timed, flags=flags, trace_enabled=trace_enabled)

    def only(self, where: Where) -> _Only[SetupInstruments]:
        """A block in which only these instruments are enabled; all settings are put back at its end."""
        return _Only(self, where, "ENABLED")


class SetupConsumers(SetupTable[ConsumerRows]):
    """Where events go: one row per consumer. A consumer works only if the ones above it are on as well."""

    name = "setup_consumers"
    rows_type = ConsumerRows

    def update(self, where: Where = None, *, enabled: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled)


class SetupTimers(SetupTable[TimerRows]):
    """Which timer each class of events is timed with: names of ``performance_timers``."""

    name = "setup_timers"
    rows_type = TimerRows

    def update(self, where: Where = None, *, timer_name: str | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, timer_name=timer_name)


class SetupObjects(SetupTable[ObjectRows]):
    """Which tables of the program are watched: the row of its type, schema and name counts, else that of (type, schema, '%'),
    else that of (type, '%', '%'); without one it is not. Text instead of a dict is a pattern on OBJECT_SCHEMA; ``\\%`` is the
    name '%'.

        pfs.setup_objects.insert(object_schema="shop", object_name="orders", timed=False)      # a row for TABLE
    """

    name = "setup_objects"
    rows_type = ObjectRows

    def _name_column(self) -> str:
        return "OBJECT_SCHEMA"

    def update(self, where: Where = None, *, enabled: Flag | None = None, timed: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, timed=timed)


class SetupActors(SetupTable[ActorRows]):
    """Whose threads are instrumented: asked when a thread begins to work for somebody; running threads stay as they are. Only
    TRACE_ENABLED, whether they are traced, acts at once.

    ``insert(host="%", user="%", role="%", enabled=True, history=True, trace_enabled=False)``: each may be left out. ``%`` in
    a row means any, and there are no roles. A pattern instead of a dict is one of HOST; ``where={"USER": r"\\%"}`` chooses the
    rows for any user.
    """

    name = "setup_actors"
    rows_type = ActorRows

    def update(
        self,
        where: Where = None,
        *,
        enabled: Flag | None = None,
        history: Flag | None = None,
        trace_enabled: Flag | None = None,
    ) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, history=history, trace_enabled=trace_enabled)


class SetupThreads(SetupTable[ThreadClassRows]):
    """The thread instruments: whether their new threads are instrumented."""

    name = "setup_threads"
    rows_type = ThreadClassRows

    def update(self, where: Where = None, *, enabled: Flag | None = None, history: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, history=history)


class SetupMeters(SetupTable[MeterRows]):
    """Groups of metrics: whether and how often (in seconds, 1 to 16777215) the program is to read them."""

    name = "setup_meters"
    rows_type = MeterRows

    def update(self, where: Where = None, *, enabled: Flag | None = None, frequency: int | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, frequency=frequency)


class SetupLoggers(SetupTable[LoggerRows]):
    """Loggers of the program: the least important messages that they are to pass on: none, error, warn, info, debug."""

    name = "setup_loggers"
    rows_type = LoggerRows

    def _key(self) -> tuple[str, ...]:
        return ("NAME",)

    def update(self, where: Where = None, *, level: str | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, level=level)


class Threads(SetupTable[ThreadRows]):
    """The threads of the program. An int instead of a pattern is a THREAD_ID."""

    name = "threads"
    rows_type = ThreadRows

    def update(self, where: Where = None, *, instrumented: Flag | None = None, history: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, instrumented=instrumented, history=history)


class Values(Mapping[str, "int | str"]):
    """A table of VARIABLE_NAME and VARIABLE_VALUE as a read-only mapping, always as it is now.

    Upper and lower case are the same, and ``performance_schema_`` in front may be left out. Whole numbers are int.
    """

    def __init__(self, table: str, source: Source = OWN) -> None:
        self._table = table
        self._source = source

    def _read(self) -> dict[str, int | str]:
        rows = self._source.rows(self._table, ("VARIABLE_NAME", "VARIABLE_VALUE"))
        return {name: _number(value) for name, value in rows}

    def __getitem__(self, name: str) -> int | str:
        values = self._read()
        wanted = str(name).lower()
        for known, value in values.items():
            if known.lower() in (wanted, "performance_schema_" + wanted):
                return value
        raise UnknownKey(f"{self._table} has no '{name}': the nearest is '{_nearest(str(name), list(values))}'")

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def frame(self) -> pd.DataFrame:
        """The table as a DataFrame."""
        from pfs import _frame

        return _frame.frame(self._table, None, self._source)

    def __repr__(self) -> str:
        return _show.as_text(self._table, ("VARIABLE_NAME", "VARIABLE_VALUE"), list(self._read().items()), limit=1000)

    def _repr_html_(self) -> str:
        return _show.as_html(self._table, ("VARIABLE_NAME", "VARIABLE_VALUE"), list(self._read().items()), limit=1000)


class UnknownKey(UnknownName, KeyError):
    """No variable of this name. A KeyError too, as mappings raise it."""

    __str__ = Exception.__str__  # KeyError would show the quoted representation


def _number(value: str | None) -> int | str:
    if value is None:
        return ""
    return int(value) if value.isascii() and value.removeprefix("-").isdigit() else value


def option_text(options: Mapping[str, bool | int | str]) -> str:
    """The options of ``pfs.configure`` in the form of PFS_OPTIONS.

    Raises:
        InvalidValue: a value that cannot be written there.
    """
    entries = []
    for name, value in options.items():
        full = name if name.lower().startswith("performance_schema") else "performance_schema_" + name
        if isinstance(value, bool):
            text = "ON" if value else "OFF"
        elif isinstance(value, int | str):
            text = str(value)
        else:
            raise InvalidValue(f"bad value {value!r} for option '{name}': legal are True, False, numbers and text")
        if any(c in text for c in "'\"\r\n"):
            raise InvalidValue(f"bad value {text!r} for option '{name}': quotes and line ends are not allowed")
        entries.append(f"{full}='{text}'")
    return ",".join(entries)


setup_instruments = SetupInstruments()
setup_consumers = SetupConsumers()
setup_objects = SetupObjects()
setup_timers = SetupTimers()
setup_actors = SetupActors()
setup_threads = SetupThreads()
setup_meters = SetupMeters()
setup_loggers = SetupLoggers()
threads = Threads()
variables = Values("global_variables")
status = Values("global_status")
