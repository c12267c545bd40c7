"""Writes the error log of the program: table ``error_log``, a ring buffer of the last 5 MiB.

pfs.log("the queue is nearly full", "Warning", code="APP-000042", subsystem="queue")

logging.getLogger().addHandler(pfs.LoggingHandler())          # whatever the standard logging module gets
logging.getLogger("queue").warning("nearly full", extra={"error_code": "APP-000042"})
"""

from __future__ import annotations

import logging

from pfs import _core
from pfs.errors import InvalidValue

__all__ = ["LoggingHandler", "log", "logging_handler"]

_PRIORITIES = ("System", "Error", "Warning", "Note")
_ERROR, _WARNING, _NOTE = 1, 2, 3


def log(message: str, prio: str = "Note", *, code: str | None = None, subsystem: str | None = None) -> None:
    """Adds a row to ``error_log``.

    Args:
        message: DATA, cut at 65535 bytes.
        prio: System, Error, Warning or Note.
        code: ERROR_CODE, such as "APP-000042"; cut at 10 bytes.
        subsystem: SUBSYSTEM; cut at 7 bytes.

    Raises:
        InvalidValue: no such `prio`. An event that cannot be kept raises nothing: it is counted in
            ``Performance_schema_error_log_lost``.
    """
    for number, name in enumerate(_PRIORITIES):
        if str(prio).lower() == name.lower():
            _core.log(number, code, subsystem, str(message))
            return
    raise InvalidValue(f"PRIO is one of {', '.join(_PRIORITIES)}, not {prio!r}")


class LoggingHandler(logging.Handler):
    """Handles records of the standard ``logging``: each record becomes a row of ``error_log``.

    PRIO is Error from ERROR on, Warning from WARNING on, else Note. SUBSYSTEM is the beginning of the logger's name, ERROR_CODE
    the record's ``error_code`` if it has one (``extra={"error_code": ...}``), THREAD_ID the thread that logs. DATA is what the
    formatter makes: by default the message, then the text of an exception.
    """

    __module__ = "pfs"  # where users find it

    def emit(self, record: logging.LogRecord) -> None:
        """Logs one record."""
        try:
            number = _ERROR if record.levelno >= logging.ERROR else _WARNING if record.levelno >= logging.WARNING else _NOTE
            code = getattr(record, "error_code", None)
            _core.log(number, None if code is None else str(code), record.name, self.format(record))
        except RecursionError:  # handlers of the standard library do the same
            raise
        except Exception:
            self.handleError(record)


def logging_handler(level: int | str = logging.NOTSET) -> LoggingHandler:
    """Returns a new handler for ``Logger.addHandler``: see ``LoggingHandler``."""
    return LoggingHandler(level)
