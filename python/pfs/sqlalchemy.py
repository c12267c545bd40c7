"""Records statements and transactions of SQLAlchemy engines, through SQLAlchemy's public events.

    import pfs.sqlalchemy
    pfs.sqlalchemy.instrument(engine)

It needs SQLAlchemy 2 (``pip install 'perfschema[sqlalchemy]'``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from pfs._core import RunningStatement, RunningTransaction, statement, transaction
from pfs._record.dbapi.dialects import dialect_of_engine
from pfs._record.dbapi.rows import Rows
from pfs._record.dbapi.wrap import first_keyword
from pfs.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.engine.interfaces import ExceptionContext

__all__ = ["instrument", "uninstrument"]

_ISOLATION = {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
_KEY = "pfs"  # in Connection.info: the transaction that is active


class _Hooks:
    """Listens to the events of one engine."""

    def __init__(self, engine: Engine, name: str | None, schema: str | None) -> None:
        self.engine, self.name = engine, name
        self.schema = schema or engine.url.database or None
        self.dialect = dialect_of_engine(engine.dialect.name)
        self.made: dict[str, statement] = {}
        self.listeners: dict[str, Callable[..., Any]] = {
            "before_cursor_execute": self.before,
            "after_cursor_execute": self.after,
            "handle_error": self.error,
            "begin": self.begin,
            "begin_twophase": self.begin_twophase,
            "commit": self.commit,
            "commit_twophase": self.commit_twophase,
            "rollback": self.rollback,
            "rollback_twophase": self.rollback_twophase,
            "savepoint": self.savepoint,
            "rollback_savepoint": self.rollback_savepoint,
            "release_savepoint": self.release_savepoint,
        }

    def before(self, connection: Connection, cursor: Any, sql: str, parameters: Any, context: Any, many: bool) -> None:
        name = self.name or f"sql/{first_keyword(sql)}"
        if type(context.cursor) is Rows:  # the batch before this one, whose rows SQLAlchemy has fetched by itself
            context.cursor._finish()
        made = self.made.get(name) or self.made.setdefault(name, statement(name, schema=self.schema, dialect=self.dialect))
        context._pfs_run = made.begin(sql)

    def after(self, connection: Connection, cursor: Any, sql: str, parameters: Any, context: Any, many: bool) -> None:
        run: RunningStatement | None = context.__dict__.pop("_pfs_run", None)
        if run is None:
            return
        if cursor.description is not None:
            # The result takes its cursor from here.
            context.cursor = Rows(cursor, run, context.isinsert or context.isupdate or context.isdelete)
            run.suspend()
            return
        if cursor.rowcount > 0:
            run.rows_affected = cursor.rowcount
        run.end()

    def error(self, context: ExceptionContext) -> None:
        execution = context.execution_context
        run: RunningStatement | None = None if execution is None else execution.__dict__.pop("_pfs_run", None)
        if run is not None:
            run.end(context.original_exception)

    def begin(self, connection: Connection) -> None:
        # Set for the connection, or for the engine; else the database's own. Asking the connection would ask the database.
        level = connection.get_execution_options().get("isolation_level") or getattr(
            connection.dialect, "_on_connect_isolation_level", None
        )
        level = str(level or connection.default_isolation_level or "").replace("_", " ").upper()
        if level == "AUTOCOMMIT":  # the driver commits each statement: SQLAlchemy's BEGIN begins nothing
            connection.info.pop(_KEY, None)
            return
        connection.info[_KEY] = transaction(level if level in _ISOLATION else None).begin()

    def begin_twophase(self, connection: Connection, xid: Any) -> None:
        self.begin(connection)

    def commit_twophase(self, connection: Connection, xid: Any, is_prepared: bool) -> None:
        self.commit(connection)

    def rollback_twophase(self, connection: Connection, xid: Any, is_prepared: bool) -> None:
        self.rollback(connection)

    def _active(self, connection: Connection) -> RunningTransaction | None:
        active: RunningTransaction | None = connection.info.get(_KEY)
        return active

    def commit(self, connection: Connection) -> None:
        if (active := self._active(connection)) is not None:
            active.commit()

    def rollback(self, connection: Connection) -> None:
        if (active := self._active(connection)) is not None:
            active.rollback()

    def savepoint(self, connection: Connection, name: str) -> None:
        if (active := self._active(connection)) is not None:
            active.savepoint()

    def rollback_savepoint(self, connection: Connection, name: str, context: None) -> None:
        if (active := self._active(connection)) is not None:
            active.rollback_to_savepoint()

    def release_savepoint(self, connection: Connection, name: str, context: None) -> None:
        if (active := self._active(connection)) is not None:
            active.release_savepoint()


_hooks: dict[int, _Hooks] = {}


def instrument(engine: Engine, *, name: str | None = None, schema: str | None = None) -> None:
    """Records every later statement of the engine, as ``pfs.dbapi`` does.

    A statement is an event ``statement/sql/<first keyword>`` from the call of the driver's cursor to its return. If it has rows,
    the event lasts to the last row or the end of the result. It has the text, CURRENT_SCHEMA, ROWS_SENT (rows that were fetched
    from the driver), ROWS_AFFECTED and errors. Events that begin while rows are fetched are not nested in it. Rows that
    SQLAlchemy fetches by itself, of an INSERT ... RETURNING that it sends in batches, are not counted as sent. Transactions of
    its connections are rows of ``events_transactions_*``; the isolation level AUTOCOMMIT has no transactions. SQLAlchemy reports
    a commit before it happens: a commit that the database refuses counts as committed.

    Args:
        engine: an Engine; of an AsyncEngine its ``sync_engine``.
        name: the instrument of all statements instead: "component/name".
        schema: CURRENT_SCHEMA instead of the database of the engine's URL.

    Raises:
        StateError: the engine is instrumented already.
        InvalidValue: the name breaks the rules of instrument names.
    """
    if name is not None:
        statement(name)
    hooks = _Hooks(engine, name, schema)
    if _hooks.setdefault(id(engine), hooks) is not hooks:  # in one step: two threads may come without the GIL
        raise StateError(f"{engine!r} is instrumented already")
    for what, function in hooks.listeners.items():
        event.listen(engine, what, function)


def uninstrument(engine: Engine) -> None:
    """Ends the recording of an engine.

    Raises:
        StateError: it is not instrumented.
    """
    hooks = _hooks.pop(id(engine), None)
    if hooks is None:
        raise StateError(f"{engine!r} is not instrumented")
    for what, function in hooks.listeners.items():
        event.remove(engine, what, function)
