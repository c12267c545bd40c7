"""Decorates functions and reads exceptions for pfs.statement, pfs.stage and pfs.transaction, which are compiled."""

from __future__ import annotations

from functools import wraps
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

UNKNOWN_ERROR, UNKNOWN_STATE = 1105, "HY000"


def decorated(block: AbstractContextManager[object], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `function` with a block around each call, or around each run of the coroutine if it is a coroutine function."""
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & (CO_GENERATOR | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE):
        raise TypeError(f"{block!r} cannot decorate {function!r}, which yields: use 'with' around the part that counts")
    if flags & CO_COROUTINE:

        @wraps(function)
        async def running_later(*args: Any, **kwargs: Any) -> Any:
            with block:
                return await function(*args, **kwargs)

        return running_later

    @wraps(function)
    def running(*args: Any, **kwargs: Any) -> Any:
        with block:
            return function(*args, **kwargs)

    return running


def error_facts(error: BaseException) -> tuple[int, str, str]:
    """Returns MYSQL_ERRNO, RETURNED_SQLSTATE and MESSAGE_TEXT of an exception, from attributes that drivers and Python set."""
    first = error.args[0] if error.args else None
    number = UNKNOWN_ERROR
    for candidate in (getattr(error, "sqlite_errorcode", None), getattr(error, "errno", None), first):
        if isinstance(candidate, int) and not isinstance(candidate, bool) and 0 < candidate < 1 << 31:
            number = candidate
            break
    state = UNKNOWN_STATE
    for candidate in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None)):
        if isinstance(candidate, str) and len(candidate) == 5 and candidate.isascii() and candidate.isalnum():
            state = candidate
            break
    try:
        said = str(error)
    except Exception:
        said = ""
    message = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return number, state, message.replace("\0", " ")
