"""Makes statements of what asyncpg sends: statement/asyncpg/statement."""

import _pfs_run_native as native
from _pfs_run.statements import POSTGRESQL, Keys, clean, message_of, number_of, quiet
from _pfs_run.wrapping import replace

_SKIPPED = "asyncpg,sqlalchemy,contextlib,_pfs_run"
_key = Keys("asyncpg", POSTGRESQL)


@quiet((0, 0))
def _counts(result):
    """Returns the rows of a result: a list of records, or a status such as INSERT 0 5, alone or in a tuple of three."""
    status = None
    if isinstance(result, tuple) and len(result) == 3:
        result, status = result[0], result[1]
    if isinstance(result, (str, bytes)):
        result, status = None, result
    status = status.decode() if isinstance(status, bytes) else status
    rows = len(result) if isinstance(result, list) else 0
    words = status.split() if isinstance(status, str) else []
    is_change = len(words) > 1 and words[0] in ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY") and words[-1].isdigit()
    return rows, int(words[-1]) if is_change else 0


@quiet()
def _begin(query):
    return native.begin(_key["statement"], clean(str(query)), None, _SKIPPED, True)


async def _run(query, call):
    handle = _begin(query)
    if handle is None:
        return await call
    try:
        result = await call
    except BaseException as error:
        native.end(handle, 0, 0, number_of(error), message_of(error))
        raise
    native.end(handle, *_counts(result), 0, "")
    return result


def _execute(original):
    async def execute(self, query, *args, **named):
        if args:  # goes to _execute()
            return await original(self, query, *args, **named)
        return await _run(query, original(self, query, **named))

    return execute


def _inner(original):
    async def _execute(self, query, *more, **named):
        return await _run(query, original(self, query, *more, **named))

    return _execute


def _prepared(original):
    async def bind_execute(self, *more):
        return await _run(self.get_query(), original(self, *more))

    return bind_execute


def _connection(module):
    replace(module.Connection, "execute", _execute)
    replace(module.Connection, "_execute", _inner)
    replace(module.Connection, "_executemany", _inner)


PATCHES = {
    "asyncpg.connection": _connection,
    "asyncpg.prepared_stmt": lambda module: replace(module.PreparedStatement, "_PreparedStatement__bind_execute", _prepared),
}
