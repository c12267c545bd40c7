"""Databases: any DB-API 2 module or connection, with a statement for each execution and a transaction for each of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType, TracebackType
from typing import Any

from pfs._core import RunningStatement, RunningTransaction, statement, transaction
from pfs.errors import InvalidValue

# First words of statements that have an instrument of their own; the others are statement/sql/other.
_WORDS = """
alter analyze attach begin call close comment commit copy create deallocate declare delete describe detach do
drop end execute explain fetch grant insert listen load lock merge notify pragma prepare refresh reindex
release replace reset revoke rollback savepoint select set show start table truncate unlock update use vacuum
values with
"""
KEYWORDS = frozenset(_WORDS.split())
_KNOWN_TEXTS = 4096


def first_keyword(sql: str) -> str:
    """The first word of a statement in lower case, behind blanks, comments and parentheses; "other" if it is none of KEYWORDS."""
    at, end = 0, len(sql)
    while at < end:
        if sql[at].isspace() or sql[at] in "(;\ufeff":
            at += 1
        elif sql.startswith("--", at):
            at = sql.find("\n", at)
            at = end if at < 0 else at
        elif sql.startswith("/*", at):
            at = sql.find("*/", at + 2)
            at = end if at < 0 else at + 2
        else:
            break
    stop = at
    while stop < end and sql[stop].isascii() and sql[stop].isalpha():
        stop += 1
    word = sql[at:stop].lower()
    return word if word in KEYWORDS else "other"


class _Session:
    """What the cursors of a connection share: how statements are named, and the transaction."""

    __slots__ = ("active", "keywords", "name", "plain", "schema", "statements", "tells", "transaction")

    def __init__(self, plain: Any, name: str | None, schema: str | None) -> None:
        self.plain, self.name, self.schema = plain, name, schema
        self.tells = hasattr(plain, "in_transaction")  # sqlite3 says itself whether a transaction is active
        self.statements: dict[str, tuple[statement, str]] = {}
        self.keywords: dict[str, statement] = {}
        self.transaction = transaction()
        self.active: RunningTransaction | None = None

    def look_up(self, sql: str) -> tuple[statement, str]:
        keyword = first_keyword(sql)
        name = self.name or f"sql/{keyword}"
        made = self.keywords.get(name)
        if made is None:
            made = self.keywords[name] = statement(name, schema=self.schema)
        if len(self.statements) >= _KNOWN_TEXTS:
            self.statements.clear()
        self.statements[sql] = made, keyword
        return made, keyword

    def is_in_transaction(self) -> bool:
        return bool(self.plain.in_transaction) if self.tells else not getattr(self.plain, "autocommit", False)

    def look(self, keyword: str, failed: bool = False) -> None:
        """After an execution: has it begun, changed or ended a transaction?"""
        active = self.active
        if not self.tells and keyword in ("commit", "end", "rollback"):
            is_in = False
        else:
            is_in = self.is_in_transaction()
        if active is None:
            if is_in:
                self.active = self.transaction.begin()
            return
        if not is_in:
            self.finish(committed=keyword != "rollback" and not failed)
        elif failed:
            pass
        elif keyword == "savepoint":
            active.savepoint()
        elif keyword == "release":
            active.release_savepoint()
        elif keyword == "rollback":
            active.rollback_to_savepoint()

    def finish(self, committed: bool) -> None:
        active, self.active = self.active, None
        if active is not None:
            active.commit() if committed else active.rollback()

    def settle(self, committed: bool) -> None:
        """After commit() and rollback() of the connection."""
        if not self.tells or not self.plain.in_transaction:
            self.finish(committed)


class Proxy:
    """Everything of the plain object, but for what a subclass has. It is taken for one of its class."""

    __slots__ = ("__weakref__", "_plain")
    _plain: Any

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._plain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._plain, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._plain, name)

    def __dir__(self) -> list[str]:
        return dir(self._plain)

    def __repr__(self) -> str:
        return f"<pfs.dbapi of {self._plain!r}>"

    def __eq__(self, other: object) -> bool:
        return bool(self._plain == (other._plain if isinstance(other, Proxy) else other))

    def __hash__(self) -> int:
        return hash(self._plain)


class Rows(Proxy):
    """A cursor whose rows are counted for the statement that it has executed. The statement ends with the last of them."""

    __slots__ = ("_counts_changes", "_rows", "_run")
    _run: RunningStatement | None
    _rows: int
    _counts_changes: bool

    def __init__(self, plain: Any, run: RunningStatement | None, counts_changes: bool) -> None:
        """counts_changes: after the last row, rowcount is the number of rows that the statement has changed."""
        _set_plain(self, plain)
        _set_rows(self, 0)
        _set_run(self, run)
        _set_counts_changes(self, counts_changes)

    def _finish(self) -> None:
        run = self._run
        if run is None:
            return
        _set_run(self, None)
        if self._rows:
            run.rows_sent = self._rows
        if self._counts_changes:
            count = self._plain.rowcount  # INSERT ... RETURNING
            if count > 0:
                run.rows_affected = count
        run.end()

    def _fail(self, error: BaseException) -> None:
        run = self._run
        if run is not None:
            _set_run(self, None)
            if self._rows:
                run.rows_sent = self._rows
            run.end(error)

    def fetchone(self) -> Any:
        try:
            row = self._plain.fetchone()
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            if row is None:
                self._finish()
            else:
                _set_rows(self, self._rows + 1)
        return row

    def fetchmany(self, *args: Any, **kwargs: Any) -> Any:
        try:
            rows = self._plain.fetchmany(*args, **kwargs)
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            if rows:
                _set_rows(self, self._rows + len(rows))
            else:
                self._finish()
        return rows

    def fetchall(self) -> Any:
        try:
            rows = self._plain.fetchall()
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            _set_rows(self, self._rows + len(rows))
            self._finish()
        return rows

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            row = next(self._plain)
        except StopIteration:
            self._finish()
            raise
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            _set_rows(self, self._rows + 1)
        return row

    def close(self) -> Any:
        self._finish()
        return self._plain.close()

    def __enter__(self) -> Any:
        entered = self._plain.__enter__()
        return self if entered is self._plain else entered

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        self._finish()
        return self._plain.__exit__(kind, error, trace)

    def __del__(self) -> None:
        try:
            if self._run is not None:
                self._finish()
        except Exception:  # the connection may be closed
            pass


class Cursor(Rows):
    """A cursor of a watched connection."""

    __slots__ = ("_connection", "_session")
    _connection: Connection
    _session: _Session

    def __init__(self, plain: Any, connection: Connection) -> None:
        # Drivers that do not tell of transactions may count the rows of a SELECT in rowcount.
        super().__init__(plain, None, connection._session.tells)
        _set_connection(self, connection)
        _set_session(self, connection._session)

    @property
    def connection(self) -> Any:
        return self._connection

    def _start(self, sql: Any) -> tuple[RunningStatement, str]:
        if self._run is not None:
            self._finish()
        session = self._session
        if type(sql) is str:
            made, keyword = session.statements.get(sql) or session.look_up(sql)
            return made.begin(sql), keyword
        # What a driver has for a composed statement, or nonsense that it will refuse.
        made, keyword = session.look_up(str(sql) if isinstance(sql, (str, bytes)) or hasattr(sql, "as_string") else "")
        return made.begin(str(sql) if isinstance(sql, (str, bytes)) else None), keyword

    def _execution(self, method: Any, sql: Any, args: Any, kwargs: Any, has_rows: bool = True) -> Any:
        run, keyword = self._start(sql)
        session = self._session
        try:
            result = method(sql, *args, **kwargs)
        except BaseException as error:
            session.look(keyword, failed=True)
            run.end(error)
            raise
        plain = self._plain
        if session.tells:
            if session.plain.in_transaction is (session.active is None) or keyword in ("savepoint", "release", "rollback"):
                session.look(keyword)
        else:
            session.look(keyword)
        if has_rows and plain.description is not None:
            _set_run(self, run)
            _set_rows(self, 0)
            run.suspend()
        else:
            count = plain.rowcount
            if count > 0:
                run.rows_affected = count
            run.end()
        return self if result is plain else result

    def execute(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return self._execution(self._plain.execute, sql, args, kwargs)

    def executemany(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return self._execution(self._plain.executemany, sql, args, kwargs)

    def executescript(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return self._execution(self._plain.executescript, sql, args, kwargs, has_rows=False)

    def callproc(self, name: Any, *args: Any, **kwargs: Any) -> Any:
        method = self._plain.callproc
        return self._execution(lambda _, *a, **k: method(name, *a, **k), f"CALL {name}", args, kwargs)


class Connection(Proxy):
    """A connection whose executions and transactions are seen."""

    __slots__ = ("_session",)
    _session: _Session

    def __init__(self, plain: Any, name: str | None, schema: str | None) -> None:
        _set_plain(self, plain)
        _set_connection_session(self, _Session(plain, name, schema))

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        return Cursor(self._plain.cursor(*args, **kwargs), self)

    def commit(self) -> Any:
        try:
            result = self._plain.commit()
        finally:
            self._session.settle(committed=True)
        return result

    def rollback(self) -> Any:
        try:
            result = self._plain.rollback()
        finally:
            self._session.settle(committed=False)
        return result

    def close(self) -> Any:
        result = self._plain.close()
        self._session.finish(committed=False)
        return result

    def __enter__(self) -> Any:
        entered = self._plain.__enter__()
        return self if entered is self._plain else entered

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        try:
            return self._plain.__exit__(kind, error, trace)
        finally:
            self._session.settle(committed=kind is None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._plain(*args, **kwargs)


class ShortConnection(Connection):
    """One that has what sqlite3 and others have: a cursor and its execution in one."""

    __slots__ = ()

    def execute(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return Cursor(self._plain.cursor(), self).execute(sql, *args, **kwargs)

    def executemany(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return Cursor(self._plain.cursor(), self).executemany(sql, *args, **kwargs)

    def executescript(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return Cursor(self._plain.cursor(), self).executescript(sql, *args, **kwargs)


def _watched(plain: Any, name: str | None, schema: str | None) -> Connection:
    return (ShortConnection if hasattr(plain, "execute") else Connection)(plain, name, schema)


class Module(Proxy):
    """A DB-API module whose connections are watched."""

    __slots__ = ("_name", "_schema")
    _name: str | None
    _schema: str | None

    def __init__(self, plain: Any, name: str | None, schema: str | None) -> None:
        _set_plain(self, plain)
        _set_name(self, name)
        _set_schema(self, schema)

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        plain = self._plain.connect(*args, **kwargs)
        return _watched(plain, self._name, self._schema or _schema_of(plain, args, kwargs))


_set_plain = Proxy.__dict__["_plain"].__set__
_set_connection = Cursor.__dict__["_connection"].__set__
_set_session = Cursor.__dict__["_session"].__set__
_set_run = Rows.__dict__["_run"].__set__
_set_rows = Rows.__dict__["_rows"].__set__
_set_counts_changes = Rows.__dict__["_counts_changes"].__set__
_set_connection_session = Connection.__dict__["_session"].__set__
_set_name = Module.__dict__["_name"].__set__
_set_schema = Module.__dict__["_schema"].__set__


def _schema_of(plain: Any, args: Any, kwargs: Any) -> str | None:
    """The name of the database: what connect() was told, or what the connection says."""
    given: Any = None
    for keyword in ("database", "dbname", "db"):
        given = given or kwargs.get(keyword)
    if given is None and hasattr(plain, "in_transaction") and args:
        given = args[0]
    if given is None and hasattr(plain, "in_transaction"):
        cursor = plain.cursor()
        cursor.row_factory = None
        given = next((row[2] for row in cursor.execute("PRAGMA database_list") if row[1] == "main"), None) or ":memory:"
        cursor.close()
    if given is None:
        info = getattr(plain, "info", None)
        given = getattr(info, "dbname", None) or getattr(plain, "db", None)
    if isinstance(given, bytes):
        given = os.fsdecode(given)
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    return os.path.basename(given) or given if isinstance(given, str) and given else None


def dbapi(module_or_connection: Any, *, name: str | None = None, schema: str | None = None) -> Any:
    """A DB-API 2 module, or a connection, that works as the plain one and shows what it does.

        import sqlite3
        db = pfs.dbapi(sqlite3).connect("shop.db")
        db.execute("SELECT * FROM orders WHERE id = ?", (7,)).fetchall()
        pfs.table("events_statements_summary_by_digest")

    Each execute(), executemany(), executescript() and callproc() is a statement: ``statement/sql/<first keyword>`` (``other`` if
    that is no usual one), with SQL_TEXT, its digest, CURRENT_SCHEMA (name of the database), ROWS_AFFECTED (rowcount) and
    ROWS_SENT (rows that were fetched). One that has rows lasts from its execution to its last row: until a fetch finds no more,
    or the cursor is closed, used again, or gone; what begins meanwhile is not nested in it. An exception is an error of the
    statement, with the number that the driver gives it, and goes on untouched.

    Transactions are rows of ``events_transactions_*`` from the statement that begins one (a connection with ``in_transaction``
    says so; others begin one with their first statement, as DB-API wants it) to commit() or rollback(), or to the statement that
    does so. Closing the connection rolls back. A statement in a transaction has it as its parent. ``SAVEPOINT``,
    ``RELEASE`` and ``ROLLBACK TO`` count in it.

    All other attributes, also those that are set, are those of the plain object, whose class it is for ``isinstance``; results
    and exceptions are its. Connections and cursors are as thread-safe as the plain ones; a statement and a transaction count
    in the
    thread that began them, and are lost (``Performance_schema_locker_lost``) if another one ends them.

    Args:
        module_or_connection: with connect(), or with cursor().
        name: the instrument of all statements instead: "component/name", such as "sql/reports".
        schema: CURRENT_SCHEMA instead of what the connection says.

    Raises:
        TypeError: it has neither connect() nor cursor().
        InvalidValue: the name breaks the rules of instrument names.
    """
    if name is not None:
        statement(name)
    if schema is not None and not isinstance(schema, str):
        raise InvalidValue(f"bad schema {schema!r}: legal is a str, or None")
    if callable(getattr(module_or_connection, "cursor", None)):
        return _watched(module_or_connection, name, schema or _schema_of(module_or_connection, (), {}))
    if isinstance(module_or_connection, ModuleType) or callable(getattr(module_or_connection, "connect", None)):
        return Module(module_or_connection, name, schema)
    raise TypeError(f"{module_or_connection!r} is no DB-API module and no connection: it has neither connect() nor cursor()")
