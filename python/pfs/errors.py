"""The errors that pfs raises. Every message says what was wrong, what is legal, and, for names, the nearest one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AlreadyExists",
    "AttachError",
    "Error",
    "InvalidValue",
    "LimitReached",
    "OperationNotAllowed",
    "StateError",
    "UnknownColumn",
    "UnknownName",
    "UnknownTable",
]


class Error(Exception):
    """All errors of pfs derive from it. A call that raises has changed nothing."""

    @property
    def _render_traceback_(self) -> Callable[[], list[str]]:
        """Is what IPython calls if it is there, and shows one line then: the message says all to who typed the call.

        Raises:
            AttributeError: a function of the user's own called pfs, so that the whole traceback is needed.
        """
        callers, trace = 0, self.__traceback__
        while trace is not None:
            callers += not str(trace.tb_frame.f_globals.get("__name__")).startswith(("pfs.", "IPython."))
            trace = trace.tb_next
        if callers > 1 or self.__cause__ is not None:
            raise AttributeError
        return lambda: [f"{type(self).__name__}: {self}"]


class InvalidValue(Error, ValueError):
    """A value, or a name to be registered, breaks its rule."""


class UnknownName(Error, LookupError):
    """There is no instrument, consumer, timer, option or row of this name."""


class UnknownTable(UnknownName):
    """There is no table of this name."""


class UnknownColumn(UnknownName):
    """The table has no column of this name."""


class OperationNotAllowed(Error):
    """The table does not permit this: TRUNCATE of a list of objects, an update of a read-only column ..."""


class AlreadyExists(Error):
    """A row with this key is there already."""


class LimitReached(Error):
    """A limit that was fixed at start is reached; the message names the variable."""


class StateError(Error, RuntimeError):
    """The call comes too late or too early: options after the first use, for example."""


class AttachError(Error):
    """The file is no readable segment of this version."""
