"""Makes statements of what PyMySQL sends: statement/pymysql/statement."""

from threading import local

import _pfs_run_native as native
from _pfs_run.statements import MYSQL, Keys, clean, is_shared, message_of, number_of, quiet
from _pfs_run.wrapping import replace

# Packages between the program's line and the driver.
_SKIPPED = "pymysql,sqlalchemy,peewee,django,pandas,_pfs_run"


class _Call:
    """A call of a method that sends a statement."""

    handle = None


def _pymysql(module):
    key = Keys("pymysql", MYSQL)["statement"]
    query_command = 3  # COM_QUERY
    calls = local()

    @quiet()
    def begin(connection, sql):
        text = sql if isinstance(sql, str) else bytes(sql).decode("utf-8", "replace")
        schema = connection.db.decode("utf-8", "replace") if isinstance(connection.db, bytes) else connection.db
        return native.begin(key, clean(text), schema and clean(schema)[:64], _SKIPPED, is_shared())

    def entry(original):
        def call(self, *more, **named):
            if getattr(calls, "now", None) is not None:
                return original(self, *more, **named)
            now = calls.now = _Call()
            try:
                result = original(self, *more, **named)
            except BaseException as error:
                if now.handle is not None:
                    message = message_of(error.args[1]) if len(getattr(error, "args", ())) > 1 else type(error).__name__
                    native.end(now.handle, 0, 0, number_of(error), message)
                raise
            else:
                if now.handle is not None:
                    native.end(now.handle, *_counts(self), 0, "")
                return result
            finally:
                calls.now = None

        return call

    def execute(original):
        def _execute_command(self, command, sql):
            now = getattr(calls, "now", None)
            if command == query_command and now is not None and now.handle is None:
                now.handle = begin(self, sql)
            return original(self, command, sql)

        return _execute_command

    for name in ("query", "begin", "commit", "rollback", "show_warnings", "_send_autocommit_mode", "set_character_set"):
        if name in vars(module.Connection):
            replace(module.Connection, name, entry)
    replace(module.Connection, "_execute_command", execute)


@quiet((0, 0))
def _counts(connection):
    """Returns how many rows the last statement sent and how many it affected. Rows that are not stored are not known."""
    result = connection._result
    if result is None:
        return 0, 0
    if result.description is not None:
        return len(result.rows or ()), 0
    affected = result.affected_rows
    return 0, affected if type(affected) is int and 0 < affected < 1 << 63 else 0


PATCHES = {"pymysql.connections": _pymysql}
