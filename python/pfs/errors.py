"""What pfs raises. Every message says what was wrong, what is legal, and, for names, the nearest one."""

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
    """Base of all errors of pfs. The state is as it was before the call that raised it."""


class InvalidValue(Error, ValueError):
    """A value, or a name to be registered, that breaks its rule."""


class UnknownName(Error, LookupError):
    """No instrument, consumer, timer, option or row of this name."""


class UnknownTable(UnknownName):
    """No table of this name."""


class UnknownColumn(UnknownName):
    """The table has no column of this name."""


class OperationNotAllowed(Error):
    """The table does not permit this: TRUNCATE of a list of objects, an update of a read-only column ..."""


class AlreadyExists(Error):
    """A row with this key is there already."""


class LimitReached(Error):
    """A limit that was fixed at start is reached; the message names the variable."""


class StateError(Error, RuntimeError):
    """Too late or too early for this call: options after the first use, for example."""


class AttachError(Error):
    """The file is no readable segment of this version."""
