"""Adds what clients and dashboards expect of a server to global_status and global_variables. Other tables have the numbers."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import TYPE_CHECKING

from pfs import _core
from pfs._sql.functions import MYSQL

if TYPE_CHECKING:
    from pfs._serve.sources import Source

__all__ = ["ADDED", "VERSION", "added_status", "added_variables"]

VERSION = f"{'.'.join(map(str, MYSQL))}-pfs-{_core.__version__}"  # clients decide by the first numbers what they may ask


def _sum(table: str, column: str) -> Callable[[Source], int]:
    return lambda source: sum(int(value or 0) for (value,) in source.rows(table, [column]))


def _connections(source: Source) -> int:
    """Counts sessions of users. The account without a user is that of the program's own threads."""
    return sum(int(total or 0) for user, total in source.rows("accounts", ["USER", "TOTAL_CONNECTIONS"]) if user is not None)


def _connected(source: Source) -> int:
    return sum(1 for (number,) in source.rows("threads", ["PROCESSLIST_ID"]) if number is not None)


def _running(source: Source) -> int:
    ends = source.rows("events_statements_current", ["EVENT_ID", "END_EVENT_ID", "NESTING_EVENT_LEVEL"])
    return sum(1 for _, end, level in ends if end is None and not level)


_STATEMENTS = _sum("events_statements_summary_global_by_event_name", "COUNT_STAR")
_STATUS: dict[str, Callable[[Source], int]] = {
    "Bytes_received": _sum("socket_summary_by_event_name", "SUM_NUMBER_OF_BYTES_READ"),
    "Bytes_sent": _sum("socket_summary_by_event_name", "SUM_NUMBER_OF_BYTES_WRITE"),
    "Connections": _connections,
    "Open_files": _sum("file_instances", "OPEN_COUNT"),
    "Queries": _STATEMENTS,
    "Questions": _STATEMENTS,
    "Threads_connected": _connected,
    "Threads_running": _running,
    "Uptime": lambda source: source.uptime(),
}


def added_status(source: Source) -> dict[str, str]:
    return {name: str(value(source)) for name, value in _STATUS.items()}


def added_variables(source: Source) -> dict[str, str]:
    return {
        "hostname": source.hostname(),
        "lower_case_table_names": "0",
        "version": VERSION,
        "version_comment": "pfs",
        "version_compile_machine": platform.machine(),
        "version_compile_os": "Linux",
    }


# By table. A file of ``pfs collect`` has none of them: there they have these rows only.
ADDED: dict[str, Callable[[Source], dict[str, str]]] = {
    "global_status": added_status,
    "global_variables": added_variables,
    "session_status": added_status,
    "session_variables": added_variables,
}
