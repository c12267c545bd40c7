"""``pfs.dbapi`` wraps any DB-API 2 module or connection, and records its statements and transactions."""

from __future__ import annotations

import os
from types import ModuleType, TracebackType
from typing import Any

from pfs._core import RunningStatement, statement
from pfs._record.dbapi.dialects import dialect_of_connection
from pfs._record.dbapi.rows import Proxy, Rows, set_counts_changes, set_plain, set_rows, set_run
from pfs._record.dbapi.transactions import CONTROL, Transactions
from pfs.errors import InvalidValue

# First words of statements that have an instrument of their own; the others are statement/sql/other.
_WORDS = """
abort alter analyze attach begin call close comment commit copy create deallocate declare delete describe detach do
drop end execute explain fetch grant insert listen load lock merge notify pragma prepare refresh reindex
release replace reset revoke rollback savepoint select set show start table truncate unlock update use vacuum
values with
"""
KEYWORDS = frozenset(_WORDS.split())
_KNOWN_TEXTS = 4096
# After the last row of one of these, rowcount is the number of rows that it has changed: INSERT ... RETURNING.
_CHANGES = frozenset(("delete", "insert", "merge", "replace", "update"))
# The effect of methods of connections on the transaction. A method that only sets something may commit.
_METHODS = {
    **dict.fromkeys(("autocommit", "set_autocommit", "set_isolation_level", "set_session"), "commit"),
    **dict.fromkeys(("tpc_commit", "tpc_prepare"), "commit"),
    **dict.fromkeys(("ping", "reconnect", "reset"), "rollback"),
    **dict.fromkeys(("change_user", "cmd_change_user", "reset_session", "tpc_rollback"), "end"),
    **dict.fromkeys(("begin", "start_transaction", "tpc_begin"), "begin"),
}


def first_keyword(sql: str) -> str:
    """Returns the first word of a statement in lower case, after blanks, comments and parentheses; "other" if not in KEYWORDS."""
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
    """Holds what the cursors of a connection share: the names of statements, and the transaction."""

    __slots__ = ("dialect", "keywords", "name", "schema", "statements", "transactions")

    def __init__(self, plain: Any, name: str | None, schema: str | None, dialect: str | None) -> None:
        self.name, self.schema, self.dialect = name, schema, dialect or dialect_of_connection(plain)
        self.statements: dict[str, tuple[statement, str]] = {}
        self.keywords: dict[str, statement] = {}
        self.transactions = Transactions(plain)

    def look_up(self, sql: str) -> tuple[statement, str]:
        keyword = first_keyword(sql)
        name = self.name or f"sql/{keyword}"
        made = self.keywords.get(name)
        if made is None:
            made = self.keywords[name] = statement(name, schema=self.schema, dialect=self.dialect)
        if len(self.statements) >= _KNOWN_TEXTS:
            self.statements.clear()
        self.statements[sql] = made, keyword
        return made, keyword


def _text(sql: Any) -> str:
    """Returns the text of an argument of execute(): text, bytes or a composed statement; "" for anything else."""
    if isinstance(sql, str):
        return sql
    if isinstance(sql, (bytes, bytearray)):
        return sql.decode("utf-8", "replace")
    return str(sql) if hasattr(sql, "as_string") else ""


class Cursor(Rows):
    """Records the statements of a cursor."""

    __slots__ = ("_connection", "_session")
    _connection: Connection
    _session: _Session

    def __init__(self, plain: Any, connection: Connection) -> None:
        super().__init__(plain, None, connection._session.transactions.is_sqlite)
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
        made, keyword = session.look_up(_text(sql))
        return made.begin(_text(sql) or None), keyword

    def _execution(self, method: Any, sql: Any, args: Any, kwargs: Any, has_rows: bool = True) -> Any:
        run, keyword = self._start(sql)
        transactions = self._session.transactions
        will_commit = keyword not in CONTROL or transactions.will_commit()
        try:
            result = method(sql, *args, **kwargs)
        except BaseException as error:
            transactions.update(keyword, _text(sql), error)
            run.end(error)
            raise
        plain = self._plain
        if keyword in CONTROL or transactions.changed():
            transactions.update(keyword, _text(sql), None, will_commit, plain.description is not None)
        if has_rows and plain.description is not None:
            set_run(self, run)
            set_rows(self, 0)
            set_counts_changes(self, transactions.is_sqlite or keyword in _CHANGES)
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
        connection = self._connection
        # sqlite3 commits the transaction that is active before it runs a script, unless PEP 249's autocommit says how.
        if connection._session.transactions.active is not None and getattr(connection._plain, "autocommit", -1) == -1:
            connection.commit()
        return self._execution(self._plain.executescript, sql, args, kwargs, has_rows=False)

    def callproc(self, name: Any, *args: Any, **kwargs: Any) -> Any:
        method = self._plain.callproc
        return self._execution(lambda _, *a, **k: method(name, *a, **k), f"CALL {name}", args, kwargs)


class Connection(Proxy):
    """Records the transactions of a connection. Its cursors record statements."""

    __slots__ = ("_session",)
    _session: _Session

    def __init__(self, plain: Any, name: str | None, schema: str | None, dialect: str | None) -> None:
        set_plain(self, plain)
        _set_connection_session(self, _Session(plain, name, schema, dialect))

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        return Cursor(self._plain.cursor(*args, **kwargs), self)

    def _ending(self, committed: bool, method: Any, *args: Any, **kwargs: Any) -> Any:
        transactions = self._session.transactions
        committed = transactions.before_end() and committed
        try:
            result = method(*args, **kwargs)
        except BaseException as error:
            transactions.end(committed, error)
            raise
        transactions.end(committed)
        return result

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        return self._ending(True, self._plain.commit, *args, **kwargs)

    def rollback(self, *args: Any, **kwargs: Any) -> Any:
        return self._ending(False, self._plain.rollback, *args, **kwargs)

    def close(self) -> Any:
        result = self._plain.close()
        self._session.transactions.finish(committed=False)
        return result

    def _block(self, plain: Any) -> Any:
        return Block(plain, self._session.transactions) if hasattr(plain, "__enter__") else plain

    def __getattr__(self, name: str) -> Any:
        found = Proxy.__getattr__(self, name)
        if name == "backup":
            return lambda target, *args, **kwargs: found(target._plain if isinstance(target, Proxy) else target, *args, **kwargs)
        if name == "transaction":
            return lambda *args, **kwargs: self._block(found(*args, **kwargs))
        effect = _METHODS.get(name)
        if effect is None or not callable(found):
            return found
        transactions = self._session.transactions

        def method(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            if effect == "begin":
                transactions.update("begin")
            elif effect == "end":
                transactions.finish(committed=False)
            else:
                transactions.ended_by(committed=effect == "commit")
            return result

        return method

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._plain, name, value)
        if name in ("autocommit", "isolation_level"):
            self._session.transactions.ended_by(committed=True)

    def __enter__(self) -> Any:
        entered = self._plain.__enter__()
        return self if entered is self._plain else entered

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        committed = kind is None and self._session.transactions.exit_commits()
        return self._ending(committed, self._plain.__exit__, kind, error, trace)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._plain(*args, **kwargs)


class Block(Proxy):
    """Records the block of psycopg's Connection.transaction(): a transaction, or a savepoint in one."""

    __slots__ = ("_entered", "_transactions")
    _entered: Any
    _transactions: Transactions

    def __init__(self, plain: Any, transactions: Transactions) -> None:
        set_plain(self, plain)
        _set_transactions(self, transactions)

    def __enter__(self) -> Any:
        entered = self._plain.__enter__()
        _set_entered(self, entered)
        self._transactions.update("savepoint" if entered.savepoint_name else "begin")
        return entered

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        transactions = self._transactions
        committed = kind is None and not self._entered.force_rollback and transactions.before_end()
        try:
            result = self._plain.__exit__(kind, error, trace)
        except BaseException:
            transactions.ended_by(committed=False)
            raise
        transactions.ended_by(committed)
        if transactions.active is not None:
            if not committed:
                transactions.update("rollback", "ROLLBACK TO")
            transactions.update("release")
        return result


class ShortConnection(Connection):
    """A connection with execute(), as sqlite3 has it: it makes a cursor and executes the statement."""

    __slots__ = ()

    def _cursor(self) -> Cursor:
        return Cursor(self._plain.cursor(), self)

    def execute(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return self._cursor().execute(sql, *args, **kwargs)

    def executemany(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return self._cursor().executemany(sql, *args, **kwargs)

    def executescript(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        return self._cursor().executescript(sql, *args, **kwargs)


class CursorConnection(ShortConnection):
    """A connection that is its own cursor, as in DuckDB. Its cursor() is another connection, with its own transactions."""

    __slots__ = ("_last",)
    _last: Cursor | None

    def __init__(self, plain: Any, name: str | None, schema: str | None, dialect: str | None) -> None:
        super().__init__(plain, name, schema, dialect)
        _set_last(self, None)

    def _cursor(self) -> Cursor:
        _set_last(self, None)  # ends its statement
        made = Cursor(self._plain, self)
        _set_last(self, made)
        return made

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        session = self._session
        return CursorConnection(self._plain.cursor(*args, **kwargs), session.name, session.schema, session.dialect)

    def execute(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        super().execute(sql, *args, **kwargs)
        return self

    def executemany(self, sql: Any, *args: Any, **kwargs: Any) -> Any:
        super().executemany(sql, *args, **kwargs)
        return self

    def _rows_of(self) -> Any:
        return self._plain if self._last is None else self._last

    def fetchone(self) -> Any:
        return self._rows_of().fetchone()

    def fetchmany(self, *args: Any, **kwargs: Any) -> Any:
        return self._rows_of().fetchmany(*args, **kwargs)

    def fetchall(self) -> Any:
        return self._rows_of().fetchall()

    def close(self) -> Any:
        _set_last(self, None)
        return super().close()


def _wrapped(plain: Any, name: str | None, schema: str | None, dialect: str | None) -> Connection:
    if hasattr(plain, "execute"):
        return (CursorConnection if hasattr(plain, "fetchone") else ShortConnection)(plain, name, schema, dialect)
    return Connection(plain, name, schema, dialect)


class Module(Proxy):
    """A DB-API module whose connections are recorded."""

    __slots__ = ("_dialect", "_name", "_schema")
    _name: str | None
    _schema: str | None
    _dialect: str | None

    def __init__(self, plain: Any, name: str | None, schema: str | None, dialect: str | None) -> None:
        set_plain(self, plain)
        _set_name(self, name)
        _set_schema(self, schema)
        _set_dialect(self, dialect)

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        plain = self._plain.connect(*args, **kwargs)
        return _wrapped(plain, self._name, self._schema or _schema_of(plain, args, kwargs), self._dialect)


_set_connection = Cursor.__dict__["_connection"].__set__
_set_session = Cursor.__dict__["_session"].__set__
_set_connection_session = Connection.__dict__["_session"].__set__
_set_entered = Block.__dict__["_entered"].__set__
_set_transactions = Block.__dict__["_transactions"].__set__
_set_last = CursorConnection.__dict__["_last"].__set__
_set_name = Module.__dict__["_name"].__set__
_set_schema = Module.__dict__["_schema"].__set__
_set_dialect = Module.__dict__["_dialect"].__set__


def _schema_of(plain: Any, args: Any, kwargs: Any) -> str | None:
    """Returns the name of the database, from the arguments of connect() or from the connection."""
    given: Any = None
    for keyword in ("database", "dbname", "db"):
        given = given or kwargs.get(keyword)
    if given is None and (hasattr(plain, "in_transaction") or hasattr(plain, "fetchone")) and args:
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


def dbapi(module_or_connection: Any, *, name: str | None = None, schema: str | None = None, dialect: str | None = None) -> Any:
    """Returns a DB-API 2 module, or a connection, that works as the plain one and records its statements and transactions.

        import sqlite3
        db = pfs.dbapi(sqlite3).connect("shop.db")
        db.execute("SELECT * FROM orders WHERE id = ?", (7,)).fetchall()
        pfs.table("events_statements_summary_by_digest")

    Each execute(), executemany(), executescript() and callproc() is a statement: ``statement/sql/<first keyword>`` (``other`` if
    the keyword is rare), with SQL_TEXT, its digest, CURRENT_SCHEMA (name of the database), ROWS_AFFECTED (rowcount) and
    ROWS_SENT (rows that were fetched). A statement with rows lasts from its execution to its last row: until a fetch finds no
    more, or the cursor is closed, used again, or collected. Events that begin in between are not nested in it. An exception is an
    error of the statement, with the number of the driver, and propagates unchanged.

    Transactions are rows of ``events_transactions_*``, from the statement that begins a transaction to commit() or rollback(), or
    to the statement or method that does the same. sqlite3, psycopg, psycopg2, PyMySQL, mysql.connector and oracledb say whether a
    transaction is active, so their rows match the database: also autocommit, implicit commits, and commits that roll back. The
    rows of MySQLdb and DuckDB follow the texts of the statements. Other drivers begin a transaction with the first statement, as
    DB-API wants it, unless ``autocommit`` is true. A statement in autocommit mode is no transaction here. Closing the connection
    rolls back. A statement in a transaction has it as its parent. ``SAVEPOINT``, ``RELEASE`` and ``ROLLBACK TO`` count in it.
    PyMySQL and MySQLdb cannot know whether a SELECT reads a table that has transactions.

    All other attributes, also those that are set, belong to the plain object, and ``isinstance`` sees its class. Extensions in C
    may need the plain object itself, which is ``.plain``: ``sqlite3.Cursor(connection.plain)``. Row factories and other callbacks
    of the driver get the plain cursor or connection. Copies and pickles are those of the plain object. Connections and cursors
    are as thread-safe as the plain ones. A statement and a transaction count in the thread that began them, and are lost
    (``Performance_schema_locker_lost``) if another thread ends them.

    Args:
        module_or_connection: an object with connect(), or with cursor().
        name: the instrument of all statements instead: "component/name", such as "sql/reports".
        schema: CURRENT_SCHEMA instead of the name of the database.
        dialect: the language of the statements, as ``pfs.digest`` has it, for a driver that pfs does not know. Most drivers of
            MySQL, PostgreSQL, SQLite, SQL Server, Oracle and DuckDB are known by their package.

    Raises:
        TypeError: it has neither connect() nor cursor().
        InvalidValue: the name breaks the rules of instrument names; an unknown dialect.
    """
    if name is not None or dialect is not None:
        statement(name or "sql/other", dialect=dialect)
    if schema is not None and not isinstance(schema, str):
        raise InvalidValue(f"bad schema {schema!r}: legal is a str, or None")
    is_module = isinstance(module_or_connection, ModuleType)  # the module of DuckDB has a cursor(), too
    if not is_module and callable(getattr(module_or_connection, "cursor", None)):
        return _wrapped(module_or_connection, name, schema or _schema_of(module_or_connection, (), {}), dialect)
    if is_module or callable(getattr(module_or_connection, "connect", None)):
        return Module(module_or_connection, name, schema, dialect)
    raise TypeError(f"{module_or_connection!r} is no DB-API module and no connection: it has neither connect() nor cursor()")
