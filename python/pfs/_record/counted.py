"""Counts events without a duration: exceptions by class, and status variables of the program."""

from __future__ import annotations

from pfs import _core
from pfs._core import StatusVariable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["StatusVariable", "handled", "raised", "register_status"]

_GENERATORS = 0x20 | 0x200  # code flags of generators and asynchronous generators
_COROUTINE = 0x80


class raised(_core.ErrorCounter):
    """Counts the exceptions that leave a block or a function, by class, in ``events_errors_summary_*``.

        with pfs.raised():
            parse(text)

        @pfs.raised()
        async def answer(request): ...

        try:
            with pfs.raised(handled=True):     # raised and handled
                connect()
        except OSError:
            retry()

    Every exception counts, ``KeyboardInterrupt`` and ``asyncio.CancelledError`` among them, once for each block that it leaves,
    and goes on as it is. A class has a row from its first exception on: ERROR_NAME is "module.Name", cut to 64 bytes, SQL_STATE
    is HY000, and ERROR_NUMBER is made from the whole name and is the same in every process. An object may be used again, in
    several threads at once. Errors with numbers of their own: ``pfs_register_error`` of the C API.

    Args:
        handled: whether they count in SUM_ERROR_HANDLED as well, because the caller catches them.

    Raises:
        TypeError: a generator function is decorated, which raises later; use ``with`` inside of it.
    """

    __module__ = "pfs"  # where users find it
    __slots__ = ()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        from functools import wraps

        code = getattr(function, "__code__", None)
        flags = 0 if code is None else code.co_flags
        if flags & _GENERATORS:
            raise TypeError(f"pfs.raised cannot decorate {function!r}, which raises later: use 'with' inside of it")
        counter = self
        if flags & _COROUTINE:

            @wraps(function)
            async def awaiting(*args: P.args, **kwargs: P.kwargs) -> object:
                with counter:
                    return await function(*args, **kwargs)  # type: ignore[misc]

            return awaiting  # type: ignore[return-value]

        @wraps(function)
        def counting(*args: P.args, **kwargs: P.kwargs) -> R:
            with counter:
                return function(*args, **kwargs)

        return counting

    def __repr__(self) -> str:
        return "pfs.raised(handled=True)" if self.handled else "pfs.raised()"


def handled(error: BaseException | type[BaseException]) -> None:
    """Counts an exception that was caught in SUM_ERROR_HANDLED of its class.

        try:
            with pfs.raised():
                connect()
        except OSError as error:
            pfs.handled(error)

    Raises:
        TypeError: it is no exception.
    """
    _core.handled(error)


def register_status(name: str, documentation: str = "") -> StatusVariable:
    """Registers a status variable: a number of the program, which pfs keeps by thread.

        requests = pfs.register_status("Requests_done", "Requests that were answered.")
        requests.add()
        pfs.status["Requests_done"]

    Rows of ``status_by_thread``, ``status_by_account``, ``status_by_user``, ``status_by_host``, ``session_status`` (what the
    calling thread counted) and ``global_status`` (the sum). ``pfs.truncate("global_status")`` sets it to zero in all of them. No
    consumer and no INSTRUMENTED = NO turns it off. A forked child starts from zero.

    Args:
        name: 1 to 64 bytes. The same name again, in upper or lower case, is the same variable.
        documentation: one sentence.

    Returns:
        An object whose ``add(n=1)`` adds to the calling thread's value. A variable beyond the capacity counts nothing
        (``Performance_schema_status_variables_lost``).

    Raises:
        InvalidValue: control characters or '%' in the name, or it begins with ``Performance_schema_``.
    """
    return StatusVariable(name, documentation)
